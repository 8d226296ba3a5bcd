"""A bounded store of what models computed, shared by threads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any


class ComputeCache:
    """Least-recently-used results by key; a key is computed once even when threads ask together.

    Args:
        capacity: how many entries are kept.

    Attributes:
        computed: how many entries were computed, by the first element of their key.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()
        self._in_flight: dict[Hashable, threading.Lock] = {}
        self.computed: dict[str, int] = {}

    def get(self, key: tuple[Any, ...], compute: Callable[[], Any]) -> tuple[Any, bool]:
        """The value of a key and whether it was already there; an error is never kept."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key], True
            flight = self._in_flight.setdefault(key, threading.Lock())
        with flight:
            with self._lock:
                if key in self._entries:
                    return self._entries[key], True
            try:
                value = compute()
            finally:
                with self._lock:
                    self._in_flight.pop(key, None)
            with self._lock:
                self._entries[key] = value
                self.computed[str(key[0])] = self.computed.get(str(key[0]), 0) + 1
                while len(self._entries) > self._capacity:
                    self._entries.popitem(last=False)
            return value, False

    def clear(self) -> None:
        """Forgets everything but the counts."""
        with self._lock:
            self._entries.clear()
