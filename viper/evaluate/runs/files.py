"""Whole files of a run folder: on disk complete or not at all, errors as one line."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from viper.errors import StoreError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def write_whole(path: Path, text: str) -> None:
    """Writes a file under a temporary name, makes it durable, and renames it.

    Its folder is made if need be.

    Raises:
        StoreError: full disk or another error; an earlier file is left as it was.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    with file_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("w", encoding="utf-8", newline="\n") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            _sync_folder(path.parent)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Turns what the operating system refuses in the block into a :class:`StoreError`."""
    try:
        yield
    except OSError as error:
        raise os_problem(path, error) from None


def os_problem(path: Path, error: OSError) -> StoreError:
    """An error of the operating system about a path, in one line."""
    if error.errno in _FULL:
        return disk_full(path)
    return StoreError(f"{path}: {error.strerror or error}")


def disk_full(path: Path) -> StoreError:
    """What to say when there is no room: nothing that was acknowledged is lost."""
    return StoreError(
        f"the run cannot be stored, the disk is full ({path}); free space and continue with "
        "--resume"
    )


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
