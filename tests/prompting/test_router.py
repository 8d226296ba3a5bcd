"""Which names a prompt lists when the whole API would be too long."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from viper.api import api_set
from viper.api.spec import render
from viper.errors import UnknownNameError, UsageError
from viper.prompting.ranking import by_meaning, by_words, ranker
from viper.prompting.router import ESSENTIAL, Router

ENTRIES = api_set("abstract").entries("question")


def words(text: str) -> int:
    return len(text.split())


def router(detail: str = "compact") -> Router:
    return Router(ENTRIES, words, detail)  # type: ignore[arg-type]


def names(chosen: Sequence[object]) -> list[str]:
    return [entry.name for entry in chosen]  # type: ignore[attr-defined]


def test_all_of_it_where_it_fits() -> None:
    assert router().choose("which cup is in the middle?", 10_000) == ENTRIES


@pytest.mark.parametrize("detail", ["compact", "full"])
@pytest.mark.parametrize(
    ("query", "needed"),
    [
        ("sort the cups from the left to the right", "sort_patches_left_to_right"),
        ("what is the distance between the two chairs?", "distance"),
        ("how deep is the plate behind the cup?", "compute_depth"),
        ("which of the patches is in the middle?", "get_middle_patch"),
    ],
)
def test_what_the_query_needs_is_there_within_the_budget(
    query: str, needed: str, detail: str
) -> None:
    budget = 120 if detail == "compact" else 700
    chosen = router(detail).choose(query, budget)
    in_full = [entry for entry in chosen if not entry.brief]
    assert needed in names(chosen)
    assert len(in_full) < len(ENTRIES)
    assert words(render(chosen, detail)) <= budget  # type: ignore[arg-type]


def test_what_does_not_fit_in_full_is_one_line_each() -> None:
    chosen = router("full").choose("the distance between the chairs", 700)
    brief = [entry for entry in chosen if entry.brief]
    assert brief and "compute_depth" in names(brief)
    text = render(chosen, "full")
    assert "# Also there:\n" in text
    assert "# measure the depth of the patch: ImagePatch.compute_depth()" in text
    assert "def compute_depth" not in text and "def distance" in text


def test_the_order_of_the_api_is_kept() -> None:
    chosen = names(router().choose("the distance to the middle one", 100))
    assert chosen == [name for name in names(ENTRIES) if name in chosen]


def test_what_examples_call_and_what_nearly_all_need_always_stays() -> None:
    program = (
        "def execute_command(image):\n    return get_middle_patch(image.best_text_match(['a']))"
    )
    chosen = names(router().choose("how far?", 1, [program, "not ( python"]))
    assert set(chosen) == {"get_middle_patch", "best_text_match"} | (ESSENTIAL & {*names(ENTRIES)})


def test_words_are_compared_by_their_stems() -> None:
    scores = by_words("sorting chairs", ["sort a chair", "paint a wall", ""])
    assert scores[0] > 0 and scores[1:] == [0.0, 0.0]
    assert by_words("xyzzy", ["sort a chair"]) == [0.0]
    assert by_words("anything", []) == []


def test_meaning_is_compared_by_embeddings() -> None:
    points = {"near?": [1, 0], "close": [0.8, 0.6], "red": [0, 1]}

    def embed(texts: Sequence[str]) -> np.ndarray:
        return np.array([points[text] for text in texts], np.float32)

    assert by_meaning("near?", ["close", "red"], embed) == pytest.approx([0.8, 0.0])
    assert ranker("embeddings", embed)("near?", ["close"]) == pytest.approx([0.8])


def test_rankings_that_are_not_there() -> None:
    with pytest.raises(UnknownNameError, match="unknown ranking 'magic'; known: bm25, embeddings"):
        ranker("magic")
    with pytest.raises(UsageError, match="needs a model: give the profile a role embedder"):
        ranker("embeddings")
