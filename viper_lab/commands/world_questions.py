"""``viper world questions``: draws queries of the embedded world and prints them."""

from __future__ import annotations

import json

import click

from viper_lab.world.queries.meaning import FAMILIES
from viper_lab.world.vocabulary import SPLITS


@click.command("questions")
@click.option("--split", type=click.Choice(SPLITS), default="test", show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="Another seed, other queries.")
@click.option("--family", type=click.Choice(FAMILIES), help="One family; all of them by default.")
@click.option(
    "--count", type=click.IntRange(1), default=10, show_default=True, help="Queries a family."
)
@click.option("--programs", is_flag=True, help="Show the canonical program of each query.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def questions(
    split: str, seed: int, family: str | None, count: int, programs: bool, as_json: bool
) -> None:
    """Draw queries about fresh scenes and clips, with their answers."""
    from viper_lab.world.queries.generate import generate
    from viper_lab.world.queries.programs import gold_program

    for name in (family,) if family else FAMILIES:
        for sample in generate(name, split, seed, count):
            program = gold_program(sample.meaning, task=sample.task)
            if as_json:
                record = sample.to_json() | ({"program": program} if programs else {})
                click.echo(json.dumps(record))
                continue
            options = f"  [{'; '.join(sample.options)}]" if sample.options else ""
            answer = sample.answer_text if sample.box is None else f"box {_whole(sample.box)}"
            click.echo(f"{sample.sample_id}  {sample.text}{options}  -> {answer}")
            if programs:
                click.echo(f"{program}\n")


def _whole(box: tuple[float, float, float, float]) -> str:
    return "(" + ", ".join(f"{value:.0f}" for value in box) + ")"
