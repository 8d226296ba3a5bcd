"""``viper ace``: in-context examples mined from labelled samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from viper.commands.options import open_profile, profile_options, quiet_libraries
from viper.errors import EXIT_FAILED, EXIT_OK


@click.group()
def ace() -> None:
    """Automatically made in-context examples (ACEs).

    Source: Stanić et al. 2024, sec. 2.3.
    """


@ace.command()
@click.option("--data", type=click.Choice(["world"]), default="world", show_default=True)
@click.option("--split", type=click.Choice(["train", "val"]), default="train", show_default=True)
@click.option(
    "--shots",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="Labelled samples tried for each family.",
)
@click.option(
    "--keep",
    type=click.IntRange(1, 1_000),
    default=16,
    show_default=True,
    help="Examples kept for each task and API.",
)
@click.option("--api", "apis", multiple=True, default=("abstract", "vipergpt"), show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The bank to write.")
@profile_options
def mine(**given: Any) -> int:
    """Run zero-shot over a few labelled samples and keep the programs that were right.

    The bank is written in one step at the end; Ctrl-C leaves an earlier one as it was.
    """
    quiet_libraries(given["offline"])
    from viper.ace.bank import write_bank
    from viper.ace.mine import keep_best
    from viper.data.sample import Where
    from viper.evaluate.labelled import labelled_samples
    from viper.evaluate.prefetch import with_cache
    from viper.reasoner import Reasoner
    from viper.world.queries.meaning import FAMILIES

    samples = [
        sample
        for family in FAMILIES
        for sample in labelled_samples(
            "world",
            Where(None, f"{given['split']}:{family}", given["seed"], given["shots"]),
        )
    ]
    kept = []
    for api in given["apis"]:
        profile = open_profile({**given, "api": api}).without_examples()
        with with_cache(Reasoner(profile)) as reasoner:
            kept += keep_best(_mined(reasoner, samples, api, given["seed"]), given["keep"])
    write_bank(given["out"], kept)
    click.echo(f"{given['out']}: {len(kept)} examples")
    return EXIT_OK if kept else EXIT_FAILED


def _mined(reasoner: Any, samples: list[Any], api: str, seed: int) -> list[Any]:
    from viper.ace.mine import mine as mine_samples
    from viper.ace.mine import mining_options
    from viper.commands.progress import counter
    from viper.evaluate.prefetch import prefetch_programs

    requests = [(sample.query, mining_options(sample.query, api, seed)) for sample in samples]
    with counter(f"writing {api} programs", len(samples)) as advance:
        prefetch_programs(reasoner, requests, lambda count: advance("", count))
    found = []
    with counter(f"mining {api}", len(samples)) as advance:
        for item in mine_samples(reasoner, samples, api=api, seed=seed):
            found.append(item)
            advance(f"{item.right} right of {item.done}")
    return found
