"""Groups of options, and those that read the same in several commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import click

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

SEED = click.IntRange(-(2**31), 2**31)
"""What a store and every generator of random numbers take, whatever is added to it."""


def options(*decorators: Decorator) -> Decorator:
    """One decorator for several options, which ``--help`` lists in the order given."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorated


root_option: Decorator = click.option(
    "--root",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the set's official files.",
)


state_option: Decorator = click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where pools, caches and your own profiles live; else VIPER_HOME, else the data folder.",
)


def seed_option(
    help_text: str = "Chooses samples, and is the first seed of sampling.",
) -> Decorator:
    """``--seed``."""
    return click.option("--seed", type=SEED, default=0, show_default=True, help=help_text)


def workers_option(help_text: str = "Samples on their way at once.") -> Decorator:
    """``--workers``."""
    return click.option(
        "--workers", type=click.IntRange(1, 1024), default=16, show_default=True, help=help_text
    )
