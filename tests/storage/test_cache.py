"""What was computed is computed once while it is kept, and not kept for ever."""

from __future__ import annotations

import pytest

from viper.storage.cache import ComputeCache, RecentTexts


def test_each_text_is_computed_once_while_it_is_kept() -> None:
    asked: list[list[str]] = []

    def compute(texts: list[str]) -> list[int]:
        asked.append(texts)
        return [len(text) for text in texts]

    kept = RecentTexts[int](capacity=3)
    assert kept.get(["a", "bb", "a"], compute) == [1, 2, 1]
    assert kept.get(["bb", "ccc"], compute) == [2, 3]
    assert kept.get([], compute) == []
    assert asked == [["a", "bb"], ["ccc"]]


def test_those_not_asked_for_longest_go_first() -> None:
    kept = RecentTexts[str](capacity=3)
    kept.get(["a", "b", "c"], list)
    kept.get(["a", "d"], list)
    asked: list[str] = []
    kept.get(["a", "c", "d"], lambda texts: asked.extend(texts) or texts)
    assert asked == []
    kept.get(["b"], lambda texts: asked.extend(texts) or texts)
    assert asked == ["b"]


def test_a_request_longer_than_the_capacity_is_answered_whole() -> None:
    kept = RecentTexts[str](capacity=3)
    texts = [str(number) for number in range(50)]
    assert kept.get(texts, list) == texts and len(kept) == 3


def test_values_that_do_not_match_the_texts_are_refused() -> None:
    with pytest.raises(ValueError):
        RecentTexts[str]().get(["a", "b"], lambda texts: texts[:1])


def test_a_value_larger_than_the_bound_is_kept_alone() -> None:
    cache = ComputeCache(capacity=10, max_bytes=1_000)
    assert cache.get(("small",), lambda: "a") == ("a", False)
    assert cache.get(("large",), lambda: "b" * 5_000)[1] is False
    assert cache.get(("large",), lambda: "c") == ("b" * 5_000, True)
    assert cache.get(("small",), lambda: "d") == ("d", False)
    assert cache.computed == {"small": 2, "large": 1} and 0 < cache.bytes <= 1_000


def test_more_entries_than_the_capacity_are_not_kept() -> None:
    cache = ComputeCache(capacity=2)
    for key in "abac":
        cache.get((key,), lambda: 0)
    assert [cache.get((key,), lambda: 0)[1] for key in "ac"] == [True, True]
    assert cache.get(("b",), lambda: 0) == (0, False)
    assert ComputeCache(0).get(("a",), lambda: 1) == (1, False)


def test_an_error_is_not_kept() -> None:
    cache = ComputeCache(capacity=2)
    with pytest.raises(ZeroDivisionError):
        cache.get(("a",), lambda: 1 // 0)
    assert cache.get(("a",), lambda: 1) == (1, False)


def test_arrays_and_tensors_count_once() -> None:
    import numpy as np
    import torch

    for make in (lambda: np.zeros(100_000, np.uint8), lambda: torch.zeros(25_000)):
        cache = ComputeCache(10, 350_000)
        for number in range(3):
            cache.get(("pixels", number), make)
        assert 300_000 <= cache.bytes < 310_000
        assert cache.room == 3


def test_an_empty_cache_has_room_for_its_capacity() -> None:
    assert ComputeCache(10, 350_000).room == 10
    cache = ComputeCache(10)
    cache.get(("text", 1), lambda: "a")
    assert cache.room == 10
