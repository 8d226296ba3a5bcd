"""A bounded store of what models computed, shared by threads."""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any


class ComputeCache:
    """Least-recently-used results by key; a key is computed once even when threads ask together.

    Args:
        capacity: how many entries are kept.
        max_bytes: what their arrays and texts may take together, about; None sets no bound.

    Attributes:
        computed: how many entries were computed, by the first element of their key.
        bytes: what is kept now, about.
    """

    def __init__(self, capacity: int, max_bytes: int | None = None) -> None:
        self._capacity, self._max_bytes = capacity, max_bytes
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()
        self._in_flight: dict[Hashable, threading.Lock] = {}
        self.computed: dict[str, int] = {}
        self.bytes = 0

    def get(self, key: tuple[Any, ...], compute: Callable[[], Any]) -> tuple[Any, bool]:
        """The value of a key and whether it was already there; an error is never kept."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key][0], True
            flight = self._in_flight.setdefault(key, threading.Lock())
        with flight:
            with self._lock:
                if key in self._entries:
                    return self._entries[key][0], True
            try:
                value = compute()
                with self._lock:
                    self._keep(key, value)
                    self.computed[str(key[0])] = self.computed.get(str(key[0]), 0) + 1
            finally:
                with self._lock:
                    self._in_flight.pop(key, None)
            return value, False

    def clear(self) -> None:
        """Forgets everything but the counts."""
        with self._lock:
            self._entries.clear()
            self.bytes = 0

    def _keep(self, key: Hashable, value: Any) -> None:
        size = approximate_bytes(value)
        _, before = self._entries.pop(key, (None, 0))
        self._entries[key] = (value, size)
        self.bytes += size - before
        while len(self._entries) > self._capacity or (
            self._max_bytes is not None and self.bytes > self._max_bytes and len(self._entries) > 1
        ):
            _, (_, gone) = self._entries.popitem(last=False)
            self.bytes -= gone


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
