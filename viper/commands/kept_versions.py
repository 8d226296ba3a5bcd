"""What the commands of pools share: where a pool is, its versions, text fit for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from viper.storage.versioned import Ledger


def pool_folder(state: Path | None, name: str) -> Path:
    """The folder of a pool; see :func:`viper.profiles.document.state_dir`."""
    from viper.profiles.document import state_dir

    return state_dir(state) / name


def echo_versions(ledger: Ledger) -> None:
    """The versions that can be rolled back to, the newest last."""
    from viper.commands.tables import echo_table

    rows = [(str(one.number), one.made, shown(one.note)) for one in ledger.versions()]
    if not rows:
        click.echo(f"{ledger.folder}: nothing was kept yet", err=True)
        return
    echo_table(("version", "made", "by"), rows)


def roll_back(ledger: Ledger, version: int) -> None:
    """Goes back to a version, and says what is the newest one now."""
    before = ledger.version
    now = ledger.roll_back(version)
    if now == before:
        click.echo(f"version {now} is like version {version} already")
    else:
        click.echo(f"version {now} is like version {version}; version {before} is still there")


def shown(text: str, width: int | None = None) -> str:
    """Text on one line, without what a terminal would obey, cut to a width."""
    from viper.evaluate.reports.escape import for_terminal

    return for_terminal(text, width)


def indented(text: str) -> Iterator[str]:
    """The lines of a text, each further in and fit for a terminal."""
    for line in text.strip("\n").split("\n"):
        inside = line.lstrip(" ")
        yield f"    {' ' * (len(line) - len(inside))}{shown(inside)}".rstrip()
