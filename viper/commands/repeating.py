"""The command line that repeats what is being done."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator
from typing import Any

import click
from click.core import ParameterSource


def command_line(context: click.Context, leave_out: Collection[str] = ()) -> str:
    """The running command with the options that were given, quoted for a shell.

    Args:
        leave_out: names of parameters that do not change what is done.
    """
    options: list[str] = []
    arguments: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not given or name in leave_out:
            continue
        if isinstance(parameter, click.Option):
            options += _option(parameter, context.params[name])
        else:
            arguments += _values(context.params[name])
    words = [*context.command_path.split(), *options]
    if any(one.startswith("-") for one in arguments):
        words.append("--")
    return shlex.join([*words, *arguments])


def _option(option: click.Option, value: Any) -> Iterator[str]:
    if option.is_flag:
        yield _longest(option.opts if value else option.secondary_opts or option.opts)
        return
    for one in _values(value):
        yield from (_longest(option.opts), one)


def _longest(spellings: list[str]) -> str:
    return max(spellings, key=len)


def _values(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list | tuple) else [str(value)]
