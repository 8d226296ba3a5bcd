"""Files that are written completely or not at all, locks for one writer, and one-line errors.

`replace_file` is the one way to write: temporary name, sync, rename, sync of the folder;
`write_file` turns its errors into a `StoreError`; `check_is_no_input` protects what was read.
`read_plain_file` and `files_below` read what others may have written, and `WriterLock` keeps a
second process out.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from viper.errors import StoreError, UsageError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

_held: dict[tuple[int, int], int] = {}
# Guards the process-wide table of locks. A POSIX lock never refuses its own process, and it is
# released as soon as that process closes any handle of the file. So a file whose lock is held here
# is not opened again.
_guard = threading.Lock()


def write_file(path: Path, content: str | bytes, *, inside: Path | None = None) -> None:
    """Write a file as :func:`replace_file` does.

    Args:
        inside: folder that may be a stranger's, such as that of a run: no link below it is
            followed.

    Raises:
        StoreError: full disk or another error; an earlier file stays unchanged.
    """
    with file_errors(path):
        if inside is not None and path.parent.exists():
            outside = not path.parent.resolve().is_relative_to(inside.resolve())
            if outside or path.is_symlink():
                raise StoreError(f"{path}: leads out of {inside} by a link; remove the link")
        replace_file(path, content)


def replace_file(path: Path, content: str | bytes) -> None:
    """Write a file under a temporary name, make it durable, and rename it.

    Its folder is created if it is missing. Text becomes UTF-8. A link is followed, and what is no
    regular file, such as a pipe, is written to.

    Raises:
        OSError: full disk or another error; an earlier file stays unchanged.
    """
    data = content if isinstance(content, bytes) else content.encode()
    path = path.resolve() if path.is_symlink() else path
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("wb") as file:
            file.write(data)
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with temporary.open("wb") as file:
            file.write(data)
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


def check_is_no_input(path: Path, inputs: Iterable[str | Path]) -> None:
    """Check that a file to write is none of those that were read.

    Raises:
        UsageError: it is one of them, perhaps by another name.
    """
    for each in inputs:
        with suppress(OSError, ValueError):  # what is no file cannot be overwritten
            if Path(each).is_file() and path.samefile(each):
                raise UsageError(f"{path}: is the input {each}; choose another name")


def read_plain_file(path: Path, max_bytes: int) -> bytes:
    """Return the bytes of a regular file that is not too large; links and pipes are refused.

    Raises:
        StoreError: it is missing, too large, or no regular file.
    """
    with file_errors(path):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise StoreError(f"{path}: not a plain file; restore a copy")
            content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise StoreError(f"{path}: more than {max_bytes} bytes, the most that is read")
    return content


def files_below(folder: Path) -> Iterator[tuple[str, os.stat_result | None]]:
    """Yield relative name and status of the files below a folder, in a stable order.

    Hidden files and folders are left out, and links to folders are not followed. The status is None
    for links to files outside, for files that cannot be read and for names that are no text.

    Args:
        folder: without links in its path, see ``Path.resolve``.
    """
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for name in sorted(names):
            if name.startswith("."):
                continue
            path = Path(root, name)
            try:
                str(path).encode()
                inside = path.is_file() and path.resolve().is_relative_to(folder)
                status = path.stat() if inside else None
            except (OSError, ValueError, RuntimeError):
                status = None
            yield path.relative_to(folder).as_posix(), status


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Turn an OSError of the block into a :class:`StoreError`."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise disk_full(path) from None
        raise StoreError(f"{path}: {error.strerror or error}") from None


def disk_full(path: Path) -> StoreError:
    """Return the error for a full disk."""
    return StoreError(
        f"the disk is full ({path}); nothing that was stored is lost; free space and do it again, "
        "or continue with --resume"
    )


class WriterLock:
    """A held lock on ``path``. It is a POSIX lock, so forked children (the sandbox's) do not hold
    it.

    The lock ends with its process.

    Args:
        what: name of the locked thing, for the message.

    Raises:
        StoreError: another writer holds it; names its process.
    """

    def __init__(self, path: Path, what: str) -> None:
        with _guard, file_errors(path):
            path.touch()
            status = path.stat()
            self._identity = status.st_dev, status.st_ino
            problem = f"{path.parent}: {what} is being written by process"
            if _held.get(self._identity) == os.getpid():
                raise StoreError(f"{problem} {os.getpid()}")
            self._file = path.open("r+", encoding="ascii")
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = self._file.read(20).strip()
                self._file.close()
                if error.errno in (errno.EACCES, errno.EAGAIN):
                    raise StoreError(f"{problem} {holder or 'unknown'}") from None
                raise
            _held[self._identity] = os.getpid()
        # The process id is for people only: on a full disk the lock holds without it.
        with suppress(OSError):
            self._file.truncate(0)
            self._file.write(str(os.getpid()))
            self._file.flush()

    def release(self) -> None:
        """Release the lock for the next writer; a second call does nothing."""
        with _guard:
            if not self._file.closed:
                _held.pop(self._identity, None)
                self._file.close()
