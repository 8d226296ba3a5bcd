"""Files on disk: whole or not at all, one writer at a time, errors as one line."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from viper.errors import StoreError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

_held: dict[tuple[int, int], int] = {}
_guard = threading.Lock()
"""Process-wide like the locks themselves: a POSIX lock never refuses its own process, and is
gone as soon as that process closes any handle of the file. So one that is held is not opened."""


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file as :func:`replace_file` does.

    Raises:
        StoreError: full disk or another error; an earlier file is left as it was.
    """
    with file_errors(path):
        replace_file(path, content)


def replace_file(path: Path, content: str | bytes) -> None:
    """Write a file under a temporary name, make it durable, and rename it.

    Its folder is made if need be. Text becomes UTF-8.

    Raises:
        OSError: full disk or another error; an earlier file is left as it was.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with temporary.open("wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def read_plain_file(path: Path, most_bytes: int) -> bytes:
    """Return the bytes of a plain file: neither a link nor a pipe, and not too large.

    Raises:
        StoreError: it is missing, larger, or none.
    """
    with file_errors(path):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise StoreError(f"{path}: not a plain file; restore a copy")
            content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise StoreError(f"{path}: more than {most_bytes} bytes, the most that is read")
    return content


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Turn what the operating system refuses in the block into a :class:`StoreError`."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise disk_full(path) from None
        raise StoreError(f"{path}: {error.strerror or error}") from None


def disk_full(path: Path) -> StoreError:
    """Return the error that there is no room."""
    return StoreError(
        f"the disk is full ({path}); nothing that was stored is lost; free space and do it again, "
        "or continue with --resume"
    )


class WriterLock:
    """A held lock on ``path``; POSIX, so that forked children (the sandbox's) do not keep it.

    It ends with the process that holds it.

    Args:
        what: is locked, for the message.

    Raises:
        StoreError: another writer holds it; names its process.
    """

    def __init__(self, path: Path, what: str) -> None:
        with _guard, file_errors(path):
            path.touch()
            there = path.stat()
            self._identity = there.st_dev, there.st_ino
            taken = f"{path.parent}: {what} is being written by process"
            if _held.get(self._identity) == os.getpid():
                raise StoreError(f"{taken} {os.getpid()}")
            self._file = path.open("r+", encoding="ascii")
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = self._file.read(20).strip()
                self._file.close()
                if error.errno in (errno.EACCES, errno.EAGAIN):
                    raise StoreError(f"{taken} {holder or 'unknown'}") from None
                raise
            _held[self._identity] = os.getpid()
        self._write_holder()

    def release(self) -> None:
        """Let the next writer in; a second call does nothing."""
        with _guard:
            if not self._file.closed:
                _held.pop(self._identity, None)
                self._file.close()

    def _write_holder(self) -> None:
        """The number is for people only: the lock holds without it, on a full disk."""
        try:
            self._file.truncate(0)
            self._file.write(str(os.getpid()))
            self._file.flush()
        except OSError:
            return
