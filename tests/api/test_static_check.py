"""The static check finds what cannot run and never reports a program that runs right."""

# ruff: noqa: E501 - a program is easier to read on its line
from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

import viper
from tests.api.test_examples import ENTRIES
from tests.sandbox.test_language import PROGRAMS as ORDINARY
from viper.api.library import Library, library_for
from viper.api.registry import REGISTRY, annotation_text
from viper.api.static_check import _ITEMS, _REFUSED, Misuse, _api, api_misuse
from viper.models.media import media_from
from viper.sandbox import Outcome, Sandbox
from viper.testing.routines import arguments, clip, picture, toolbox_of_tables

ROOT = Path(viper.__file__).parents[1]
LIBRARY = Library()

WRONG = {
    # names
    "return nonsense": "the name 'nonsense' is not defined",
    "return len(image_pach.find('cup'))": "did you mean image_patch?",
    "return bool_to_yes_no(True)": "did you mean bool_to_yesno?",
    "patches = find('cup')": "the name 'find' is not defined",
    "return options[0]": "the name 'options' is not defined",
    "return eval('1')": "the name 'eval' is not defined",
    "return open('x').read()": "the name 'open' is not defined",
    "return math.sqrt(4)": "the name 'math' is not defined",
    "return [cups.left for cup in image_patch.find('cup')]": "did you mean cup?",
    "return f'{colour} cup'": "the name 'colour' is not defined",
    "x = lambda p: undefined_thing\nreturn x(1)": "the name 'undefined_thing' is not defined",
    "total += 1\nreturn totals": "did you mean total?",
    # methods and attributes of values of known type
    "return image_patch.fnd('cup')": "ImagePatch has no method or attribute 'fnd'; did you mean find?",
    "return image_patch.centre": "ImagePatch has no method or attribute 'centre'",
    "return image_patch.horizontal_centre": "did you mean horizontal_center?",
    "return image_patch.trim(0, 2)": "ImagePatch has no method or attribute 'trim'",
    "return image_patch.upper()": "upper is a value; write it without ()",
    "return image_patch.width() / 2": "width is a value; write it without ()",
    "return ImagePatch(image).findall('cup')": "did you mean find?",
    "return image_patch.find('cup').left": "its items have it",
    "cups = image_patch.find('cup')\nreturn cups.simple_query('what?')": "list[ImagePatch] has no",
    "return image_patch.find('cup')[0].colour": "ImagePatch has no method or attribute 'colour'",
    "cups = image_patch.find('cup')\nreturn cups[0].lower()": "lower is a value",
    "for cup in image_patch.find('cup'):\n    return cup.strip()": "ImagePatch has no method",
    "return [cup.items() for cup in image_patch.find('cup')]": "no method or attribute 'items'",
    "for cup in image_patch.find('cup')[:2]:\n    return cup.sort()": "no method or attribute",
    "cup = (image_patch.find('cup') or [image_patch])[0]\nreturn cup.name": "ImagePatch has no",
    "cup = None\nfor cup in image_patch.find('cup'):\n    return cup.size": "ImagePatch has no",
    "cup = get_middle_patch(image_patch.find('cup'))\nreturn cup.mean()": "ImagePatch has no",
    "return image_patch.simple_query('what?').exists('cup')": "str has no method",
    "answer = image_patch.simple_query('what?')\nreturn answer.answer": "str has no",
    "return image_patch.crop(0, 0, 9, 9).crop_left('x')": "ImagePatch has no",
    "if (cup := image_patch.crop(0, 0, 9, 9)):\n    return cup.box": "ImagePatch has no",
    "return sort_patches_left_to_right(image_patch.find('cup')).first": "list[ImagePatch] has no",
    # attributes that no value has
    "return max(image_patch.find('cup'), key=lambda p: p.vertical_centre)": "no value has a method",
    "return sorted(image_patch.find('cup'), key=lambda p: p.depth)": "no value has a method",
    "return image.open()": "no value has a method or attribute 'open'",
    "import math\nreturn math.squareroot(4)": "no value has a method or attribute 'squareroot'",
    # numbers and names of arguments
    "return image_patch.find()": "missing a required argument: 'object_name'",
    "return image_patch.find('red', 'cup')": "find takes 1 argument (object_name), got 2",
    "return image_patch.find(name='cup')": "find takes 1 argument (object_name), got 1",
    "return image_patch.exists('cup', object_name='mug')": "multiple values for argument",
    "return image_patch.verify_property('red cup')": "takes 2 arguments",
    "return image_patch.crop(0, 0, 9)": "missing a required argument: 'upper'",
    "return image_patch.caption('what?')": "caption takes 0 arguments (), got 1",
    "return ImagePatch()": "missing a required argument: 'image'",
    "return ImagePatch(image, 0, 0, 9, 9, 9)": "too many positional arguments",
    "return get_patch_left_of(image_patch, 2)": "get_patch_left_of takes 1 argument (patch), got 2",
    "return distance(image_patch)": "distance takes 2 arguments (patch_a, patch_b), got 1",
    "return llm_query()": "missing a required argument: 'question'",
    "return llm_query('a', model='b')": "unexpected keyword argument 'model'",
    "cups = image_patch.find('cup')\nreturn cups[0].exists()": "exists takes 1 argument",
    # types of literals
    "return image_patch.find(3)": "find takes str for object_name, got 3",
    "return image_patch.exists(['cup', 'mug'])": "got ['cup', 'mug']",
    "return image_patch.find([name for name in ('a', 'b')])": "find takes str for object_name",
    "return get_patch_left_of('cup')": "takes ImagePatch for patch, got 'cup'",
    "return distance(image_patch, f'the {1}')": "takes ImagePatch for patch_b",
    "return is_on(patch=[image_patch], support=image_patch)": "takes ImagePatch for patch",
    "return sort_patches_left_to_right('cup')": "takes Sequence[ImagePatch] for list_patches",
    "return image_patch.best_text_match(5)": "takes Sequence[str] for option_list, got 5",
    "return image_patch.simple_query(1.5)": "takes str | None for question, got 1.5",
}
"""Bodies of programs about an image that fail, with a part of the message."""

WRONG_PROGRAMS = {
    "def execute_comand(image):\n    return 1": "the program defines no execute_command()",
    "def main(image):\n    answer = 1\n    return answer": "the program defines no execute_command()",
    "": "the program defines no execute_command()",
    "def execute_command(image, colour):\n    return 1": "no run passes 'colour'",
    "def execute_command(image, querry):\n    return 1": "did you mean query?",
    "answer = ImagePatch(image).fnd('cup')": "ImagePatch has no",
    "BOX0=LOC(image=IMAGE,objekt='cup')\nFINAL_RESULT=BOX0": "LOC takes 2 arguments (image, object)",
    "def execute_command(video):\n    return VideoSegment(video).find('cup')": "VideoSegment has no",
    "def execute_command(video):\n    return VideoSegment(video).trim(1, 2, 3)": "trim takes 2",
    "def execute_command(video):\n    return VideoSegment(video).num_frames()": "is a value",
    "def execute_command(video):\n    for frame in VideoSegment(video).frame_iterator():\n"
    "        return frame.trim()": "ImagePatch has no",
    "def execute_command(video):\n    return VideoSegment(video).frame_at(0)": "VideoSegment has no",
    "def execute_command(video, possible_answers):\n"
    "    return select_answer('it falls', possible_answers)": "select_answer takes 3 arguments",
}

RIGHT = {
    "nested function": "def find(name):\n    return image_patch.find(name)\nreturn len(find('cup'))",
    "closure": "seen = []\ndef see(x):\n    seen.append(x)\nsee('cup')\nreturn seen[0].upper()",
    "recursion": "def f(n):\n    return 1 if n == 0 else n * f(n - 1)\nreturn f(3)",
    "lambda": "by = lambda patch, key=None: patch.left\nreturn by(image_patch, key=3)",
    "walrus": "return [w for p in image_patch.find('cup') if (w := p.width) > 0]",
    "comprehension of comprehensions": "return [b for a in [['x', 'y']] for b in a][0].upper()",
    "loop variable after its loop": "for cup in image_patch.find('cup'):\n    pass\nreturn cup.left",
    "name of except": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    return str(error)",
    "expected errors": "try:\n    return image_patch.fnd(x)\nexcept Exception:\n    return 'none'",
    "error expected by the caller": (
        "def f():\n    return image_patch.fnd('x')\ntry:\n    return f()\nexcept AttributeError:\n"
        "    return 'none'"
    ),
    "error lost in finally": "try:\n    return image_patch.fnd\nfinally:\n    return 'none'",
    "star arguments": "box = (0, 0, 9, 9)\nreturn image_patch.crop(*box)",
    "keyword arguments": "given = {'object_name': 'cup'}\nreturn image_patch.exists(**given)",
    "imports": (
        "import numpy as np, math\nfrom collections import Counter\n"
        "return Counter([math.floor(np.mean([1, 2]))]).most_common(1)[0][0]"
    ),
    "import of the API": "from vipergpt import distance\nreturn distance(image_patch, image_patch)",
    "shadowed routine": "def distance(a):\n    return a\nreturn distance(3)",
    "shadowed class": "class VideoSegment:\n    def go(self, x):\n        return x\nreturn VideoSegment().go(1)",
    "shadowed by a parameter": "def f(distance, llm_query):\n    return distance + llm_query()\n"
    "return f(1, lambda: 2)",
    "str.find": "text = image_patch.simple_query('what?')\nreturn text.find('a', 0, 2)",
    "list methods": "cups = image_patch.find('cup')\ncups.sort(key=lambda p: p.left)\ncups.reverse()\n"
    "return cups.pop().left",
    "variable of two types": "cup = image_patch.find('cup')\ncup = cup[0]\nreturn cup.left",
    "two variables of one name": "def f(cup):\n    return cup.upper()\ncup = image_patch\n"
    "return f('a') + str(cup.left)",
    "argument that becomes a patch": "size = image.shape\nimage = ImagePatch(image)\nreturn size[0]",
    "list that gets other items": "found = image_patch.find('cup')\nfound.append('a')\n"
    "return found[-1].upper()",
    "list with replaced items": "found = image_patch.find('cup')\nfound[0] = 'a'\n"
    "return found[0].upper()",
    "alias that grows": "found = image_patch.find('cup')\nsame = found\nsame += ['a']\n"
    "return found[-1].upper()",
    "list filled by heapq": "import heapq\nfound = [image_patch][1:]\nheapq.heappush(found, 'a')\n"
    "return found[0].upper()",
    "a list or nothing": "found = image_patch.find('cup') if image_patch.exists('x') else []\n"
    "return len(found or {}.keys())",
    "hasattr": "return image_patch.text if hasattr(image_patch, 'text') else 'none'",
    "isinstance": "cups = image_patch.find('cup')\n"
    "return cups.left if isinstance(cups, ImagePatch) else cups[0].left",
    "dataclass": "from dataclasses import dataclass\n@dataclass\nclass Cup:\n    height_cm: int\n"
    "return Cup(3).height_cm",
    "namedtuple": "from collections import namedtuple\nCup = namedtuple('Cup', ['hue', 'tint'])\n"
    "return Cup(1, 2).tint",
    "setattr": "class Cup:\n    pass\ncup = Cup()\nsetattr(cup, 'hue' + 's', 3)\nreturn cup.hues",
    "own attributes": "class Cup:\n    def __init__(self):\n        self._hue = 3\n        self.tint = 4\n"
    "    @property\n    def both(self):\n        return self._hue + self.tint\nreturn Cup().both",
    "inheritance": "class A:\n    def __init__(self):\n        self.a = 1\nclass B(A):\n"
    "    def __init__(self):\n        super().__init__()\nreturn B().a + len(B.__name__)",
    "match": "match [1, 2, 3]:\n    case [first, *rest]:\n        return first + len(rest)",
    "annotations that name nothing": "def f(x: Patch, y: List[Any] = 1) -> Nothing:\n"
    "    z: np.ndarray = x\n    return z\nreturn f(2)",
    "global": "def f():\n    global seen\n    seen = 3\nf()\nreturn seen",
    "format": "return '{:.1f} {}'.format(image_patch.left, image_patch.simple_query('x').format())",
    "number for text": "return coerce_to_numeric(3) + coerce_to_numeric('4')",
    "text for texts": "return image_patch.best_text_match('a cup')",
    "yes or no of text": "return bool_to_yesno('maybe')",
    "no question": "return image_patch.simple_query(None) or image_patch.simple_query(question=None)",
    "optional result": "cup = get_middle_patch([])\nreturn 'none' if cup is None else cup.left",
    "empty list": "return get_middle_patch([]) or best_image_match(list_patches=[], content=['a']) or 1",
    "sequences": "return len(sort_patches_left_to_right(tuple(image_patch.find('cup'))))",
    "arrays": "return int(image_patch.cropped_image.astype(float).mean(axis=0).shape[0])",
    "underscores": "_x = 1\ndef _f(_y, *, _z=3):\n    return _x + _y + _z\n_ = 5\nreturn _f(2, _z=4) + _",
}
"""Bodies of programs about an image that run right."""

RIGHT_PROGRAMS = {
    "script": "image_patch = ImagePatch(image)\nanswer = image_patch.exists('cup')",
    "script that sets the answer in a function": (
        "def main():\n    global result\n    result = len(question)\nmain()"
    ),
    "line program": "BOX0=LOC(image=IMAGE,object='cup')\nFINAL_RESULT=COUNT(box=BOX0)",
    "main guard": "def execute_command(image):\n    return 1\nif __name__ == '__main__':\n    x = image",
    "any first parameter": "def execute_command(photo, query, choices=None, *more, **others):\n"
    "    return query",
    "defaults": "def execute_command(image, detail=3, *, level=2):\n    return detail + level",
    "positional defaults": "def execute_command(a=1, /, b=2, c=3, d=4, e=5):\n    return b",
    "decorated": "def twice(f):\n    return lambda x: f(x, 2)\n@twice\n"
    "def execute_command(image, factor):\n    return factor",
    "lambda": "execute_command = lambda image: 3",
    "defined under a condition": "if True:\n    def execute_command(image):\n        return 3",
    "defined twice": "def execute_command(a, b):\n    return 3\ndef execute_command(image):\n    return 4",
    "segments": "def execute_command(video, question, possible_answers):\n"
    "    segment = VideoSegment(video)\n    segment = segment.trim(0, 8)\n"
    "    frames = [frame for frame in segment.frame_iterator() if frame.exists('cup')]\n"
    "    info = {'n': len(frames), 'first': frames[0].simple_query('what?')}\n"
    "    info['text'] = segment.caption_video()\n"
    "    return select_answer(info, question, possible_answers)",
}


def about(body: str) -> str:
    """Return the program about an image with that body."""
    head = "def execute_command(image):\n    image_patch = ImagePatch(image)\n"
    return head + textwrap.indent(body, "    ")


def check(program: str, library: Library = LIBRARY) -> Misuse | None:
    return api_misuse(program, library)


def run(sandbox: Sandbox, program: str) -> Outcome:
    media = media_from(clip() if "(video" in program else picture())
    tools = toolbox_of_tables(LIBRARY).session(media)
    return sandbox.run(program, tools=tools, entry="execute_command", args=arguments(media))


@pytest.mark.parametrize("body", WRONG)
def test_a_wrong_line_is_found(body: str, sandbox: Sandbox) -> None:
    program = about(body)
    misuse = check(program)
    assert misuse is not None and WRONG[body] in misuse.message
    assert misuse.source_line == program.splitlines()[misuse.line - 1]
    assert misuse.function == "execute_command"
    assert "\n" not in misuse.message
    assert run(sandbox, program).failure is not None


@pytest.mark.parametrize("program", WRONG_PROGRAMS)
def test_a_wrong_program_is_found(program: str, sandbox: Sandbox) -> None:
    misuse = check(program)
    assert misuse is not None and WRONG_PROGRAMS[program] in misuse.message
    assert run(sandbox, program).failure is not None


@pytest.mark.parametrize("name", RIGHT)
def test_a_tricky_body_runs_and_is_not_reported(name: str, sandbox: Sandbox) -> None:
    outcome = run(sandbox, about(RIGHT[name]))
    assert outcome.failure is None, outcome.failure
    assert check(about(RIGHT[name])) is None


@pytest.mark.parametrize("name", RIGHT_PROGRAMS)
def test_a_tricky_program_runs_and_is_not_reported(name: str, sandbox: Sandbox) -> None:
    outcome = run(sandbox, RIGHT_PROGRAMS[name])
    assert outcome.failure is None, outcome.failure
    assert check(RIGHT_PROGRAMS[name]) is None


def test_the_first_misuse_in_source_order_is_reported() -> None:
    program = about("def f():\n    return image_patch.fnd(\n        nonsense)\nreturn other")
    assert check(program) == Misuse(
        "ImagePatch has no method or attribute 'fnd'; did you mean find?",
        4,
        "        return image_patch.fnd(",
        "f",
    )


def test_a_misuse_outside_of_functions_has_no_function() -> None:
    misuse = check("answer = nonsense")
    assert misuse == Misuse("the name 'nonsense' is not defined", 1, "answer = nonsense", None)


def test_a_misuse_in_dead_code_is_reported() -> None:
    assert check(about("if False:\n    nonsense\nreturn 1")) is not None


def test_names_are_written_as_the_author_wrote_them() -> None:
    misuse = check(about("return _nonsense"))
    assert misuse is not None and "'_nonsense'" in misuse.message


@pytest.mark.parametrize(
    "program",
    [
        "def execute_command(image:\n",
        "x = 1\0",
        "\ud800 = 1",
        "nonsense\n" * 30_000,
        "x;" * 11_000,
        "nonsense = " + "(" * 90 + "1" + ")" * 90 + "\nx = " + "[" * 190 + "y" + "]" * 190,
        "x = " + "-" * 150 + "y",
        "nonsense" + ".a" * 150,
    ],
    ids=["syntax", "null byte", "surrogate", "bytes", "nodes", "lists", "unary", "attributes"],
)
def test_what_the_sandbox_refuses_to_compile_is_left_to_it(program: str) -> None:
    assert check(program) is None


def test_a_long_chain_of_variables_is_checked_within_bounds() -> None:
    chain = "\n".join(f"v{number} = v{number + 1}.crop(0, 0, 1, 1)" for number in range(900))
    assert check(about(f"{chain}\nv900 = image_patch\nreturn v0")) is None


def test_a_program_is_never_run(capsys: pytest.CaptureFixture[str]) -> None:
    check("print('out')\nimport os\nos._exit(3)\ndef execute_command(image):\n    return 1")
    assert capsys.readouterr().out == ""


# Nothing that runs right is reported


def programs_of(path: Path) -> list[str]:
    return [json.loads(line)["program"] for line in path.read_text("utf-8").splitlines()]


def reported(programs: list[str], library: Library = LIBRARY) -> list[tuple[str, Misuse]]:
    found = [(program, check(program, library)) for program in programs]
    return [(program, misuse) for program, misuse in found if misuse is not None]


def test_no_program_of_a_shipped_bank_is_reported() -> None:
    banks = sorted((ROOT / "viper" / "embedded").rglob("*.jsonl"))
    programs = [program for bank in banks for program in programs_of(bank)]
    assert len(programs) > 90
    assert reported(programs) == []


def test_no_program_of_the_example_domain_is_reported() -> None:
    domain = ROOT / "examples" / "nlvr"
    programs = programs_of(domain / "bank.jsonl")
    library = library_for("abstract+routines.py", domain)
    assert programs and reported(programs, library) == []


@pytest.mark.parametrize("family", ["referring", "question", "video"])
def test_no_canonical_program_is_reported(family: str) -> None:
    from viper_lab.world.queries.generate import generate
    from viper_lab.world.queries.programs import gold_program

    samples = [sample for seed in (1, 2) for sample in generate(family, "val", seed, 60)]
    for api in ("abstract", "vipergpt"):
        assert reported([gold_program(item.meaning, api, item.task) for item in samples]) == []


def test_no_everyday_program_is_reported() -> None:
    from viper_lab.world.everyday.clip_programs import clip_program
    from viper_lab.world.everyday.programs import program_of
    from viper_lab.world.everyday.samples import everyday_samples

    assert reported([program_of(item.ask) for item in everyday_samples("val", 1, 60)]) == []  # type: ignore[arg-type]
    clips: Any = everyday_samples("val", 1, 60, clips=True)
    assert reported([clip_program(c.ask, options=bool(c.query.options)) for c in clips]) == []


def test_no_example_of_a_prompt_is_reported() -> None:
    assert reported([entry.example for entry in ENTRIES.values()]) == []


def test_no_ordinary_python_is_reported() -> None:
    assert reported([program for program, _ in ORDINARY.values()]) == []


def test_no_program_of_the_documentation_is_reported(tmp_path: Path) -> None:
    pages = [ROOT / "docs" / name for name in ("extending.md", "pictures.md")]
    text = "\n".join(page.read_text("utf-8") for page in pages)
    blocks = dict(re.findall(r"```python (\S+\.py)\n(.*?)```", text, re.DOTALL))
    (tmp_path / "corner.py").write_text(blocks["get_patch_at_corner.py"], "utf-8")
    library = library_for("abstract+corner.py", tmp_path)
    programs = [
        t
        for t in blocks.values()
        if "import" not in t and re.search("^def execute_command|^FINAL_RESULT", t, re.M)
    ]
    programs += [(ROOT / "examples" / f"{n}.py").read_text("utf-8") for n in ("leftmost", "people")]
    assert len(programs) > 8
    assert reported(programs, library) == []


# What is known of the API


def strict_parameters() -> list[tuple[str, str, str]]:
    """Return (call, parameter, annotation) of each parameter whose literals are checked."""
    api = _api(LIBRARY, REGISTRY.all())
    return sorted(
        (f"{'image_patch.' if owner else ''}{name}", parameter.name, annotation)
        for (owner, name), callee in api.callees.items()
        if callee.is_strict and callee.signature is not None and owner != "VideoSegment"
        for parameter in callee.signature.parameters.values()
        if (annotation := annotation_text(parameter.annotation)).removesuffix(" | None") in _REFUSED
    )


SAMPLES = {
    "str": "'cup'",
    "ImagePatch": "image_patch",
    "Picture": "image",
    "Objects": "[image_patch]",
    "Sequence[str]": "['a', 'b']",
    "Sequence[ImagePatch]": "[image_patch, image_patch]",
}
LITERALS = {str: "'cup'", int: "3", float: "1.5", list: "['a', 'b']"}


@pytest.mark.parametrize(("call", "parameter", "annotation"), strict_parameters())
def test_the_sandbox_refuses_each_literal_that_is_reported(
    call: str, parameter: str, annotation: str, sandbox: Sandbox
) -> None:
    owner, _, name = call.rpartition(".")
    signature = _api(LIBRARY, REGISTRY.all()).callees["ImagePatch" if owner else "", name].signature
    assert signature is not None
    others = {
        each.name: SAMPLES.get(annotation_text(each.annotation), "3")
        for each in signature.parameters.values()
        if each.default is each.empty
    }
    for kind in _REFUSED[annotation.removesuffix(" | None")]:
        arguments = others | {parameter: LITERALS[kind]}
        program = about(f"return {call}({', '.join(f'{k}={v}' for k, v in arguments.items())})")
        misuse = check(program)
        assert misuse is not None and parameter in misuse.message
        assert run(sandbox, program).failure is not None, program


def test_return_annotations_name_followed_types() -> None:
    returns = {callee.returns for callee in _api(LIBRARY, REGISTRY.all()).callees.values()}
    assert {"ImagePatch", "VideoSegment", "str", *_ITEMS} & returns >= {
        "ImagePatch", "VideoSegment", "str", "list[ImagePatch]", "Iterator[ImagePatch]", "list[str]"
    }  # fmt: skip


# Routines of a user's file

OWN = '''
from viper import ImagePatch, routine

class Pair:
    def __init__(self, first):
        self.first_one = first

@routine
def shade(patch: ImagePatch, name: str = "x") -> str:
    """Name a shade."""
    return f"{name}"

@routine
def pair(patch: ImagePatch) -> object:
    """Make a pair."""
    return Pair(patch)

@routine
def mean(patch: ImagePatch, weight: float) -> float:
    """Weigh a patch."""
    return weight

@routine(tool=True)
def brightness(tools, patch: ImagePatch) -> float:
    """Measure brightness."""
    return 1.0
'''


@pytest.fixture
def own(tmp_path: Path) -> Library:
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    return library_for("abstract+own.py", tmp_path)


@pytest.mark.parametrize(
    "body",
    [
        "return shade(image_patch).upper()",
        "return shade(image_patch, 3)",
        "return pair(image_patch).first_one.left",
        "return brightness(image_patch)",
    ],
)
def test_routines_of_a_file_are_known(body: str, own: Library) -> None:
    assert check(about(body), own) is None
    assert check(about(body)) is not None


def test_a_function_of_a_module_hides_a_routine_of_its_name(own: Library) -> None:
    assert check(about("from statistics import mean\nreturn mean([1, 2])"), own) is None
    assert check(about("return mean([1, 2])"), own) is not None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return shade()", "shade takes 2 arguments (patch, name), got 0"),
        ("return shade(image_patch).left", "str has no method or attribute 'left'"),
        ("return brightness(image_patch, 3)", "brightness takes 1 argument (patch), got 2"),
        ("return shadow(image_patch)", "the name 'shadow' is not defined"),
    ],
)
def test_misuses_of_routines_of_a_file_are_found(body: str, message: str, own: Library) -> None:
    misuse = check(about(body), own)
    assert misuse is not None and message in misuse.message
