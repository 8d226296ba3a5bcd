"""Which concepts calls are about, and whether a tool knows them."""

from __future__ import annotations

import pytest

from tests.tuning.stores import TableStore
from viper.schema import ToolCall
from viper.tuning.concept_probe import concepts_in, suspects
from viper_lab.world.annotated import WorldStore

PATCH = {"kind": "patch", "fields": ["image0", 0, 0, 4, 4]}


def call(index: int, tool: str, *args: object, **kwargs: object) -> ToolCall:
    return ToolCall(index, tool, (PATCH, *args), kwargs, None, 0.0)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("red pyramid", ["red", "pyramid"]),
        ("Pyramids", ["pyramid"]),
        ("red cube", ["red cube"]),
        ("the striped red cube", ["striped", "red cube"]),
        ("large object", []),
        ("unicorn", []),
        ("", []),
    ],
)
def test_a_phrase_is_made_of_the_longest_labels_of_the_store(text: str, found: list[str]) -> None:
    assert concepts_in(text, WorldStore()) == found


def test_without_a_store_every_word_may_be_one() -> None:
    assert concepts_in("the old tea pot", None) == ["old", "tea", "pot"]


def test_each_tool_is_suspected_of_each_concept_once() -> None:
    log = [
        call(0, "find", "tea pot"),
        call(1, "verify_property", "tea pot", "old"),
        call(2, "exists", object_name="tea pot"),
        call(3, "best_text_match", ["cup", "tea pot"]),
        call(4, "simple_query", "what is it?"),
        call(5, "compute_depth"),
    ]
    store = TableStore({1: ("tea pot", "cup"), 2: ("old",)})
    found = [(one.tool, one.concept, one.call) for one in suspects(log, store)]
    assert found == [
        ("loc", "tea pot", 0),
        ("match", "old", 1),
        ("match", "tea pot", 1),
        ("match", "cup", 3),
    ]
