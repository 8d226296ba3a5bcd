"""``viper reproduce``: the figures of the papers, measured again here."""

from __future__ import annotations

import click

from viper.commands.lazy_group import LazyGroup

_COMMANDS = {
    "zero-shot": (
        "viper_lab.commands.reproduce_zero_shot:zero_shot",
        "Zero-shot programmers (Stanić et al.).",
    ),
    "clova": ("viper_lab.commands.reproduce_clova:clova", "CLOVA: tools that learn."),
    "avis": ("viper_lab.commands.reproduce_avis:avis", "AVIS: searches step by step."),
    "dwim": ("viper_lab.commands.reproduce_dwim:dwim", "DWIM: agents tuned on their workflows."),
}


@click.group(cls=LazyGroup, paths=_COMMANDS)
def reproduce() -> None:
    """Measure the papers' figures again.

    Each prints its tables and the claims, which hold or do not, writes a page that opens from disk,
    and goes on where it was cut off.
    """
