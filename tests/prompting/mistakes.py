"""Typical mistakes of program writers, with the words that their feedback must contain.

Each :class:`Mistake` is run in the real sandbox on fake models. ``python -m
tests.prompting.mistakes FOLDER`` writes the whole prompt after each of them, as a writer reads it,
to ``FOLDER/NAME.prompt.txt``, and a correction that answers the query to ``FOLDER/NAME.mended.py``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.strategies.bench import Bench, picture
from viper.models.llm.messages import as_text
from viper.run_result import RunResult
from viper.sandbox import Limits

HOW_MANY = "How many cubes are there?"

# Words of the machinery or for the people who run it, which help no writer.
NEVER = (
    *("ImageHandle", "VideoHandle", "Ref(", "fields=", "_guard", "prelude"),
    *("FINAL_RESULT", "list of these", "gave no answer", "a ImagePatch", "`input`;"),
    *("max_tokens", "in_pixels", "y_first", "endpoint", "another model", "Traceback"),
)


@dataclass(frozen=True)
class Mistake:
    """A program that gives no answer.

    Attributes:
        program: the body of ``execute_command(image)``, or a whole reply.
        says: texts that the feedback must contain.
        mended: the body of a program that answers the query.
        finish_reason: the reason why the reply ended.
    """

    name: str
    program: str
    says: tuple[str, ...]
    mended: str = "return len(ImagePatch(image).find('cube'))"
    query: str = HOW_MANY
    finish_reason: str = "stop"

    @property
    def reply(self) -> str:
        """Return the reply of the writer."""
        return self.program if "\n```" in self.program else fenced(self.program)


def fenced(program: str) -> str:
    """Return a program as a reply; a body gets the entry point around it."""
    if "def " not in program.split("\n")[0] and not program.startswith(("class ", "import ")):
        lines = "\n".join(f"    {line}" for line in program.splitlines())
        program = f"def execute_command(image):\n    image_patch = ImagePatch(image)\n{lines}"
    return f"```python\n{program}\n```"


CUBE = "cube = image_patch.find('cube')[0]"
FIND = "find(object_name: str) -> list[ImagePatch]"
GROUND = {"query": "the cube", "mended": "return ImagePatch(image).find('cube')[0]"}
COLOUR = {"query": "What is written on the cube?", "mended": "return 'red'"}

MISTAKES = (
    # Names
    Mistake(
        "attribute_bbox",
        f"{CUBE}\nreturn ImagePatch(image, *cube.bbox)",
        ("left, lower, right, upper", "no attribute 'bbox'.\nAttributes"),
        **GROUND,
    ),
    Mistake(
        "attribute_x1",
        f"{CUBE}\nreturn image_patch.crop(cube.x1, cube.y1, cube.x2, cube.y2)",
        ("left, lower, right, upper", "no attribute 'x1'.\n"),
        **GROUND,
    ),
    Mistake(
        "attribute_confidence",
        "return sum(p.confidence > .5 for p in image_patch.find('cube'))",
        ("horizontal_center", "no attribute 'confidence'.\n"),
    ),
    Mistake("attribute_center", f"{CUBE}\nreturn round(cube.center_x)", ("horizontal_center",)),
    Mistake(
        "misspelt_method",
        "return image_patch.simple_querry('what is written?')",
        ("\nDid you mean `simple_query`",),
        **COLOUR,
    ),
    Mistake(
        "misspelt_attribute",
        f"{CUBE}\nreturn image_patch.crop(cube.lefts, cube.lower, cube.right, cube.upper)",
        ("\nDid you mean `left`",),
        **GROUND,
    ),
    Mistake(
        "method_of_a_video",
        "return len(list(image_patch.frame_iterator()))",
        ("`frame_iterator`", "belongs to VideoSegment, and this is of type ImagePatch."),
    ),
    Mistake(
        "function_as_a_method",
        "return image_patch.distance(image_patch.find('cube')[0])",
        ("distance(", "is a function"),
    ),
    Mistake(
        "method_as_a_function", "return len(find(image, 'cube'))", ("method of ImagePatch", FIND)
    ),
    Mistake("image_is_no_patch", "return len(image.find('cube'))", ("ImagePatch(image)",)),
    Mistake(
        "property_called", f"{CUBE}\nreturn round(cube.left())", ("`left`", "without parentheses")
    ),
    Mistake(
        "method_not_called",
        "return image_patch.simple_query.lower()",
        ("`simple_query` is a method: call it", "simple_query(question: str"),
        **COLOUR,
    ),
    Mistake("method_without_parentheses", "return len(image_patch.find)", ("is a method", FIND)),
    Mistake(
        "counter_without_import",
        "return Counter(p.label for p in image_patch.find('cube'))['cube']",
        ("from collections import Counter",),
    ),
    Mistake(
        "module_without_import",
        "return math.floor(len(image_patch.find('cube')))",
        ("import math",),
    ),
    Mistake(
        "numpy_without_import",
        "return int(np.sum([1 for p in image_patch.find('cube')]))",
        ("import numpy as np",),
    ),
    Mistake(
        "misspelt_variable",
        "cubes = image_patch.find('cube')\nreturn len(cubs)",
        ("\nDid you mean `cubes`",),
    ),
    Mistake(
        "invented_function",
        "return count_objects(image, 'cube')",
        ("count_objects", ": ImagePatch, ImagePatch.find"),
    ),
    # None and empty lists
    Mistake(
        "none_is_asked",
        "big = next((p for p in image_patch.find('cube') if p.width > 90), None)\n"
        "return len(big.find('cube'))",
        ("`big` is None: nothing in `image_patch.find('cube')` in line 3 fitted",),
    ),
    Mistake(
        "helper_without_return",
        "def largest(patches):\n    max(patches, key=lambda p: p.area)\n\n"
        "def execute_command(image):\n    best = largest(ImagePatch(image).find('cube'))\n"
        "    return len(best.find('cube'))",
        ("`best` is None: `largest` in line 1 returns nothing on some path",),
    ),
    Mistake(
        "best_of_a_loop",
        "best = None\ncubes = image_patch.find('cube')\nfor p in cubes:\n    if p.width > 90:\n"
        "        best = p\nreturn round(best.width)",
        ("`best` is None: nothing in `cubes` in line 5 fitted",),
    ),
    Mistake(
        "first_of_nothing",
        "return round(image_patch.find('egg')[0].area)",
        ("'egg') -> nothing", "IndexError", "`find('egg')` found nothing; check for an empty"),
    ),
    Mistake(
        "max_of_nothing",
        "return round(max(p.area for p in image_patch.find('egg')))",
        ("'egg') -> nothing", "max() ", "`find('egg')` found nothing; check for an empty"),
    ),
    Mistake(
        "division_by_nothing",
        "eggs = image_patch.find('egg')\nreturn round(sum(p.area for p in eggs) / len(eggs))",
        ("ZeroDivisionError", "`find('egg')` found nothing; check for an empty list first"),
    ),
    # Arguments
    Mistake(
        "unknown_keyword", "return len(image_patch.find('cube', threshold=.3))", ("threshold", FIND)
    ),
    Mistake(
        "too_few_arguments",
        "return image_patch.verify_property('red')",
        ("verify_property(object_name: str, visual_property: str) -> bool",),
        query="Is the cube red?",
        mended="return ImagePatch(image).verify_property('cube', 'red')",
    ),
    Mistake("no_argument", "return len(image_patch.find())", (FIND,)),
    Mistake(
        "arguments_in_a_wrong_order",
        "return image_patch.best_text_match('word', ['one', 'two'])",
        ("best_text_match(option_list: Sequence[str], prefix: str | None = None) -> str",),
        **COLOUR,
    ),
    Mistake(
        "text_for_a_patch",
        "return round(distance('cube', image_patch.find('cube')[0]))",
        ("`distance(patch_a: ImagePatch", "must be no text: `'cube'`."),
    ),
    Mistake(
        "patch_for_numbers",
        "a, b = image_patch.find('cube')\nreturn a.overlaps_with(b)",
        ("overlaps_with(left: float, lower: float, right: float, upper: float) -> bool",),
        query="Do the cubes overlap?",
        mended="a, b = ImagePatch(image).find('cube')\n"
        "return a.overlaps_with(b.left, b.lower, b.right, b.upper)",
    ),
    # Values
    Mistake(
        "text_compared_with_a_number",
        "return image_patch.simple_query('How many cubes?') > 1",
        ("'>' not supported", "simple_query(", "-> str"),
        query="Are there two cubes?",
        mended="return len(ImagePatch(image).find('cube')) == 2",
    ),
    Mistake(
        "number_of_a_word",
        "return int(image_patch.simple_query('How many cubes?'))",
        (
            "The text was 'unknown'.",
            "`len(image_patch.find(...))`, or read a number with `coerce_to",
        ),
    ),
    Mistake(
        "patches_sorted",
        "return sorted(image_patch.find('cube'))[0]",
        ("'<' not supported", "ImagePatch", "key="),
        **GROUND,
    ),
    Mistake(
        "patch_as_an_array",
        "return image_patch[0:10, 0:10]",
        ("ImagePatch", "not subscriptable"),
        **GROUND,
    ),
    Mistake(
        "patch_assigned",
        f"{CUBE}\ncube.label = 'x'\nreturn cube",
        ("cannot be assigned", "line 4"),
        **GROUND,
    ),
    # Answers
    Mistake(
        "no_return",
        "n = len(image_patch.find('cube'))",
        ("It failed.\nThe program returned nothing; expected",),
    ),
    Mistake(
        "print_instead_of_return",
        "print(len(image_patch.find('cube')))",
        ("It printed:\n2", "returned nothing"),
    ),
    Mistake(
        "patches_for_a_number",
        "return image_patch.find('cube')",
        ("Its answer was not accepted.\nThe program returned [patch, patch]", "or a number.\n"),
    ),
    Mistake(
        "text_for_a_box",
        "return 'the cube at the top'",
        ("not accepted.\nThe program returned str", "expected one ImagePatch."),
        **GROUND,
    ),
    Mistake(
        "error_swallowed",
        "try:\n    return image_patch.count('cube')\n"
        "except Exception as e:\n    print(e)\n    return 'unknown'",
        ("It printed:", "has no attribute 'count'"),
    ),
    Mistake(
        "another_name",
        "def solve(image):\n    return len(ImagePatch(image).find('cube'))",
        ("must define `execute_command` outside of classes; rename `solve` to execute_command.",),
    ),
    Mistake(
        "class_around_it",
        "class Program:\n    def execute_command(self, image):\n"
        "        return len(ImagePatch(image).find('cube'))",
        ("must define `execute_command` outside of classes.",),
    ),
    Mistake(
        "two_definitions",
        "def execute_command(image):\n    return len(ImagePatch(image).find('cube'))\n\n"
        "def execute_command(image):\n    pass",
        ("twice", "returned nothing"),
    ),
    Mistake(
        "async_def",
        "async def execute_command(image):\n    return len(ImagePatch(image).find('cube'))",
        ("async",),
    ),
    # Limits
    Mistake("endless_loop", "n = 0\nwhile n >= 0:\n    n += 1\nreturn n", ("longer than", "line")),
    Mistake(
        "too_many_calls",
        "while not image_patch.exists('egg'):\n    pass\nreturn 1",
        ("tool calls.", "'egg') -> False (40 times)"),
    ),
    Mistake(
        "recursion",
        "def count(patch):\n    return 1 + count(patch)\n\n"
        "def execute_command(image):\n    return count(ImagePatch(image))",
        ("recurses too deeply", "line 2"),
    ),
    # The language
    Mistake(
        "forbidden_import",
        "image_patch.find('cube')\nimport os\nreturn len(os.listdir('.'))",
        ("`import os`", "they may import bisect, collections"),
    ),
    Mistake(
        "open_a_file", "return open('n.txt').read()", ("open is not available to programs.\n",)
    ),
    Mistake("input", "return int(input())", ("input is not available to programs.\n",)),
    Mistake("eval", "return eval('1 + 1')", ("eval is not available to programs.\n",)),
    Mistake("unclosed_bracket", "return len(image_patch.find('cube')", ("never closed", "line 3")),
    Mistake(
        "quotes_in_an_f_string",
        "name = 'cube\nreturn len(image_patch.find(f'{name}'))",
        ("nterminated string", "line 3"),
    ),
    Mistake(
        "indentation",
        "def execute_command(image):\nreturn len(ImagePatch(image).find('cube'))",
        ("indented block", "line 2"),
    ),
    # Replies without a program
    Mistake(
        "prose",
        "I can see two cubes in the picture, one of them red.\n\nThe answer is 2.\n```\n```",
        ("no program", "The answer is 2.", "execute_command"),
    ),
    Mistake(
        "cut_off",
        "```python\ndef execute_command(image):\n    # First I look at every cube, then\n"
        "    patches = [\n```",
        ("cut off", "shorter"),
        finish_reason="length",
    ),
)


def feedback_after(
    replies: list[str], query: str = HOW_MANY, finish_reason: str = "stop", **settings: Any
) -> tuple[RunResult, Any]:
    """Return the result of the replies and the prompt of the last request.

    Args:
        finish_reason: of the first reply.
    """
    settings = {"feedback": True, "self_tune": False, "trials": len(replies), **settings}
    limits = Limits(time_s=1.0, calls=40)
    with Bench(replies, limits=limits, prompt_style="chat", **settings) as bench:
        generate = bench.llm.generate

        def cut(prompts: Any, sampling: Any) -> Any:
            reason = "stop" if bench.llm.calls else finish_reason
            replies = generate(prompts, sampling)
            return [[replace(one, finish_reason=reason) for one in each] for each in replies]

        bench.llm.generate = cut  # type: ignore[method-assign]
        result = bench.reasoner.run(picture(), query)
        return result, bench.llm.calls[-1].messages


def main(folder: Path) -> None:
    """Write the prompt after each mistake and a correction of it."""
    folder.mkdir(parents=True, exist_ok=True)
    for mistake in MISTAKES:
        replies = [mistake.reply, fenced(mistake.mended)]
        _, prompt = feedback_after(replies, mistake.query, mistake.finish_reason)
        (folder / f"{mistake.name}.prompt.txt").write_text(as_text(prompt), "utf-8")
        mended = fenced(mistake.mended).removeprefix("```python\n").removesuffix("```")
        (folder / f"{mistake.name}.mended.py").write_text(mended, "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
