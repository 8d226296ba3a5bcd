"""``viper lab``: the embedded world, the papers' figures and studies of knowledge search."""

from __future__ import annotations

import click

from viper.commands.lazy_group import LazyGroup

_COMMANDS = {
    "world": ("viper_lab.commands.world:world", "Render, question, train and score the world."),
    "reproduce": ("viper_lab.commands.reproduce:reproduce", "Measure the papers' figures again."),
    "seek": (
        "viper.commands.seek:seek",
        "Show transition graphs; record and analyse knowledge searches.",
    ),
}


@click.group(cls=LazyGroup, paths=_COMMANDS, below=("lab",), section="Laboratory")
def lab() -> None:
    """Work on the embedded world; reproduce the papers; study knowledge searches."""
