"""A group whose commands are imported when they are used, so that ``--help`` stays light.

An installed package adds a command by an entry point of the group ``viper.commands``: its name is
that of the command, or ``GROUP.NAME`` below a command that is a group.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any

import click

from viper.plugins import offered

ENTRY_POINTS = "viper.commands"


class LazyGroup(click.Group):
    """Commands by dotted path, beside those that are added as usual.

    Args:
        paths: of each name ``module:attribute`` of its command, and a line of help.
        below: name of the group in the entry points of installed packages; None takes none of them.
    """

    def __init__(
        self,
        *args: Any,
        paths: Mapping[str, tuple[str, str]],
        below: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self._paths, self._below = paths, below

    def list_commands(self, ctx: click.Context) -> list[str]:
        names = [*self._paths, *self._installed()]
        return sorted([*names, *self.commands]) if self.commands else names

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        if cmd_name not in self._paths:
            installed = self._installed()
            return installed[cmd_name].load() if cmd_name in installed else None
        module, name = self._paths[cmd_name][0].split(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        texts = {name: text for name, (_, text) in self._paths.items()}
        texts |= {name: _help_of(point) for name, point in self._installed().items()}
        names = self.list_commands(ctx)
        limit = formatter.width - 6 - max(map(len, names))
        texts |= {name: one.get_short_help_str(limit) for name, one in self.commands.items()}
        with formatter.section("Commands"):
            formatter.write_dl([(name, texts[name]) for name in names])

    def _installed(self) -> dict[str, EntryPoint]:
        """The commands of installed packages in this group, by name."""
        if self._below is None:
            return {}
        taken = {f"{self._below}.{name}".removeprefix(".") for name in self._paths}
        points = offered(ENTRY_POINTS, "command", taken)
        return {
            name.rpartition(".")[2]: point
            for name, point in points.items()
            if name.rpartition(".")[0] == self._below
        }


def _help_of(point: EntryPoint) -> str:
    """The line of help of an installed package's command."""
    try:
        command: click.Command = point.load()
    except ImportError as error:
        return f"({point.value} cannot be loaded: {error})"
    return command.get_short_help_str(80)
