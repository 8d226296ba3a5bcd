"""Reference pictures of a catalogue with their notes, which are often right and often useless.

Each design has at least one kind of note that states its name: the names of visible objects, the
caption, or the title of the page. The kind differs between designs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from viper.models.vision.roles import Pixels
from viper.tools.crops import object_crop
from viper_lab.world.knowledge.catalogue import Catalogue, Design
from viper_lab.world.layout import sample_scene
from viper_lab.world.render import render_scene
from viper_lab.world.scene import RenderedScene, SceneObject

# Least and greatest number of pictures of a design.
VIEWS = (1, 3)

# First scene of reference pictures; those of questions begin at 0.
FIRST_SCENE = 800_000_000

# Probability that an optional note of each kind states the name.
_TELLING = 0.65

# Share of captions that state a look-alike's name.
_WRONG = 0.04

_LABEL_FONT = 10

_CAPTIONS = ("my # at home", "# in the window", "a # that was found", "look at this #")
_BLAND = ("a nice thing on a table", "seen on a walk", "what a day", "no words", "still there")
_TITLES = ("buy # here", "# for sale", "all about #", "# in the shop")
_NO_TITLES = ("pictures of the week", "the old shop", "things and more", "page 7")


def scene_object(design: Design) -> SceneObject:
    """Return the design as an object of a scene."""
    return SceneObject(**vars(design.look), position=(0.0, 0.0, 0.0))


def with_labels(still: RenderedScene, marks: Sequence[str]) -> Pixels:
    """Return the picture with a label in front of each object that has a mark, uint8 [H, W, 3]."""
    if not any(marks):
        return still.image
    picture = Image.fromarray(still.image)
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(_LABEL_FONT)
    for (x0, _, x1, y1), mark in zip(still.boxes, marks, strict=True):
        if not mark:
            continue
        width, height = font.getbbox(mark)[2:]
        left = min(max(2.0, (x0 + x1 - width) / 2), picture.width - width - 3.0)
        top = min(float(y1) - 3, picture.height - height - 4.0)
        box = (left - 3, top - 1, left + width + 2, top + height + 3)
        draw.rectangle(box, fill=(246, 246, 240), outline=(70, 70, 70))
        draw.text((left, top), mark, fill=(12, 12, 12), font=font)
    return np.asarray(picture)


def references(catalogue: Catalogue) -> Iterator[tuple[Pixels, Mapping[str, Any]]]:
    """Yield reference pictures of all designs, rendered on demand.

    Each is uint8 [H, W, 3], with its record of ``metadata.jsonl`` except for the file's name.
    """
    random = Random(f"gallery {catalogue.split} {catalogue.seed}")
    scene = FIRST_SCENE + 100_000 * catalogue.seed
    for design in catalogue.designs:
        for note in notes_of(catalogue, design, random):
            still = render_scene(
                sample_scene(
                    catalogue.split, scene, min_objects=1, max_objects=1,
                    objects=[scene_object(design)],
                )
            )  # fmt: skip
            scene += 1
            pixels = with_labels(still, [design.mark])
            yield object_crop(pixels, still.box(0)), note


def notes_of(catalogue: Catalogue, design: Design, random: Random) -> list[dict[str, Any]]:
    """Return the notes of each picture of a design."""
    views = random.randint(*VIEWS)
    must = random.choice(("entities", "caption", "title"))
    alike = catalogue.look_alikes(design)
    notes = []
    for view in range(views):
        tells = {
            kind: random.random() < _TELLING or (view == 0 and kind == must)
            for kind in ("entities", "caption", "title")
        }
        named = design.name
        if alike and view and random.random() < _WRONG:
            named = random.choice(alike).name
        note: dict[str, Any] = {
            "caption": _said(random, _CAPTIONS if tells["caption"] else _BLAND, named),
            "title": _said(random, _TITLES if tells["title"] else _NO_TITLES, design.name),
        }
        if tells["entities"]:
            mark = f", marked {design.mark}" if design.mark else ""
            described = f"a {design.look.shape} by {design.maker}{mark}"
            note["entities"] = [{"name": design.name, "description": described}]
        notes.append(note)
    return notes


def work_note(name: str, random: Random) -> dict[str, Any]:
    """Return the note of a named picture."""
    title = random.choice(("the picture #", "# as a print", "# in the museum"))
    return {"caption": title.replace("#", name), "title": random.choice(_NO_TITLES)}


def _said(random: Random, wordings: Sequence[str], name: str) -> str:
    return random.choice(wordings).replace("#", name)
