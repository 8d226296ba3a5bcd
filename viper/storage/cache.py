"""Bounded caches of computed values that evict the least recently used entry.

Their users make the keys: ``ToolSession`` (:mod:`viper.tools.session`) for answers of tools and
``CachedLLM`` (:mod:`viper.models.llm.wrapped`) for those of language models.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from cachetools import LRUCache

# Programs may ask for any phrase, so a run over thousands of samples produces thousands.
MAX_TEXTS = 4096

Value = TypeVar("Value")


class ComputeCache:
    """A cache that computes each key once, even when several threads ask for it together.

    Args:
        capacity: greatest number of entries.
        max_bytes: approximate limit of the memory of all entries; None sets no limit. An entry
            above the limit is stored alone.

    Attributes:
        computed: number of computed entries, by the first element of their key.
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
        self._made = (ComputeCache, (capacity, max_bytes))

    def __reduce__(self) -> Any:
        """Let a copy, here or in another process, begin empty."""
        return self._made

    @property
    def bytes(self) -> int:
        """Return the approximate size of the cache in bytes."""
        return int(self._entries.currsize)

    @property
    def room(self) -> int:
        """Return the number of entries of the mean size that fit."""
        with self._lock:
            size = self._entries.currsize
            fitting = self._entries.maxsize * len(self._entries) / size if size else self._capacity
            return min(self._capacity, int(fitting))

    def get(self, key: tuple[Any, ...], compute: Callable[[], Any]) -> tuple[Any, bool]:
        """Return the value of a key and whether it was cached; an error is never cached."""
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


class RecentTexts(Generic[Value]):
    """A cache of values by text, for recently requested texts; not safe for several threads.

    Args:
        capacity: greatest number of cached texts; a single request may be longer.
    """

    def __init__(self, capacity: int = MAX_TEXTS) -> None:
        self._values: LRUCache[str, Value] = LRUCache(capacity)

    def __len__(self) -> int:
        return len(self._values)

    def get(
        self, texts: Sequence[str], compute: Callable[[list[str]], Iterable[Value]]
    ) -> list[Value]:
        """Return the values of the texts, in order.

        Args:
            texts: may contain duplicates.
            compute: returns the values of the uncached texts; each text occurs once, in order.
        """
        unique = dict.fromkeys(texts)
        values = {text: self._values[text] for text in unique if text in self._values}
        new = [text for text in unique if text not in values]
        if new:
            computed = dict(zip(new, compute(new), strict=True))
            values |= computed
            self._values.update(computed)
        return [values[text] for text in texts]


def approximate_bytes(value: Any) -> int:
    """Return the approximate memory of a value, counted from its arrays, tensors and texts."""
    size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        return max(size, sys.getsizeof(value))  # the latter includes an array's own pixels
    parts: Iterable[Any] = ()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, field.name) for field in dataclasses.fields(value)]
    elif isinstance(value, Mapping):
        parts = [*value, *value.values()]
    elif isinstance(value, list | tuple | set | frozenset):
        parts = value
    return sys.getsizeof(value) + sum(map(approximate_bytes, parts))
