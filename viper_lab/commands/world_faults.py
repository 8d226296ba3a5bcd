"""``viper world faults``: plants faults into right programs, for the critic to learn from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from viper.commands.options import OutPath, open_profile, profile_options
from viper.errors import EXIT_OK


@click.command()
@click.option(
    "--work",
    type=OutPath(),
    default=Path(".work"),
    show_default=True,
    help="Work folder of viper world train critic; shards found there are kept.",
)
@click.option("--split", type=click.Choice(["train", "val"]), default="train", show_default=True)
@click.option(
    "--count", type=click.IntRange(1), default=4000, show_default=True, help="Faults in all."
)
@click.option("--seed", type=int, default=0, show_default=True)
@profile_options
def faults(work: Path, split: str, count: int, seed: int, **given: Any) -> int:
    """Plant faults into canonical programs and keep them as text.

    The profile's tools run the programs. Ctrl-C keeps the shards that are whole; the same command
    goes on. Progress goes to stderr.
    """
    profile = open_profile(given).without_examples()
    from viper.commands.terminal import counter
    from viper_lab.faults.cases import write_cases
    from viper_lab.recipes.critic import FAULTS

    components = profile.components()
    try:
        with counter("planting", count) as advance:
            held = 0

            def on_shard(shards: int, cases: int) -> None:
                nonlocal held
                advance(f"{shards} shards", cases - held)
                held = cases

            folder = work / FAULTS
            made = write_cases(components, folder, count, split=split, seed=seed, report=on_shard)
    finally:
        components.close()
    click.echo(f"{made} faults in {folder}")
    return EXIT_OK
