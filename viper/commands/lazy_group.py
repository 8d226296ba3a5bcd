"""A group that imports a command only when it runs, so that ``--help`` stays fast.

An installed package adds a command by an entry point of the group ``viper.commands``. The name of
the entry point is the name of the command, or ``GROUP.NAME`` for a command below a group.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from viper.errors import UnknownNameError
from viper.plugins import Registry

COMMANDS, INSTALLED = "Commands", "Installed packages"

# Key of the first argument in the context of a group whose default command received it.
_NO_COMMAND = f"{__name__}.no_command"


class LazyCommand(NamedTuple):
    """Where a command is defined and how the help of its group lists it.

    Attributes:
        path: ``module:attribute`` of the command.
        help: one line for the help of the group.
        section: heading above the line; empty for a hidden command.
    """

    path: str
    help: str
    section: str = COMMANDS


class LazyGroup(click.Group):
    """A group of commands that are imported on use, beside commands added by decorators.

    Args:
        paths: the fields of a `LazyCommand` for each name.
        old_names: the new words for each old name, as ``data score`` for ``score``.
        below: names of this group in the entry points of installed packages.
        default: name of the command that runs if the first argument names no command.
        section: heading under which a group of this class stands in the help of the group above.
    """

    def __init__(
        self,
        *args: Any,
        paths: Mapping[str, tuple[str, ...]] | None = None,
        old_names: Mapping[str, str] | None = None,
        below: Collection[str] = (),
        default: str | None = None,
        section: str = "",
        **attributes: Any,
    ) -> None:
        super().__init__(*args, **attributes)
        self._lazy = {name: LazyCommand(*fields) for name, fields in (paths or {}).items()}
        self._old_names, self._below, self._default = old_names or {}, below, default
        self.section = section

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for _, name, _ in self._rows()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        points = [commands.find(prefix + cmd_name) for prefix, commands in self._registries()]
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        if cmd_name not in self._lazy:
            added = next((point for point in points if point), None)
            return added.load() if added else self._follow(ctx, self._old_names.get(cmd_name, ""))
        module, _, attribute = self._lazy[cmd_name].path.partition(":")
        return getattr(importlib.import_module(module), attribute)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = args[0] if self._default and args else ctx.help_option_names[0]
        if first not in ctx.help_option_names and not self.get_command(ctx, first):
            ctx.meta[_NO_COMMAND] = first
            args = [self._default or "", *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of a name; an old name gives the new name and its command."""
        new_name = self._old_names.get(args[0], "")
        command = copy.copy(self._follow(ctx, new_name))
        if command is None:
            self._check_known(ctx, args[0])
            return super().resolve_command(ctx, args)
        note = f"`{ctx.command_path} {args[0]}` is an old name of `{ctx.command_path} {new_name}`."
        command.help = f"{note}\n\n{inspect.cleandoc(command.help or '')}"
        return new_name, command, args[1:]

    def _check_known(self, ctx: click.Context, name: str) -> None:
        """End in one line with the likely name if a command does not exist."""
        if ctx.resilient_parsing or name.startswith("-") or self.get_command(ctx, name):
            return
        from difflib import get_close_matches  # only errors need it

        known = [*self.list_commands(ctx), *self._lazy, *self._old_names]
        near = get_close_matches(name, known, 1)
        meant = f" Did you mean {self._old_names.get(near[0], near[0])!r}?" if near else ""
        ctx.fail(f"No such command {name!r}.{meant}")

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what neither it nor this group knows may be a misspelt command."""
        try:
            return super().invoke(ctx)
        except UnknownNameError as error:
            if not self._default or error.name != ctx.meta.get(_NO_COMMAND):
                raise
            known = [*self.list_commands(ctx), *error.known]
            raise UnknownNameError(f"command or {error.kind}", error.name, known) from None

    def _follow(self, ctx: click.Context, words: str) -> click.Command | None:
        """Return the command that the words lead to, group by group; None if one is missing."""
        command: click.Command | None = self if words else None
        for word in words.split():
            command = command.get_command(ctx, word) if isinstance(command, click.Group) else None
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names from the table, so that a key press imports no command."""
        rows = [(name, text) for _, name, text in self._rows() if name.startswith(incomplete)]
        items = [CompletionItem(name, help=text) for name, text in rows]
        items += super(click.Group, self).shell_complete(ctx, incomplete)
        default = self.get_command(ctx, self._default) if self._default and incomplete else None
        if default is None or rows:
            return items
        first = next(each for each in default.params if isinstance(each, click.Argument))
        names = first.shell_complete(ctx, incomplete)
        return [*names, *items, *default.shell_complete(ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = self._rows()
        width = max(len(name) for _, name, _ in rows)
        for heading in dict.fromkeys(section for section, _, _ in rows):
            with formatter.section(heading):
                lines = [(name, text) for section, name, text in rows if section == heading]
                formatter.write_dl([(name.ljust(width), text) for name, text in lines])

    def _rows(self) -> list[tuple[str, str, str]]:
        """Return section, name and line of help of every visible command."""
        lazy = self._lazy.items()
        rows = [(entry.section, name, entry.help) for name, entry in lazy if entry.section]
        if self.commands:
            added = self.commands.items()
            rows += [(COMMANDS, name, command.get_short_help_str(90)) for name, command in added]
            rows.sort(key=lambda row: row[1])
        installed = {
            name.removeprefix(prefix): point
            for prefix, commands in self._registries()
            for name, point in commands.installed(rf"{re.escape(prefix)}[^.]*$").items()
        }
        for name, point in installed.items():
            section, text = INSTALLED if "" in self._below else COMMANDS, ""
            try:
                command = point.load()
                section = getattr(command, "section", "") or section
                text = command.get_short_help_str(90)
            except ImportError as error:
                text = f"({point.value} cannot be loaded: {error})"
            rows.append((section, name, text))
        return rows

    def _registries(self) -> Iterator[tuple[str, Registry]]:
        """Yield the registry of this group's commands under each of its names, with the prefix."""
        for group in self._below:
            prefix = f"{group}.".lstrip(".")
            names = [f"{prefix}{name}" for name in (*self._lazy, *self.commands)]
            yield prefix, Registry("viper.commands", "command", dict.fromkeys(names, ""))
