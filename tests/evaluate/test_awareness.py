"""Which tools an agent trusted, and why it was wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.strategies.bench import picture
from tests.tuning.agent.turns import COUNT, DONE, DOUBT, FIND, STORE, WHOLE, code, workflow
from viper.api.prelude import PRELUDE
from viper.evaluate.awareness import awareness, cause_of
from viper.models.media import media_from
from viper.sandbox import Limits, Ref, Sandbox
from viper.schema import ToolCall, Turn, Usage
from viper.strategies.exact import ExactInput
from viper.strategies.explore.workflow import Workflow

WRONG = code("final_answer = answer", "3")
WRONG_COUNT = code("answer = str(len(patches) + 1)", "3")


def call(index: int, tool: str) -> ToolCall:
    return ToolCall(index, tool, (), {}, None, 0.1)


def made(*turns: Any, **more: Any) -> Workflow:
    return workflow(*turns, kind="count", manner="standard", **more)


def test_tools_are_judged_by_the_answers_that_came_from_them() -> None:
    whole = replace(WHOLE, calls=(1,))
    find = replace(FIND, calls=(2,))
    calls = (call(0, "caption_image"), call(1, "simple_query"), call(2, "find"))
    one = made(whole, DOUBT, find, COUNT, STORE, DONE, tool_calls=calls, usage=Usage(5, 90, 10))
    other = made(whole, WRONG, DONE, tool_calls=calls[:2], usage=Usage(3, 40, 10), seconds=2.0)
    found = awareness([one, other])
    query, finding = {one.tool: one for one in found.tools}["simple_query"], found.tools[0]
    assert (finding.tool, finding.kind, finding.calls, finding.answers) == ("find", "count", 1, 1)
    assert finding.right.value == 1.0 and finding.abandoned == 0
    assert (query.calls, query.answers, query.right.value, query.abandoned) == (2, 2, 0.0, 1)
    assert (found.calls.value, found.tokens.value, found.right.value) == (1.5, 75.0, 0.5)
    assert found.causes == {"not told": 1} and found.share_of("not told").value == 0.5


@pytest.mark.parametrize(
    ("answer", "label", "cause"),
    [
        (None, "2", "no answer"),
        ("red cubes", "red cube", "wrong metric"),
        ("it is red", "red", "wrong metric"),
        ("12", "2", "not told"),
        ("blue", "red", "not told"),
    ],
)
def test_causes_without_tools_to_compare_with(answer: Any, label: str, cause: str) -> None:
    assert cause_of(replace(made(STORE, DONE, label=label), answer=answer)) == cause


class Perfect:
    """Two cubes, and one who knows all answers."""

    media = media_from(picture())

    def call(self, name: str, args: Any, kwargs: Any, line: int | None = None) -> Any:
        if name == "find":
            boxes = ((1.0, 1.0, 9.0, 9.0), (20.0, 1.0, 29.0, 9.0))
            return [Ref("patch", ("image0", *box)) for box in boxes]
        return "2"


@pytest.mark.parametrize(
    ("turns", "cause"),
    [
        ((WHOLE, WRONG, DONE), "wrong tool"),
        ((FIND, code("answer = str(len(patches) + 1)", "3"), WRONG, DONE), "wrong logic"),
        ((FIND, code("answer = str(patches[4].left)", "3"), WRONG, DONE), "wrong logic"),
        ((code("while True: pass", "3"), code("final_answer = 2", "3"), DONE), "wrong logic"),
        ((WHOLE, code("final_answer = '3'", "3"), DONE), "wrong tool"),
        (
            (
                code("patches = image_patch.find('cube')", [1, 2, 3]),
                code("final_answer = 3", 3),
                DONE,
            ),
            "wrong tool",
        ),
        ((code("final_answer = '3'", "3"), DONE), "wrong logic"),
        ((WHOLE, Turn(0, "forced", "12 turns", value="3")), "wrong tool"),
        ((code("answer = '3'", "3"), Turn(0, "forced", "12 turns", value="3")), "wrong logic"),
    ],
)
def test_logic_is_right_where_tools_without_error_give_the_label(
    turns: tuple[Any, ...], cause: str
) -> None:
    with Sandbox(prelude=PRELUDE, limits=Limits(time_s=2)) as sandbox:
        one = replace(made(*turns), answer="3")
        assert cause_of(one, lambda one: ExactInput(Perfect.media, Perfect()), sandbox) == cause


def test_what_code_stores_again_is_one_answer_of_the_tool_that_was_asked() -> None:
    seen = code("image_patch.simple_query('how many?')", "3")
    read = made(seen, code("answer = '3'", "3"), WRONG, DONE)
    (query,) = awareness([read]).tools
    assert (query.tool, query.answers) == ("simple_query", 1)
    assert awareness([made(code("final_answer = '2'", "2"), DONE)]).tools == ()


def test_an_answer_is_abandoned_where_another_tool_says_otherwise() -> None:
    other, same = made(WHOLE, FIND, COUNT, STORE, DONE), made(WHOLE, FIND, WRONG_COUNT, DONE)
    abandoned = {one.tool: one.abandoned for one in awareness([other, same]).tools}
    assert abandoned == {"simple_query": 1, "find": 0}


def test_calls_and_answers_of_a_tool_bear_the_same_name() -> None:
    said = code("answer = image_patch.crop(0, 0, 9, 9).caption()", "a cube", calls=(1,))
    calls = (call(0, "caption_image"), call(1, "caption_image"))
    (found,) = awareness([made(said, STORE, DONE, tool_calls=calls)]).tools
    assert (found.tool, found.calls, found.answers) == ("caption_image", 1, 1)
