"""What the suites of several roles share: reporting, sample pictures, rules for every backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from viper.models.vision.roles import Pixels

Result = TypeVar("Result")

TOLERANCE = 1e-3
"""How far two runs in float32 may differ; half precision needs some 5e-2."""


def require(holds: object, rule: str) -> None:
    """Raises an AssertionError that says the rule, also where Python drops ``assert``."""
    if not holds:
        raise AssertionError(rule)


def sample_pictures() -> list[Pixels]:
    """Noise ``uint8 [H, W, 3]``: wide, tall, square, very thin, and two of one size."""
    rng = np.random.default_rng(0)
    shapes = ((48, 64), (72, 40), (48, 64), (50, 50), (3, 60))
    return [rng.integers(0, 256, (*shape, 3), dtype=np.uint8) for shape in shapes]


@contextmanager
def keeps_identity(backend: Any, role: type | None = None) -> Iterator[None]:
    """The rules that every backend keeps, before and after whatever is done in the block."""
    name = getattr(backend, "model_id", None)
    require(isinstance(name, str) and name.strip(), f"model_id must be a name, not {name!r}")
    if role is not None:
        require(isinstance(backend, role), f"{name} lacks a method of the role {role.__name__}")
    _has_size(backend)
    yield
    require(
        backend.model_id == name,
        f"model_id must stay the same: {name!r} became {backend.model_id!r} in use",
    )
    _has_size(backend)


def _has_size(backend: Any) -> None:
    size = getattr(backend, "memory_bytes", None)
    good = size is None or (isinstance(size, int) and size > 0)
    require(good, f"memory_bytes must be a whole number above 0 where it is stated, not {size!r}")


def leaves_arrays_alone(call: Callable[[list[Pixels]], Any], arrays: Sequence[Pixels]) -> None:
    """What is handed over is neither changed nor needs to be writable; check this first.

    The other rules compare answers about arrays that have to be still the same.
    """
    given = [array.copy() for array in arrays]
    call(given)
    same = all(np.array_equal(one, other) for one, other in zip(given, arrays, strict=True))
    require(same, "the arrays that a backend is given must not be changed")
    for array in given:
        array.flags.writeable = False
    try:
        call(given)
    except Exception as error:
        raise AssertionError(
            f"read-only arrays must be accepted, not met with {error!r}"
        ) from error


def works_in_another_thread(
    call: Callable[[], Result], agree: Callable[[Result, Result], object]
) -> None:
    """One thread after the other, each gets the same result."""
    here = call()
    with ThreadPoolExecutor(1) as pool:
        try:
            there = pool.submit(call).result()
        except Exception as error:
            raise AssertionError(f"another thread must get an answer, not {error!r}") from error
    require(agree(here, there), "another thread must get the same answer")


def gives_nothing(what: str, call: Callable[[], Any]) -> None:
    """Nothing to do is no mistake: the result is empty."""
    rule = f"{what} must give an empty result"
    try:
        empty = len(call()) == 0
    except Exception as error:
        raise AssertionError(f"{rule}, not {error!r}") from error
    require(empty, rule)


def is_chance(value: object) -> bool:
    """Whether it is a number in [0, 1]."""
    return isinstance(value, float) and 0.0 <= value <= 1.0
