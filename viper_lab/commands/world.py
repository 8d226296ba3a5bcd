"""``viper world``: the embedded world."""

from __future__ import annotations

import click

from viper.commands.lazy_group import LazyGroup

_COMMANDS = {
    "render": ("viper_lab.commands.world_render:render", "Scenes and clips as files."),
    "questions": ("viper_lab.commands.world_questions:questions", "Queries about scenes, as JSON."),
    "knowledge": (
        "viper_lab.commands.world_knowledge:knowledge",
        "A catalogue of designs to look things up in.",
    ),
    "train": ("viper_lab.commands.world_train:train", "Train one of the embedded models."),
    "score": ("viper_lab.commands.world_score:score", "How well the models see the world."),
    "faults": ("viper_lab.commands.world_faults:faults", "Programs with planted faults."),
}


@click.group(cls=LazyGroup, paths=_COMMANDS)
def world() -> None:
    """The embedded world: render, question, train, score."""
