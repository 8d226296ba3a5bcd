"""One writer at a time for a run folder: a lock that ends with the process that holds it."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from pathlib import Path

from viper.errors import StoreError
from viper.evaluate.runs.files import file_errors

_Identity = tuple[int, int]

_held: dict[_Identity, int] = {}
_guard = threading.Lock()
"""Process-wide like the locks themselves: a POSIX lock never refuses its own process, and is
gone as soon as that process closes any handle of the file. So one that is held is not opened."""


class RunLock:
    """A held lock on ``path``; POSIX, so that forked children (the sandbox's) do not keep it.

    Raises:
        StoreError: another writer holds it; names its process.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with _guard, file_errors(path):
            path.touch()
            self._identity = _identity(path)
            if _held.get(self._identity) == os.getpid():
                raise _taken(path, os.getpid())
            self._file = path.open("r+", encoding="ascii")
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = self._file.read(20).strip()
                self._file.close()
                if error.errno in (errno.EACCES, errno.EAGAIN):
                    raise _taken(path, holder or "unknown") from None
                raise
            _held[self._identity] = os.getpid()
        self._write_holder()

    def release(self) -> None:
        """Lets the next writer in; a second call does nothing."""
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


def _identity(path: Path) -> _Identity:
    found = path.stat()
    return found.st_dev, found.st_ino


def _taken(path: Path, holder: int | str) -> StoreError:
    return StoreError(f"{path.parent}: this run is being written by process {holder}")
