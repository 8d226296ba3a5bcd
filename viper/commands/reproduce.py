"""``viper reproduce``: the figures of the papers, measured again here."""

from __future__ import annotations

import click

from viper.commands.reproduce_avis import avis
from viper.commands.reproduce_clova import clova
from viper.commands.reproduce_dwim import dwim
from viper.commands.reproduce_zero_shot import zero_shot


@click.group()
def reproduce() -> None:
    """Measure the papers' figures again, with claims that hold or do not.

    Each prints its tables and the claims, writes a page that opens from disk, and goes on where
    it was cut off.
    """


reproduce.add_command(zero_shot)
reproduce.add_command(clova)
reproduce.add_command(avis)
reproduce.add_command(dwim)
