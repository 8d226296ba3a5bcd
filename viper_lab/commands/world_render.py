"""``viper world render``: stills of the embedded world with their ground truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from viper.commands.options import OutPath
from viper.errors import EXIT_OK, UsageError
from viper_lab.world.vocabulary import SPLITS

if TYPE_CHECKING:
    from viper_lab.world.scene import RenderedScene


@click.command()
@click.option("--split", type=click.Choice(SPLITS), default="val", show_default=True)
@click.option(
    "--index",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="The first scene of the split to draw.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    help="Draw the scene of this seed (see its JSON file); replaces --split and --index.",
)
@click.option("--count", type=click.IntRange(1, 100_000), default=1, show_default=True)
@click.option(
    "--out",
    type=OutPath(),
    required=True,
    help="Folder for one PNG and one JSON file a scene.",
)
def render(split: str, index: int, seed: int | None, count: int, out: Path) -> int:
    """Draw scenes and write their exact ground truth beside them.

    The JSON file holds the scene, and for each object its visible box (x0, y0, x1, y1 in
    pixels from the top-left corner), depth and visible share.
    """
    from viper_lab.world.layout import sample_scene
    from viper_lab.world.render import render_scene
    from viper_lab.world.splits import scene_index, split_of

    if seed is not None:
        split, index = split_of(seed), scene_index(seed)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot make the folder {out}: {error.strerror}; choose another"
        ) from None
    for number in range(index, index + count):
        stem = out / f"{split}-{number:06d}"
        _write(render_scene(sample_scene(split, number)), stem)
        click.echo(f"{stem}.png")
    return EXIT_OK


def _write(rendered: RenderedScene, stem: Path) -> None:
    from PIL import Image

    from viper_lab.world.stills import truth_record

    Image.fromarray(rendered.image).save(f"{stem}.png")
    Path(f"{stem}.json").write_text(json.dumps(truth_record(rendered), indent=1) + "\n")
