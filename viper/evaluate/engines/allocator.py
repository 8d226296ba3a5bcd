"""Keeps the C library from holding on to memory that many threads once used.

glibc gives threads heaps ("arenas") of their own, up to eight a core. An evaluation's threads
all make and free tensors of all sizes, and every arena keeps its largest mess: the process
seems to grow for a thousand samples. Two arenas are enough for threads that mostly wait.
"""

from __future__ import annotations

import contextlib
import ctypes

ARENAS = 2

_M_ARENA_MAX = -8
"""From glibc's ``malloc.h``."""


def bound_arenas(most: int = ARENAS) -> bool:
    """Bounds the heaps of this process; call it before threads start.

    Returns:
        Whether the C library took it; other libraries than glibc do nothing.
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, most))
    except (OSError, AttributeError):
        return False


def give_back() -> None:
    """Returns free memory to the system, where the C library can be asked to (glibc)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
