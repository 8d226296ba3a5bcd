"""Bounded stores of what was computed, the least recently used going first."""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from cachetools import LRUCache

TEXTS_KEPT = 4096
"""Programs may ask for any phrase: a run of thousands of samples makes up thousands."""

Value = TypeVar("Value")


class ComputeCache:
    """Least-recently-used results by key; a key is computed once even when threads ask together.

    Args:
        capacity: how many entries are kept.
        max_bytes: what their arrays and texts may take together, about; None sets no bound. A
            larger entry is kept alone.

    Attributes:
        computed: how many entries were computed, by the first element of their key.
    """

    def __init__(self, capacity: int, max_bytes: int | None = None) -> None:
        self._capacity = capacity
        bound = sys.maxsize if max_bytes is None else max(1, max_bytes)
        self._entries: LRUCache[Hashable, Any] = LRUCache(
            bound, getsizeof=lambda value: min(approximate_bytes(value), bound)
        )
        self._lock = threading.Lock()
        self._in_flight: dict[Hashable, threading.Lock] = {}
        self.computed: dict[str, int] = {}

    @property
    def bytes(self) -> int:
        """What is kept now, about."""
        return int(self._entries.currsize)

    def get(self, key: tuple[Any, ...], compute: Callable[[], Any]) -> tuple[Any, bool]:
        """The value of a key and whether it was already there; an error is never kept."""
        with self._lock:
            if key in self._entries:
                return self._entries[key], True
            flight = self._in_flight.setdefault(key, threading.Lock())
        with flight:
            with self._lock:
                if key in self._entries:
                    return self._entries[key], True
            try:
                value = compute()
                with self._lock:
                    self._entries[key] = value
                    while len(self._entries) > self._capacity:
                        self._entries.popitem()
                    self.computed[str(key[0])] = self.computed.get(str(key[0]), 0) + 1
            finally:
                with self._lock:
                    self._in_flight.pop(key, None)
            return value, False

    def clear(self) -> None:
        """Forgets everything but the counts."""
        with self._lock:
            self._entries.clear()


class RecentTexts(Generic[Value]):
    """What was computed of texts, for those asked for last; not for several threads at once.

    Args:
        capacity: how many are kept; a single request may be longer.
    """

    def __init__(self, capacity: int = TEXTS_KEPT) -> None:
        self._kept: LRUCache[str, Value] = LRUCache(capacity)

    def __len__(self) -> int:
        return len(self._kept)

    def get(
        self, texts: Sequence[str], compute: Callable[[list[str]], Iterable[Value]]
    ) -> list[Value]:
        """The values of the texts, in order.

        Args:
            texts: may repeat.
            compute: gives the values of those that are not kept, each text once, in order.
        """
        wanted = dict.fromkeys(texts)
        values = {text: self._kept[text] for text in wanted if text in self._kept}
        new = [text for text in wanted if text not in values]
        if new:
            computed = dict(zip(new, compute(new), strict=True))
            values |= computed
            self._kept.update(computed)
        return [values[text] for text in texts]


def approximate_bytes(value: Any) -> int:
    """What a value takes in memory, by its arrays, tensors and texts."""
    size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        return size + sys.getsizeof(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [getattr(value, field.name) for field in dataclasses.fields(value)]
        return sys.getsizeof(value) + sum(map(approximate_bytes, fields))
    if isinstance(value, Mapping):
        return sys.getsizeof(value) + sum(map(approximate_bytes, [*value, *value.values()]))
    if isinstance(value, list | tuple | set | frozenset):
        return sys.getsizeof(value) + sum(map(approximate_bytes, value))
    return sys.getsizeof(value)
