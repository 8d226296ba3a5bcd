"""Where a command writes, tried before it begins."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import click

from viper.errors import UsageError


class OutPath(click.Path):
    """The type of an option that names a file or a folder to be written, there or not.

    A place where nothing can be written is refused before any work, in one line; nothing is made
    there yet.
    """

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(super().convert(value, param, ctx))  # type: ignore[arg-type]
        option = param.opts[0] if param is not None and param.opts else "the path"
        check_writable(path, option)
        return path


def check_writable(path: Path, option: str = "--out") -> None:
    """Makes sure that a file or folder can be made or written there.

    Raises:
        UsageError: it cannot.
    """
    whole = path.expanduser().absolute()
    nearest = whole
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    try:
        if nearest == whole and not nearest.is_dir():  # a file, or a device as /dev/stdout
            if not os.access(nearest, os.W_OK):
                raise PermissionError(0, "not writable")
            return
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        why = "that is no folder" if nearest.is_file() else error.strerror
        raise UsageError(
            f"{option} {path}: nothing can be written in {nearest} ({why}); give another place"
        ) from None
