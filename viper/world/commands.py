"""``viper world``: the commands of the embedded world.

A subcommand is a click command in a file of its own, named in ``_COMMANDS`` and
imported when it is used, so that ``--help`` stays light.
"""

from __future__ import annotations

import importlib

import click

_COMMANDS = {
    "knowledge": "viper.world.command_knowledge:knowledge",
    "questions": "viper.world.command_questions:questions",
    "render": "viper.world.command_render:render",
    "train": "viper.world.command_train:train",
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, name = _COMMANDS[cmd_name].split(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


@click.group(cls=_LazyGroup)
def world() -> None:
    """The embedded tabletop world: pictures, questions, training and scores."""
