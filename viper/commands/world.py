"""``viper world``: the embedded world's own commands, with those that need a profile."""

from __future__ import annotations

from viper.commands.world_faults import faults
from viper.commands.world_score import score
from viper.world.commands import world

world.add_command(faults)
world.add_command(score)

__all__ = ["world"]
