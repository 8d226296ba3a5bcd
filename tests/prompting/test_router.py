"""Which names a prompt lists when the whole API would be too long."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.strategies.bench import Bench, picture
from viper.api import api_set
from viper.api.spec import render
from viper.errors import UnknownNameError, UsageError
from viper.prompting.ranking import by_meaning, by_words, ranker
from viper.prompting.router import ESSENTIAL, Router, Routers
from viper.schema import DEFAULT_API

ENTRIES = api_set(DEFAULT_API).entries("question")


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
    chosen = router("full").choose("the distance between the chairs", 800)
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


def test_methods_of_one_name_are_told_apart() -> None:
    entries = api_set("vipergpt").entries("choice")
    chosen = Router(entries, words, "full").choose("what happens?", 400)
    assert len(chosen) < len(entries)
    assert [e.owner for e in chosen if e.name == "simple_query"] == ["ImagePatch", "VideoSegment"]


def test_words_are_compared_by_their_stems() -> None:
    scores = by_words(["sort a chair", "paint a wall", ""])
    asked = scores("sorting chairs")
    assert asked[0] > 0 and asked[1:] == [0.0, 0.0]
    assert scores("xyzzy") == [0.0, 0.0, 0.0] and scores("sorting chairs") == asked
    assert by_words([])("anything") == [] and by_words(["", "the"])("anything") == [0.0, 0.0]


def test_meaning_is_compared_by_embeddings() -> None:
    points = {"near?": [1, 0], "close": [0.8, 0.6], "red": [0, 1]}

    def embed(texts: Sequence[str]) -> np.ndarray:
        return np.array([points[text] for text in texts], np.float32)

    assert by_meaning(["close", "red"], embed)("near?") == pytest.approx([0.8, 0.0])
    assert ranker("embeddings", embed)(["close"])("near?") == pytest.approx([0.8])
    assert by_meaning([], lambda texts: np.zeros((len(texts), 0), np.float32))("near?") == []


QUERIES = [
    "sort the cups from the left to the right",
    "what is the distance between the two chairs?",
    "how deep is the plate behind the cup?",
]


@pytest.mark.parametrize("detail", ["compact", "full"])
def test_a_router_asked_again_answers_as_a_new_one(detail: str) -> None:
    kept = router(detail)
    for budget in (90, 300, 700):
        for query in QUERIES * 2:
            programs = [f"x = {'distance' if 'cup' in query else 'get_middle_patch'}(a, b)"]
            assert kept.choose(query, budget, programs) == router(detail).choose(
                query, budget, programs
            )


def test_texts_are_counted_and_indexed_once_for_any_number_of_prompts() -> None:
    counted: list[str] = []
    ranked: list[int] = []

    def count(text: str) -> int:
        counted.append(text)
        return words(text)

    def embed(texts: Sequence[str]) -> np.ndarray:
        ranked.append(len(texts))
        return np.ones((len(texts), 1), np.float32)

    kept = Router(ENTRIES, count, "full", "embeddings", embed)
    first = [kept.choose(query, 700) for query in QUERIES]
    assert len(counted) == len(set(counted))
    before = len(counted)
    assert [kept.choose(query, 700) for query in QUERIES] == first
    assert len(counted) == before and ranked == [len(ENTRIES), *[1] * 2 * len(QUERIES)]


def test_routers_are_kept_while_nothing_changes() -> None:
    routers = Routers()
    again = api_set(DEFAULT_API).entries("question")
    one = routers.get(ENTRIES, words, "full", "bm25")
    assert again is not ENTRIES and routers.get(again, words, "full", "bm25") is one

    def other_words(text: str) -> int:
        return len(text)

    def embed(texts: Sequence[str]) -> np.ndarray:
        return np.ones((len(texts), 1), np.float32)

    others = [
        routers.get(ENTRIES[1:], words, "full", "bm25"),
        routers.get(ENTRIES, other_words, "full", "bm25"),
        routers.get(ENTRIES, words, "compact", "bm25"),
        routers.get(ENTRIES, words, "full", "embeddings", embed),
    ]
    assert len({id(each) for each in [one, *others]}) == 5
    for _ in range(20):
        routers.get(ENTRIES[:1], lambda text: len(text), "full", "bm25")
    assert routers.get(ENTRIES, words, "full", "bm25") is not one
    with pytest.raises(UsageError, match="needs a model"):
        routers.get(ENTRIES, words, "full", "embeddings")


def test_one_router_serves_several_threads() -> None:
    from concurrent.futures import ThreadPoolExecutor

    expected = [router("full").choose(query, 700) for query in QUERIES]
    kept = router("full")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda query: kept.choose(query, 700), QUERIES * 8))
    assert found == expected * 8


def test_rankings_that_are_not_there() -> None:
    with pytest.raises(UnknownNameError, match="unknown ranking 'magic'; known: bm25, embeddings"):
        ranker("magic")
    with pytest.raises(UsageError, match="needs a model: give the profile a role embedder"):
        ranker("embeddings")


def test_prompts_of_one_reasoner_share_a_router(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return words(text)

    query = "how deep is the plate behind the cup?"
    with Bench([], api_budget=120) as bench:
        monkeypatch.setattr(bench.llm, "count_tokens", count)
        first = bench.reasoner.prompt(picture(), query)
        before = len(counted)
        assert before and bench.reasoner.prompt(picture(), query) == first
        assert len(counted) == before
        assert "compute_depth" in first
        assert "compute_depth" not in bench.reasoner.prompt(picture(), query, list_api=False)
