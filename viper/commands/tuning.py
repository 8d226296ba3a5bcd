"""Options of the commands that tune a language model, and the tuning with its progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import click

from viper.commands import options as cli
from viper.commands.terminal import counter
from viper.tuning.agent.masking import MaskedWorkflow
from viper.tuning.agent.training import TunedAgent, TuneSettings, tune


@dataclass(frozen=True, kw_only=True)
class TuningOptions(cli.ProfileChoice):
    """Profile, and how its model is tuned."""

    # fmt: off
    steps: int = cli.option("--steps", type=click.IntRange(1), default=300,
        help="Number of optimiser steps.")
    batch: int = cli.option("--batch", type=click.IntRange(1), default=16,
        help="Number of texts in a forward pass.")
    accumulate: int = cli.option("--accumulate", type=click.IntRange(1), default=1,
        help="Number of forward passes for one optimiser step.")
    learning_rate: float = cli.option("--learning-rate", type=click.FloatRange(0, min_open=True),
        default=5e-4, help="Learning rate of the optimiser.")
    rank: int = cli.option("--rank", type=click.IntRange(1), default=32,
        help="Rank of the matrices of a new adapter; an adapter of the profile keeps its rank.")
    longest: int = cli.option("--longest", type=click.IntRange(16), default=2048, metavar="TOKENS",
        help="Leave out texts with more tokens than this.")
    seed: int = cli.given_by(
        cli.seed_option("Random seed for new matrices and for the order of texts."))
    # fmt: on

    def tune_settings(self) -> TuneSettings:
        """Return the settings of these options."""
        names = {field.name for field in fields(TuneSettings)} & vars(self).keys()
        return TuneSettings(**{name: getattr(self, name) for name in names})


def tune_and_tell(
    label: str,
    tuned: TunedAgent,
    texts: Sequence[MaskedWorkflow],
    settings: TuneSettings,
    out: Path,
    work: Path,
    held_out: Sequence[MaskedWorkflow] = (),
    what: str = "texts",
) -> int:
    """Tune as :func:`viper.tuning.agent.training.tune`, show progress, return the texts left out.

    Args:
        label: what stands before the progress.
        what: the texts, in the line about those that are too long.
    """
    too_long: list[int] = []
    with counter(label, settings.steps) as advance:
        tune(tuned, texts, settings, out, work, _reporter(advance), held_out, too_long.append)
    if too_long:
        click.echo(
            f"{too_long[0]} of {len(texts)} {what} take more than {settings.longest} tokens and "
            "were not learned; --longest sets the bound",
            err=True,
        )
    return sum(too_long)


def _reporter(advance: Callable[[str, int], None]) -> Callable[[int, float], None]:
    reached = 0

    def report(step: int, loss: float) -> None:
        nonlocal reached
        advance(f"loss {loss:.4f}", step - reached)
        reached = step

    return report
