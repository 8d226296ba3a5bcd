"""Workflows about the embedded world as text alone, for training an explorer.

Each question has three routes: ask the visual answerer about the whole picture, let the language
model answer from its caption, or follow the steps of the canonical program. The text does not say
which route is reliable. Results are invented, and all routes are equally frequent. If a verifier
doubts the result of one route, another route follows; often the agent also takes a second route
unprompted, and then the second result counts.
An explorer trained on this can act but has no preference; it gets one from experience
(:mod:`viper.tuning`). Some workflows receive the answer, and some of these copy it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from viper.prompting.exploring import (
    FINAL,
    Action,
    Step,
    action_text,
    compact_opening,
    result_text,
    rethink_thought,
)
from viper_lab.world.queries.lexicon import WORLD
from viper_lab.world.queries.programs import ATTRIBUTE_QUESTIONS
from viper_lab.world.queries.sample import TextSample
from viper_lab.world.queries.wording import plural
from viper_lab.world.scene import IMAGE_HEIGHT, IMAGE_WIDTH

WHOLE, CAPTION, STEPS = "whole", "caption", "steps"

# Probability that the first result is doubted; each further result is doubted half as often.
DOUBTED = 0.35

# Probability of the second route if the first result is not doubted.
CHECKED = 0.65

# Probability of an error in the steps.
FAILED = 0.08

# Probabilities that the answer is given, and that it is then stored without evidence.
HINTED, COPIED = 0.15, 0.3

MOST_FOUND = 6


@dataclass(frozen=True)
class Route:
    """Code turns that leave the answer in ``answer``; ``tool`` computes it."""

    name: str
    turns: tuple[str, ...]
    tool: str


@dataclass(frozen=True)
class WorkflowText:
    """A workflow as text: its opening and its steps, with a flag for the agent's own steps."""

    opening: str
    steps: tuple[Step, ...]
    by_agent: tuple[bool, ...]

    def pieces(self) -> Iterator[tuple[str, bool]]:
        """Yield parts of the text, and whether an agent learns to write them."""
        yield self.opening, False
        for step, is_own in zip(self.steps, self.by_agent, strict=True):
            yield action_text(step.action, step.reply), is_own
            if step.result:
                yield result_text(step.result), False


def routes(sample: TextSample) -> dict[str, Route]:
    """Return the routes to an answer."""
    question = f"answer = image_patch.simple_query({sample.text!r})"
    read = ("info = image_patch.caption()", f"answer = llm_query({sample.text!r}, info, False)")
    before, last, tool = _steps_of(sample.program)
    turns = (before, last) if before else (last,)
    return {
        WHOLE: Route(WHOLE, (question,), "simple_query"),
        CAPTION: Route(CAPTION, read, "llm_query"),
        STEPS: Route(STEPS, turns, tool),
    }


def _steps_of(program: str) -> tuple[str, str, str]:
    """Return the body of a program: code before the answer, the answer's line, and its tool."""
    body = ast.parse(program).body[0]
    assert isinstance(body, ast.FunctionDef)
    statements = body.body[1:]
    if len(statements) > 1 and isinstance(statements[-2], ast.If):
        choice, other = statements[-2], statements[-1]
        assert isinstance(choice.body[0], ast.Return) and isinstance(other, ast.Return)
        assert choice.body[0].value is not None and other.value is not None
        value: ast.expr = ast.IfExp(choice.test, choice.body[0].value, other.value)
        before = statements[:-2]
    else:
        last = statements[-1]
        assert isinstance(last, ast.Return) and last.value is not None
        value, before = last.value, statements[:-1]
    called = [node.func for node in ast.walk(value) if isinstance(node, ast.Call)]
    tools = [function.attr for function in called if isinstance(function, ast.Attribute)]
    text = "\n".join(map(ast.unparse, before))
    return text, f"answer = {ast.unparse(value)}", tools[0] if tools else "find"


def workflow(sample: TextSample, random: Random, first: str = "") -> WorkflowText:
    """Write a workflow of a question with invented caption and results.

    Args:
        first: route that comes first and is not checked by another; by default all are alike.
    """
    known_answer = _answer(sample, random)
    hint = known_answer if random.random() < HINTED else ""
    steps: list[Step] = []
    own: list[bool] = []

    def add(action: Action, result: str = "", is_own: bool = True) -> None:
        steps.append(Step(action, result))
        own.append(is_own)

    if hint and random.random() < COPIED:
        add(Action("code", f"{FINAL} = {hint!r}"), hint)
    else:
        ways = list(routes(sample).values())
        random.shuffle(ways)
        ways.sort(key=lambda way: way.name != first)  # stable
        chance, checks = DOUBTED, not first and random.random() < CHECKED
        while True:
            way = ways.pop(0)
            ways.append(way)
            answer = known_answer if hint and random.random() < 0.7 else _answer(sample, random)
            if not _add_route(way, answer, random, add):
                continue
            doubted = random.random() < chance or bool(hint and answer != hint)
            if not doubted and checks:
                checks = False
                continue
            if not doubted:
                add(Action("code", f"{FINAL} = answer"), answer)
                break
            checks = False
            if not hint:
                add(Action("thought", rethink_thought(answer, way.tool)), is_own=False)
            elif random.random() < COPIED:
                add(Action("code", f"{FINAL} = {hint!r}"), hint)
                break
            chance /= 2
    add(Action("done"))
    opening = compact_opening(sample.text, (), [_caption(random)], hint)
    return WorkflowText(opening, tuple(steps), tuple(own))


def _caption(random: Random) -> str:
    """Invent a caption of a scene, of a model's usual length."""
    things = [
        f"a {random.choice(WORLD.colors)} {random.choice(WORLD.shapes)}"
        for _ in range(random.randint(1, 6))
    ]
    return f"{', '.join(things[:-1])} and {things[-1]}" if len(things) > 1 else things[0]


def _add_route(way: Route, answer: str, random: Random, add: object) -> bool:
    """Add the turns of a route; return False if it ran into an error."""
    assert callable(add)
    for code in way.turns[:-1]:
        if random.random() < FAILED:
            add(Action("code", code), _error(code))
            return False
        add(Action("code", code), _last_value(code, random))
    add(Action("code", way.turns[-1]), answer)
    return True


def _error(code: str) -> str:
    """Return the traceback of an empty list."""
    lines = code.split("\n")
    failing = [n for n, line in enumerate(lines) if "[" in line and "for" not in line]
    number = failing[0] if failing else len(lines) - 1
    return (
        f"Traceback (line {number + 1}):\n    {lines[number].strip()}\n"
        "IndexError: list index out of range"
    )


def _last_value(code: str, random: Random) -> str:
    """Return the value of the steps' last line: patches, one patch, or a number."""
    name, _, value = code.split("\n")[-1].partition(" = ")
    if name in ("patch", "anchor", "other", "region"):
        return _patch(random)
    if name == "info":
        return _caption(random)
    if name == "color":
        return random.choice(WORLD.colors)
    if value.startswith(("min(", "max(")):
        return f"{random.uniform(10, IMAGE_WIDTH - 10):.4g}"
    return f"[{', '.join(_patch(random) for _ in range(random.randint(0, MOST_FOUND)))}]"


def _patch(random: Random) -> str:
    left, lower = random.randint(0, IMAGE_WIDTH - 40), random.randint(0, IMAGE_HEIGHT - 40)
    right, upper = left + random.randint(12, 40), lower + random.randint(12, 40)
    return f"ImagePatch({left}, {lower}, {right}, {upper})"


def _answer(sample: TextSample, random: Random) -> str:
    """Invent an answer to a question of that meaning; of a meaning without parts by its program."""
    meaning, last = sample.meaning, sample.program.rsplit("\n", 1)[-1]
    if not meaning.slots:
        if "yesno" in last:
            return random.choice(("yes", "no"))
        asked = [family for family, text in ATTRIBUTE_QUESTIONS.items() if text in sample.program]
        looks = [random.choice(WORLD.family(family)) for family in asked]
        return " ".join(looks) or str(random.randint(0, MOST_FOUND - 1))
    if meaning.type == "attribute":
        return random.choice(WORLD.family(meaning["attribute"]))
    if meaning.type == "choose":
        return str(random.choice((meaning["property"], meaning["other_property"])))
    if meaning.type == "more_of":
        return plural(random.choice((meaning["kind"], meaning["other_kind"])))
    if meaning.type == "which_farther":
        return str(random.choice((meaning["first"]["kind"], meaning["second"]["kind"])))
    if meaning.type in ("count", "count_region", "count_filter", "count_sum", "difference"):
        return str(random.randint(0, MOST_FOUND - 1))
    return random.choice(("yes", "no"))
