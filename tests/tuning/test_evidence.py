"""Runs told in text."""

from __future__ import annotations

from typing import Any

from tests.strategies.bench import Bench, picture
from viper.models.media import media_from
from viper.schema import ToolCall
from viper.tuning.evidence import LONGEST_STEP, MOST_STEPS, step_texts

WHOLE = {"kind": "patch", "fields": ["image0", 0, 0, 100, 60]}
ONE = {"kind": "patch", "fields": ["image0", 10, 10, 20, 20]}
TWO = {"kind": "patch", "fields": ["image0", 70, 35, 90, 55]}
CORNER = {"kind": "patch", "fields": ["image0", 0, 0, 40, 60]}


def call(index: int, tool: str, args: tuple[Any, ...], result: Any, **more: Any) -> ToolCall:
    return ToolCall(index, tool, args, {}, result, 0.0, **more)


LOG = (
    call(0, "find", (WHOLE, "cube"), [ONE, TWO], scores=(0.9, 0.5), line=2),
    call(1, "simple_query", (TWO, "what color is this?"), "red", line=3),
    call(2, "verify_property", (ONE, "cube", "red"), False, scores=(0.25,), judged_by="m"),
    call(3, "find", (ONE, "ring"), [], scores=(0.2,), rejected_by="detector.threshold"),
    call(4, "compute_depth", (ONE,), None, error="the patch is empty"),
)


def test_each_call_is_told_with_boxes_scores_and_names() -> None:
    told = step_texts(LOG)
    assert told[0].splitlines() == [
        "step 0 (line 2): find(image0, 'cube')",
        "  gave 2 patches",
        "    0.0: box [10, 10, 20, 20], score 0.90",
        "    0.1: box [70, 35, 90, 55], score 0.50",
    ]
    assert told[1] == "step 1 (line 3): simple_query(0.1, 'what color is this?')\n  gave 'red'"
    assert "scores 0.25, judged by m" in told[2]
    assert "detector.threshold let nothing pass; best scores 0.20" in told[3]
    assert told[4].endswith("failed: the patch is empty")


def test_patches_are_captioned_where_a_model_can() -> None:
    with Bench([]) as bench:
        session = bench.reasoner.components.toolbox.session(media_from(picture()))
        told = step_texts(LOG, session)
    assert "0.1: box [70, 35, 90, 55], score 0.50, shows: a picture" in told[0]


def test_a_patch_that_cannot_be_captioned_is_told_without() -> None:
    elsewhere = {"kind": "patch", "fields": ["image7", 10, 10, 20, 20]}
    with Bench([]) as bench:
        session = bench.reasoner.components.toolbox.session(media_from(picture()))
        told = step_texts((call(0, "find", (WHOLE, "cube"), [elsewhere]),), session)
    assert "shows" not in told[0]


def test_text_is_bounded_whatever_the_log_holds() -> None:
    huge = tuple(
        call(i, "simple_query", (WHOLE, "x" * 5000), ["y\n" * 5000] * 500) for i in range(300)
    )
    told = step_texts(huge)
    assert len(told) == MOST_STEPS + 1
    assert max(map(len, told)) <= LONGEST_STEP
    assert told[MOST_STEPS // 2] == "(240 more calls)"


def test_a_part_of_a_picture_is_not_called_the_picture() -> None:
    log = (*LOG, call(5, "find", (CORNER, "cube"), []))
    assert step_texts(log)[5].startswith("step 5: find(part [0, 0, 40, 60], 'cube')")
