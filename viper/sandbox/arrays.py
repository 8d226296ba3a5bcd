"""Arrays: numpy as far as it is installed, and memory that a locked child reads without a copy.

The sandbox works without numpy; its programs then have no arrays. Every other module asks here.

The parent copies an array into a file of the kernel's memory (``memfd``) and seals it. The zygote
gets the descriptor, and the child that it forks maps the file read-only before it locks itself. So
the child needs no further right: it receives no descriptor and opens nothing.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgpack

from viper.errors import SandboxUnavailableError, UsageError

try:
    import numpy as np
    from numpy import generic, ndarray
except ModuleNotFoundError:
    HAS_NUMPY = False

    class ndarray:  # type: ignore[no-redef]  # noqa: N801
        """Stands for the class of numpy; nothing is an instance of it."""

    class generic:  # type: ignore[no-redef]  # noqa: N801
        """Stands for the class of numpy; nothing is an instance of it."""

else:
    HAS_NUMPY = True

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Largest number of arrays that a child maps. Their descriptors travel in one message, in which the
# kernel allows 253, and all of them count against the zygote's own bound.
MOST = 16

# Largest size of all together: 16 pictures of 5 million pixels. The parent holds a second copy.
MOST_BYTES = 256 << 20

# No writes, and no other size: a reader of a file that shrank would be killed. Seals stay.
_SEALS = ("F_SEAL_WRITE", "F_SEAL_GROW", "F_SEAL_SHRINK", "F_SEAL_SEAL")

Arrays: TypeAlias = "Mapping[str, NDArray[Any]]"


def fitting(arrays: Arrays) -> Arrays:
    """Return the first arrays that a child can map together."""
    chosen, size = dict[str, "NDArray[Any]"](), 0
    for name, array in arrays.items():
        if len(chosen) < MOST and size + array.nbytes <= MOST_BYTES:
            chosen[name] = array
            size += array.nbytes
    return chosen


def sealed(array: NDArray[Any]) -> int:
    """Return the descriptor of a copy of the array that can never change again.

    Raises:
        SandboxUnavailableError: this system has no sealed memory.
    """
    if not hasattr(os, "memfd_create") or not hasattr(fcntl, "F_ADD_SEALS"):
        raise SandboxUnavailableError(
            "programs can share arrays on Linux only; leave numpy out of --api"
        )
    descriptor = os.memfd_create("array", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        data: memoryview = np.ascontiguousarray(array).data.cast("B")
        while data:
            data = data[os.write(descriptor, data) :]
        seals = sum(int(getattr(fcntl, name)) for name in _SEALS)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def header_of(arrays: Arrays) -> bytes:
    """Return names, shapes and types of the arrays, for :func:`mapped`.

    Raises:
        UsageError: they are too many, too large, or not of numbers.
    """
    if len(arrays) > MOST or sum(each.nbytes for each in arrays.values()) > MOST_BYTES:
        raise UsageError(f"a child maps at most {MOST} arrays of {MOST_BYTES >> 20} MiB together")
    if any(each.dtype.kind not in "biuf" or not each.size for each in arrays.values()):
        raise UsageError("a child maps arrays of numbers that are not empty")
    rows = [[name, list(each.shape), each.dtype.str] for name, each in arrays.items()]
    return bytes(msgpack.packb(rows))


def mapped(header: bytes, descriptors: Sequence[int]) -> dict[str, NDArray[Any]]:
    """Map the arrays read-only; a write to one raises a ValueError."""
    arrays: dict[str, NDArray[Any]] = {}
    for (name, shape, kind), descriptor in zip(msgpack.unpackb(header), descriptors, strict=True):
        dtype = np.dtype(kind)
        size = math.prod(shape) * dtype.itemsize
        memory = mmap.mmap(descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ)
        arrays[name] = np.frombuffer(memory, dtype).reshape(shape)
    return arrays
