"""Composes many training pictures from few by pasting objects into other collected pictures.

`masked_picture` reads a collected picture with its masks; `composed` pastes objects of others into
one of them; `is_of_colour` decides about the colours.

All annotated objects are pasted, so that pasting itself is no evidence for the concept. Colours are
exchanged too unless the concept is a colour, which is determined from the objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from viper.models.vision.boxes import mask_box
from viper.models.vision.roles import Floats, Mask, Pixels
from viper.tools.edits import box_mask
from viper.tuning.training_data import AnnotatedPicture, plain

# All orders of a picture's colour channels; the first changes nothing and stands for no exchange.
ORDERS = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))

# Largest ratio of the colour distance among a concept's objects to their distance from other
# objects for which the concept counts as a colour. Measured on two data sets of each reserved
# concept: at most 0.29 for the colours, at least 0.37 for the others.
ONE_COLOUR = 1 / 3

# Least visible share of an object that counts: one that a pasted object covers (`_MOST_COVERED`)
# still counts, one that several cover may not.
LEAST_SEEN = 0.4

# An object stays recognisable if a pasted one covers about a third of it.
_MOST_COVERED = 0.35
# More objects would hide the collected ones.
_MOST_PASTED = 3
# Pixels; a smaller object has no detail left.
_LEAST_SIDE = 8


@dataclass(frozen=True, eq=False)
class Thing:
    """An object of a picture.

    Attributes:
        mask: bool [H, W] of the whole picture.
        shown: whether the object shows the concept.
        source: index of the collected picture that the object comes from.
        area: number of its pixels there, or when it was pasted.
    """

    mask: Mask
    shown: bool
    source: int
    area: int

    @property
    def box(self) -> tuple[int, int, int, int]:
        """Return (x0, y0, x1, y1) of the visible part; all 0 if nothing is visible."""
        return mask_box(self.mask)


@dataclass(frozen=True, eq=False)
class MaskedPicture:
    """A collected or composed picture with the masks of its objects.

    Attributes:
        pixels: uint8 [H, W, 3].
        things: objects with their masks.
        source: index of the collected picture, or of the background of a composed one.
        whole: whether every object that shows the concept is annotated.
    """

    pixels: Pixels
    things: tuple[Thing, ...]
    source: int
    whole: bool = True

    def counted(self) -> list[tuple[Thing, tuple[int, int, int, int]]]:
        """Return the sufficiently visible objects with their boxes."""
        things = [each for each in self.things if each.mask.sum() >= LEAST_SEEN * max(1, each.area)]
        return [(thing, thing.box) for thing in things if min(thing.box[2:]) > 0]


def masked_picture(picture: AnnotatedPicture, concept: str, source: int) -> MaskedPicture:
    """Build a collected picture with its masks. The mask of an object without one is its box.

    Raises:
        MediaError, DataError: the picture or a mask cannot be read.
    """
    pixels = picture.pixels()
    height, width = pixels.shape[:2]
    name, things = plain(concept), []
    for index, thing in enumerate(picture.things):
        mask = None if thing.mask is None else thing.mask()
        if mask is None or not mask.any():
            x0, y0, x1, y1 = (round(edge) for edge in thing.box)
            mask = box_mask((width, height), (x0, y0, x1, y1))
        annotated = plain(picture.concept) == name and index in picture.positives
        positive = annotated or any(plain(label) == name for label in thing.labels)
        things.append(Thing(mask, positive, source, int(mask.sum())))
    return MaskedPicture(pixels, tuple(things), source, concept not in picture.incomplete)


def is_of_colour(scenes: Sequence[MaskedPicture]) -> bool:
    """Return whether the concept's objects share a colour that others do not have."""
    colours, others = _chroma(scenes, True), _chroma(scenes, False)
    # the median of fewer than three distances is chance
    if len(colours) < 3 or len(others) < 3:
        return True  # too little to tell: colours are left as they are
    among = _distances(colours, colours)[np.triu_indices(len(colours), 1)]
    apart = float(np.median(_distances(colours, others)))
    return float(np.median(among)) < ONE_COLOUR * apart


def _chroma(scenes: Sequence[MaskedPicture], positive: bool) -> Floats:
    """Return float [N, 3]: the median colour of each object, as shares of the channels' sum."""
    rows = [
        np.median(scene.pixels[thing.mask].astype(np.float32), axis=0) + 1
        for scene in scenes
        for thing in scene.things
        if thing.shown == positive and thing.mask.any()
    ]
    colours = np.array(rows, np.float32).reshape(-1, 3)
    return colours / colours.sum(1, keepdims=True)


def _distances(first: Floats, second: Floats) -> Floats:
    return np.abs(first[:, None] - second[None]).sum(-1)


def composed(
    scenes: Sequence[MaskedPicture], rng: np.random.Generator, recolour: bool
) -> MaskedPicture:
    """Compose a picture: a random picture, mirrored or not, lighter or darker, with pasted objects.

    Half of the pasted objects show the concept on average, if there are others.

    Args:
        recolour: exchange the channels of the picture and of each object.
    """
    canvas = scenes[int(rng.integers(len(scenes)))]
    mirrored = bool(rng.random() < 0.5)
    pixels = _turned(canvas.pixels, mirrored, _order(rng, recolour)).copy()
    things = list(canvas.things)
    if mirrored:
        things = [replace(thing, mask=thing.mask[:, ::-1]) for thing in things]
    for _ in range(int(rng.integers(0, _MOST_PASTED + 1))):
        positive = bool(rng.random() < 0.5)
        pairs = [(scene, thing) for scene in scenes for thing in scene.things if thing.mask.any()]
        fit = [pair for pair in pairs if pair[1].shown == positive] or pairs
        _paste(pixels, things, *fit[int(rng.integers(len(fit)))], rng, recolour)
    lit = np.clip(pixels * rng.uniform(0.85, 1.15), 0, 255).astype(np.uint8)
    return MaskedPicture(lit, tuple(things), canvas.source, canvas.whole)


def _paste(
    pixels: Pixels,
    things: list[Thing],
    scene: MaskedPicture,
    thing: Thing,
    rng: np.random.Generator,
    recolour: bool,
) -> None:
    """Paste an object at a random place, unless it would hide too much of another one."""
    from PIL import Image

    x0, y0, x1, y1 = thing.box
    cut, cover = scene.pixels[y0:y1, x0:x1], thing.mask[y0:y1, x0:x1]
    mirrored = bool(rng.random() < 0.5)
    cut = _turned(cut, mirrored, _order(rng, recolour))
    cover = cover[:, ::-1] if mirrored else cover
    scale = np.exp(rng.uniform(np.log(0.65), np.log(1.5)))
    stretch = rng.uniform(0.92, 1.08, 2)
    wide, high = (
        int(side * scale * by) for side, by in zip(cover.shape[::-1], stretch, strict=True)
    )
    height, width = pixels.shape[:2]
    if not (_LEAST_SIDE <= wide <= 0.6 * width and _LEAST_SIDE <= high <= 0.6 * height):
        return
    sized, smooth = (wide, high), Image.Resampling.BILINEAR
    resized = np.asarray(Image.fromarray(np.ascontiguousarray(cut)).resize(sized, smooth))
    opaque = Image.fromarray(cover.astype(np.uint8) * 255).resize(sized, smooth)
    opacity = np.asarray(opaque, np.float32) / 255
    left = int(rng.integers(0, width - wide + 1))
    top = int(rng.integers(0, height - high + 1))
    place = np.s_[top : top + high, left : left + wide]
    mask = np.zeros((height, width), np.bool_)
    # a pixel belongs to what covers most of it
    mask[place] = opacity > 0.5
    if any((other.mask & mask).sum() > _MOST_COVERED * max(1, other.area) for other in things):
        return
    share = opacity[..., None]
    pixels[place] = (pixels[place] * (1 - share) + resized * share).astype(np.uint8)
    things[:] = [replace(other, mask=other.mask & ~mask) for other in things]
    things.append(Thing(mask, thing.shown, thing.source, int(mask.sum())))


def _order(rng: np.random.Generator, recolour: bool) -> tuple[int, ...]:
    return ORDERS[int(rng.integers(len(ORDERS)))] if recolour else ORDERS[0]


def _turned(pixels: Pixels, mirrored: bool, order: Sequence[int]) -> NDArray[np.uint8]:
    return (pixels[:, ::-1] if mirrored else pixels)[..., list(order)]
