"""Shared parts of the suites: reporting, sample pictures, rules for every backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from viper.models.vision.roles import Pixels

# Largest difference of two runs in float32; half precision needs about 5e-2.
TOLERANCE = 1e-3


def require(holds: object, rule: str) -> None:
    """Raise an AssertionError with the rule if it is broken, also where Python drops ``assert``."""
    if not holds:
        raise AssertionError(rule)


def sample_pictures() -> list[Pixels]:
    """Return noise ``uint8 [H, W, 3]``: wide, tall, square, very thin, and two of one size."""
    rng = np.random.default_rng(0)
    shapes = ((48, 64), (72, 40), (48, 64), (50, 50), (3, 60))
    return [rng.integers(0, 256, (*shape, 3), dtype=np.uint8) for shape in shapes]


@contextmanager
def keeps_identity(backend: Any, role: type | None = None) -> Iterator[None]:
    """Check the rules for every backend before and after the block."""
    name = getattr(backend, "model_id", None)
    require(isinstance(name, str) and name.strip(), f"model_id must be a name, not {name!r}")
    if role is not None:
        require(isinstance(backend, role), f"{name} lacks a method of the role {role.__name__}")
    _has_size(backend)
    yield
    rule = f"model_id must stay the same: {name!r} became {backend.model_id!r} in use"
    require(backend.model_id == name, rule)
    _has_size(backend)


def _has_size(backend: Any) -> None:
    size = getattr(backend, "memory_bytes", None)
    good = size is None or (isinstance(size, int) and size > 0)
    require(good, f"memory_bytes must be a whole number above 0 where it is stated, not {size!r}")


def leaves_arrays_alone(call: Callable[[list[Pixels]], Any], arrays: Sequence[Pixels]) -> None:
    """Check that input arrays stay unchanged and may be read-only; check this first.

    The other rules compare answers about arrays and rely on unchanged ones.
    """
    copies = [array.copy() for array in arrays]
    call(copies)
    same = all(np.array_equal(first, second) for first, second in zip(copies, arrays, strict=True))
    require(same, "the arrays that a backend is given must not be changed")
    for array in copies:
        array.flags.writeable = False
    try:
        call(copies)
    except Exception as error:
        rule = "read-only arrays must be accepted"
        raise AssertionError(f"{rule}, not met with {error!r}") from error


def works_in_another_thread(call: Callable[[], Any], agree: Callable[[Any, Any], object]) -> None:
    """Check that a second thread, after the first, gets the same result."""
    here = call()
    with ThreadPoolExecutor(1) as pool:
        try:
            there = pool.submit(call).result()
        except Exception as error:
            raise AssertionError(f"another thread must get an answer, not {error!r}") from error
    require(agree(here, there), "another thread must get the same answer")


def gives_nothing(what: str, call: Callable[[], Any]) -> None:
    """Check that an empty request gives an empty result."""
    rule = f"{what} must give an empty result"
    try:
        empty = len(call()) == 0
    except Exception as error:
        raise AssertionError(f"{rule}, not {error!r}") from error
    require(empty, rule)


def check_score(score: object, least: float = 0.0) -> None:
    """Check that a score is a float from ``least`` to 1."""
    good = isinstance(score, float) and least <= score <= 1
    require(good, f"scores must lie in [{least:g}, 1], not at {score!r}")


def come_best_first(items: Sequence[Any], what: str) -> None:
    """Check the order of items with a ``score``."""
    ordered = all(first.score >= second.score for first, second in pairwise(items))
    require(ordered, f"{what} must come best first")


def has_size_of(array: Any, kind: str, shape: tuple[int, ...], what: str) -> None:
    """Check that an array has this type of numbers and the size of its picture."""
    typed = isinstance(array, np.ndarray) and array.dtype == kind
    require(typed, f"{what} must be a {kind} array")
    require(array.shape == shape, f"{what} must have its picture's size {shape}, not {array.shape}")


def all_agree(left: Sequence[Any], right: Sequence[Any], agree: Callable[[Any, Any], Any]) -> bool:
    """Tell whether two sequences are of one length and agree item by item."""
    return len(left) == len(right) and all(map(agree, left, right))


def lists_agree(
    left: Sequence[Sequence[Any]], right: Sequence[Sequence[Any]], agree: Callable[[Any, Any], Any]
) -> bool:
    """Tell the same of two sequences of sequences."""
    return all_agree(left, right, partial(all_agree, agree=agree))
