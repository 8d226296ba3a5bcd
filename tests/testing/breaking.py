"""Ways to break a good backend that the tests of several conformance suites share."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np


def broken(good: type, **members: Any) -> Any:
    """An instance of ``good`` with some members replaced."""
    return type("Broken", (good,), members)()


def broken_identities(good: type) -> Iterator[tuple[str, Any]]:
    """Backends that break a rule for every role, each with the words that name it."""
    numbers = count()
    changing = property(lambda _: f"model-{next(numbers)}")
    yield "model_id must be a name, not ' '", broken(good, model_id=" ")
    yield "model_id must be a name, not None", broken(good, model_id=None)
    yield "model_id must stay the same", broken(good, model_id=changing)
    yield "memory_bytes must be a whole number above 0", broken(good, memory_bytes=0)
    yield "memory_bytes must be a whole number above 0", broken(good, memory_bytes=1.5)


def blackens(array: np.ndarray) -> np.ndarray:
    """A copy of the array, which is black afterwards."""
    copy = array.copy()
    if array.flags.writeable:
        array[:] = 0
    return copy


def writes(array: np.ndarray) -> np.ndarray:
    """A copy of the array, which has to be writable though it stays as it is."""
    array[:1] = array[:1]
    return array.copy()


def differs_by_thread(array: np.ndarray) -> np.ndarray:
    """A copy that is turned over outside the main thread."""
    return array.copy() if _is_main() else array[::-1].copy()


def refuses_threads(array: np.ndarray) -> np.ndarray:
    """A copy, made in the main thread only."""
    if not _is_main():
        raise RuntimeError("made in another thread")
    return array.copy()


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
