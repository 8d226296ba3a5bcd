"""``viper world``: the embedded world."""

from __future__ import annotations

import click

from viper.commands.lazy_group import LazyGroup

_COMMANDS = {
    "render": ("viper.commands.world_render:render", "Scenes and clips as files."),
    "questions": ("viper.commands.world_questions:questions", "Queries about scenes, as JSON."),
    "knowledge": (
        "viper.commands.world_knowledge:knowledge",
        "A catalogue of designs to look things up in.",
    ),
    "train": ("viper.commands.world_train:train", "Train one of the embedded models."),
    "score": ("viper.commands.world_score:score", "How well the models see the world."),
    "faults": ("viper.commands.world_faults:faults", "Programs with planted faults."),
}


@click.group(cls=LazyGroup, paths=_COMMANDS)
def world() -> None:
    """The embedded tabletop world: pictures, questions, training and scores."""
