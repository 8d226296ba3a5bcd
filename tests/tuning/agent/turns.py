"""Turns by hand, for tests of what is made of them."""

from __future__ import annotations

from typing import Any

from viper.prompting.exploring import rethink_thought
from viper.schema import Failure, Query, Turn
from viper.strategies.explore.workflow import Workflow, outcome_of

QUERY = Query("how many cubes are there?", "question", "image", (), "s1")


def code(text: str, value: Any = None, result: str | None = None, **more: Any) -> Turn:
    shown = result if result is not None else ("(nothing)" if value is None else str(value))
    return Turn(0, "code", text, shown, value=value, **more)


def failed(text: str) -> Turn:
    failure = Failure("runtime", "list index out of range", 1, exception="IndexError")
    return code(text, result="Traceback (line 1):\nIndexError: …", failure=failure)


def thought(text: str, by: str = "agent") -> Turn:
    return Turn(0, "thought", text, by=by)


DONE = Turn(0, "done")
UNREADABLE = Turn(0, "unreadable", "hm", "expected one action")
WHOLE = code("answer = image_patch.simple_query('how many cubes are there?')", "3")
DOUBT = thought(rethink_thought("3", "simple_query"), by="checker")
FIND = code("patches = image_patch.find('cube')", [1, 2], "[ImagePatch(…), ImagePatch(…)]")
COUNT = code("answer = str(len(patches))", "2")
STORE = code("final_answer = answer", "2")
GIVEN = code("final_answer = '2'", "2")


def workflow(*turns: Turn, label: Any = "2", manner: str = "discrepancy", **more: Any) -> Workflow:
    """A workflow of these turns; its answer is what the last one that stored it had."""
    numbered = tuple(_at(turn, index) for index, turn in enumerate(turns))
    stored = [one.value for one in turns if one.text.startswith("final_answer")]
    answer = stored[-1] if stored else None
    return Workflow(
        id=str(more.pop("id", "s1")),
        set="world",
        query=QUERY,
        captions=("two cubes",),
        turns=numbered,
        answer=answer,
        label=label,
        manner=manner,
        outcome=outcome_of(numbered, answer, answer == label),
        **more,
    )


def _at(turn: Turn, index: int) -> Turn:
    from dataclasses import replace

    return replace(turn, index=index)
