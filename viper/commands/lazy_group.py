"""A group whose commands are imported when they are used, so that ``--help`` stays light."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """Commands by dotted path.

    Args:
        paths: of each name ``module:attribute`` of its command, and a line of help.
    """

    def __init__(self, *args: Any, paths: Mapping[str, tuple[str, str]], **more: Any) -> None:
        super().__init__(*args, **more)
        self._paths = paths

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._paths)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._paths:
            return None
        module, name = self._paths[cmd_name][0].split(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, text) for name, (_, text) in self._paths.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
