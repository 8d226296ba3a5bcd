"""Files of arrays beside a ledger's index: named by their content, on disk whole or not at all.

A file that is read may come from anywhere: its size is bounded, its content is what its name says,
and it is parsed as safetensors, which holds arrays and runs nothing.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from viper.errors import StoreError

MOST_BYTES = 16 << 20
"""Of one file."""

Arrays = Mapping[str, NDArray[Any]]

_NAME = re.compile(r"[0-9a-f]{64}")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def write_arrays(folder: Path, arrays: Arrays) -> str:
    """Writes the arrays as one file and returns its name: the SHA-256 of its content, in hex.

    Raises:
        StoreError: full disk or another error, or arrays that take more than ``MOST_BYTES``.
    """
    import numpy as np
    from safetensors.numpy import save

    content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    if len(content) > MOST_BYTES:
        raise StoreError(f"{len(content)} bytes of arrays; a file holds at most {MOST_BYTES}")
    name = hashlib.sha256(content).hexdigest()
    write_file(_path(folder, name), content)
    return name


def write_file(path: Path, content: bytes) -> None:
    """Writes a file under a temporary name, makes it durable, and renames it.

    Raises:
        StoreError: full disk or another error; an earlier file is left as it was.
    """
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.tmp")
    with file_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            _sync_folder(path.parent)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise


def read_arrays(folder: Path, name: str) -> dict[str, NDArray[Any]]:
    """The arrays of a file.

    Raises:
        StoreError: it is missing, too large, no plain file, or does not hold what it was written
            with.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if not _NAME.fullmatch(name):
        raise StoreError(f"{folder}: {name[:80]!r} is no name of a file here; restore a copy")
    path = _path(folder, name)
    content = plain_content(path)
    if hashlib.sha256(content).hexdigest() != name:
        raise StoreError(f"{path}: damaged, its content is not what was written; restore a copy")
    try:
        return load(content)
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        raise StoreError(f"{path}: no safetensors file of plain arrays ({error})") from None


def sweep(folder: Path, wanted: Collection[str]) -> int:
    """Deletes the files of writers that died and those that nothing refers to; how many went."""
    gone = 0
    with file_errors(folder):
        for path in folder.iterdir() if folder.is_dir() else ():
            is_ours = path.name.endswith(".tmp") or path.suffix == ".safetensors"
            if is_ours and path.stem not in wanted:
                with suppress(FileNotFoundError):
                    path.unlink()
                    gone += 1
    return gone


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Turns what the operating system refuses in the block into a :class:`StoreError`."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StoreError(
                f"{path}: the disk is full; free space and do it again, nothing was lost"
            ) from None
        raise StoreError(f"{path}: {error.strerror or error}") from None


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}.safetensors"


def plain_content(path: Path) -> bytes:
    """The bytes of a plain file: neither a link nor a pipe, and no more than ``MOST_BYTES``.

    Raises:
        StoreError: it is missing, larger, or none.
    """
    with file_errors(path):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise StoreError(f"{path}: not a plain file; restore a copy")
            content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise StoreError(f"{path}: more than {MOST_BYTES} bytes, the most that is read")
    return content


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
