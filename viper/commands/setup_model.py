"""``viper setup model``: a detector in an ONNX file becomes that of the profile ``photo-lite``.

`model` proposes the layout of the file by looking at its graph, writes it beside the file, runs the
detector on a picture to show what it finds, and writes the user's own profile.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TextIO

import click
import tomlkit

from viper.commands.options import state_option
from viper.commands.setup import PHOTO_LITE, make_default
from viper.embedded import MEDIA
from viper.errors import EXIT_OK, UsageError
from viper.escape import for_terminal
from viper.models.media import read_picture
from viper.models.vision.detector_onnx import OnnxDetector, open_session
from viper.models.vision.onnx_layout import MOST_CATEGORIES
from viper.models.vision.onnx_proposal import proposed
from viper.profiles.backends import ONNX
from viper.profiles.files import config_file, state_dir
from viper.record import read_toml
from viper.schema import to_json
from viper.storage.files import write_file

# Boxes that are shown, best first: enough to see whether places and names are right.
_SHOWN = 8

# Characters of a file of names, one on each line.
_MOST_NAMES = MOST_CATEGORIES * 100


# fmt: off
@click.command()
@click.argument("file", metavar="FILE.onnx", type=click.Path(path_type=Path))
@click.option("--picture", type=click.Path(path_type=Path), default=MEDIA / "table.png",
    help="Picture to try the detector on. By default one of this package.")
@click.option("--categories", metavar="FILE", type=click.File(errors="replace"),
    help="Text file with the names of the categories, one on each line, in the order of the "
         "model's outputs. By default those of the file's metadata, or of COCO if there are 80.")
@click.option("--licence", metavar="TEXT", help="Licence of the weights.")
@click.option("--force", is_flag=True, help="Overwrite a layout that exists.")
@state_option
# fmt: on
def model(
    file: Path, picture: Path, categories: TextIO | None, licence: str | None, force: bool,
    state: Path | None,
) -> int:  # fmt: skip
    """Make the detector in FILE.onnx that of the profile photo-lite on this machine.

    Writes FILE.toml, which says how pictures go in and boxes come out; a guess by the shapes and
    the metadata of the graph. Look at what the detector finds, correct the file if the boxes are
    wrong, and run the command again: a layout that exists is kept.

    \b
    viper setup model yolox_nano.onnx --picture street.jpg
    """
    path, pixels = file.expanduser().absolute(), read_picture(picture)
    beside, session = path.with_suffix(".toml"), open_session(path)
    if beside.exists() and not force:
        if categories or licence:
            raise UsageError(f"{beside} exists; edit it, or overwrite it with --force")
        kept = ", kept as it is; --force overwrites it"
    else:
        lines = categories.read(_MOST_NAMES).rstrip().splitlines() if categories else None
        layout = proposed(session, pixels, lines, licence)
        write_file(beside, tomlkit.dumps(to_json(layout)))
        kept = ""
    detector = OnnxDetector.from_pretrained(path)
    layout = detector.layout
    surveyed = detector.survey(detector.encode([pixels])[0])
    boxes = sorted(surveyed, key=lambda each: -each[1].score)
    height, width = layout.size
    click.echo(
        f"layout   {layout.decoder}, {width} x {height} {layout.axes} {layout.colors}, "
        f"letterbox {layout.letterbox}, {len(layout.categories)} categories ({beside}{kept})"
    )
    click.echo(f"licence  {for_terminal(layout.licence)}")
    if "agpl" in layout.licence.lower():
        click.echo("warning  the AGPL asks for the source of everything that serves this model")
    for index, found in boxes[:_SHOWN]:
        place = ", ".join(f"{side:.0f}" for side in found.box)
        name = for_terminal(layout.categories[index])
        click.echo(f"found    {name} {found.score:.2f} at ({place}) in {picture.name}")
    if not boxes:
        click.echo(f"found    nothing in {picture.name}; try another with --picture")
    own = state_dir(state) / "profiles" / f"{PHOTO_LITE}.toml"
    document = tomlkit.parse(read_toml(own)[0]) if own.is_file() else tomlkit.document()
    # The id changes with the weights and the layout: a calibration is that of one detector.
    description = f"photographs offline, with {detector.model_id}"
    if document.get("description") != description:
        document.pop("confidence", None)
    document |= {"description": description, "extends": PHOTO_LITE}
    choice = {"backend": ONNX, "model": str(path)}
    document.setdefault("roles", tomlkit.table())["detector"] = choice
    write_file(own, tomlkit.dumps(document))
    click.echo(f"profile  {PHOTO_LITE} uses it on this machine ({own}): --profile {PHOTO_LITE}")
    if not (config_file(state).exists() or os.environ.get("VIPER_PROFILE")):  # nothing was chosen
        make_default(PHOTO_LITE, state)
    return EXIT_OK
