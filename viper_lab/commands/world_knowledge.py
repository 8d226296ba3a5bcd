"""``viper world knowledge``: writes a catalogue as pictures and texts to look things up in."""

from __future__ import annotations

import json
from pathlib import Path

import click

from viper.commands.options import OutPath
from viper.errors import UsageError
from viper_lab.world.vocabulary import SPLITS


@click.command("knowledge")
@click.argument("out", type=OutPath())
@click.option("--split", type=click.Choice(SPLITS), default="val", show_default=True)
@click.option(
    "--seed",
    type=click.IntRange(0, 800),
    default=0,
    show_default=True,
    help="Another seed, another catalogue.",
)
@click.option(
    "--designs",
    type=click.IntRange(20, 150),
    default=120,
    show_default=True,
    help="Entries of the catalogue.",
)
@click.option(
    "--questions",
    "count",
    type=click.IntRange(0, 100_000),
    default=40,
    show_default=True,
    help="Questions, each with its picture.",
)
def knowledge(out: Path, split: str, seed: int, designs: int, count: int) -> None:
    """Write a knowledge world to OUT: reference pictures, texts, and questions that need both.

    \b
    viper world knowledge lore
    viper index images lore/gallery
    viper index text lore/texts.jsonl
    viper run lore/questions/0002.png "what do people of …?" --strategy seek
    """
    from viper_lab.world.knowledge.write import write_world

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out}: exists and is not empty; name a new folder")
    total = 0
    for part, number in write_world(out, split, seed, designs, count):
        total += number
        click.echo(f"{part}: {number:,}", err=True)
    first = next(iter((out / "questions.jsonl").read_text("utf-8").splitlines()), "")
    if first:
        one = json.loads(first)
        click.echo(f"{out / one['image']}: {one['text']} -> {one['answer']}")
