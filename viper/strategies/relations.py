"""Metamorphic relations: changes of a query and its media whose effect on the answer is known.

:func:`variants` applies the relations to the query of a run. A relation needs no label. It says of
one query which answer another query must have: the mirrored picture has the mirrored box, and a
brighter one the same count.

Source: metamorphic testing (Chen et al. 1998). Differs: a program's perception is tested, on the
very picture of the query.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from viper.models.media import Media
from viper.models.vision.roles import Pixels
from viper.record import outside
from viper.schema import Answer, PixelBox, Query, Trial

# Part of a side that a crop leaves around the objects found, because detectors need some context.
MARGIN = 0.06

# A crop cuts off at most one such part of a side at each end: enough to move every box, too
# little to remove an object that the program did not look for.
MOST_CUT = 10

# Visibly brighter, with no gray value but the brightest saturated.
GAMMA = 0.8
# Standard deviation in gray values: visible grain that hides no object.
NOISE = 10.0

# Words of a side, also in leftmost and left-hand, whose ends stay when the side is exchanged.
_SIDES = re.compile(r"\b(left|right)(?=(?:-?most|-?hand|wards?|ward)?\b)", re.IGNORECASE)
_ORDER = re.compile(r"\b(before|after|first|last)\b", re.IGNORECASE)
# Events that are another event backwards: reversed in time, what falls rises.
_DIRECTED = re.compile(
    r"\b(start|stop|begin|end|finish|appear|disappear|vanish|fall|fell|drop|enter|leave|left|open|"
    r"close|pick|put|push|pull|come|go|rise|become)\w*",
    re.IGNORECASE,
)
_OPPOSITES = {"left": "right", "before": "after", "first": "last"}
_OPPOSITES |= {other: word for word, other in _OPPOSITES.items()}


@dataclass(frozen=True)
class Variant:
    """A changed query.

    Attributes:
        name: what was changed.
        expected: the answer that it must have if the answer of the original query is right.
    """

    name: str
    query: Query
    media: Media
    expected: Answer


# Returns the variant of a query, or None if the relation does not apply to it.
#
# The arguments are the query, its media, its answer and the trial that gave it.
Relation = Callable[[Query, Media, Answer, Trial], Variant | None]


def variants(query: Query, media: Media, answer: Answer, trial: Trial) -> Iterator[Variant]:
    """Yield the variants of a query by all relations that apply to it."""
    for relation in RELATIONS:
        variant = relation(query, media, answer, trial)
        if variant is not None:
            yield variant


def mirrored(query: Query, media: Media, answer: Answer, trial: Trial) -> Variant | None:
    """Mirror picture or video left to right, and exchange the words left and right.

    Of several pictures it is not known whether the words name a side or a picture.
    """
    if media.kind == "images":
        return None
    flipped = _changed(media, lambda pixels: np.ascontiguousarray(pixels[..., ::-1, :]))
    width = (media.images[0] if media.video is None else media.video[0]).shape[1]
    box = answer.box
    if box is not None:
        box = (width - box[2], box[1], width - box[0], box[3])
    value = answer.value
    if isinstance(value, str):
        value = _opposite(value, _SIDES)
    expected = replace(answer, value=value, box=box)
    like = tuple((width - x1, y0, width - x0, y1) for x0, y0, x1, y1 in query.like)
    asked = replace(_reworded(query, _SIDES), like=like)
    return Variant("mirrored", asked, flipped, expected)


def brighter(query: Query, media: Media, answer: Answer, trial: Trial) -> Variant:
    """Brighten the pictures; the answer stays."""
    # a power keeps black and white as they are, so that nothing is cut off
    curve: Pixels = (255 * (np.arange(256) / 255) ** GAMMA).round().astype(np.uint8)
    return Variant("brighter", query, _changed(media, lambda pixels: curve[pixels]), answer)


def cropped(query: Query, media: Media, answer: Answer, trial: Trial) -> Variant | None:
    """Cut a narrow border off, but nothing of the objects found; the answer stays, moved.

    Of a video, where objects move, less is cut off.
    """
    if media.video is not None:
        high, wide = (size // (2 * MOST_CUT) for size in media.video.shape[1:3])
        part = _changed(media, lambda f: np.ascontiguousarray(f[:, high:-high, wide:-wide]))
        return Variant("cropped", query, part, answer) if high and wide else None
    boxes = _found_boxes(trial)
    if media.kind != "image" or not boxes:
        return None
    height, width = media.images[0].shape[:2]
    size, corners = np.array([width, height]), np.array(boxes)
    margin = size * MARGIN
    x0, y0 = np.clip(corners[:, :2].min(0) - margin, 0, size // MOST_CUT).astype(int).tolist()
    ends = np.clip(corners[:, 2:].max(0) + margin, size - size // MOST_CUT, size)
    x1, y1 = ends.astype(int).tolist()
    if (x0, y0, x1, y1) == (0, 0, width, height):
        return None
    part = _changed(media, lambda pixels: np.ascontiguousarray(pixels[y0:y1, x0:x1]))
    box = answer.box
    if box is not None:
        box = (box[0] - x0, box[1] - y0, box[2] - x0, box[3] - y0)
    like = tuple((a - x0, b - y0, c - x0, d - y0) for a, b, c, d in query.like)
    return Variant("cropped", replace(query, like=like), part, replace(answer, box=box))


def edited(query: Query, media: Media, answer: Answer, trial: Trial) -> Variant | None:
    """Add noise to a picture outside the objects found; the answer stays."""
    boxes = _found_boxes(trial)
    if media.kind != "image" or not boxes:
        return None
    pixels = media.images[0]
    noise = np.random.default_rng(0).normal(0, NOISE, pixels.shape)
    for x0, y0, x1, y1 in boxes:
        noise[int(y0) : math.ceil(y1), int(x0) : math.ceil(x1)] = 0
    changed = np.clip(pixels + noise, 0, 255).astype(np.uint8)
    return Variant("edited", query, _changed(media, lambda _: changed), answer)


def reversed_in_time(query: Query, media: Media, answer: Answer, trial: Trial) -> Variant | None:
    """Reverse a video, and exchange before and after, first and last; the answer stays.

    Only for queries about an order of events none of which has a direction.
    """
    texts = " ".join((query.text, *query.options))
    if media.video is None or not _ORDER.search(texts) or _DIRECTED.search(texts):
        return None
    backwards = _changed(media, lambda frames: np.ascontiguousarray(frames[::-1]))
    return Variant("reversed", _reworded(query, _ORDER), backwards, answer)


RELATIONS: Sequence[Relation] = (mirrored, brighter, cropped, edited, reversed_in_time)


def harmless(query: Query, media: Media, answer: Answer, trial: Trial) -> Iterator[Variant]:
    """Yield variants to which the very program of a trial must give the expected answer.

    A mirror changes what a program finds that names a side, in its query or in its code: also as
    part of a name (``get_patch_left_of``) or by the coordinates of a crop.
    """
    names_side = re.search(r"left|right|horizontal|crop\s*\(", trial.program, re.IGNORECASE)
    relations: Sequence[Relation] = (*([] if names_side else [mirrored]), brighter, cropped)
    for relation in relations:
        variant = relation(query, media, answer, trial)
        if variant is not None and variant.query.text == query.text:
            yield variant


def _changed(media: Media, change: Callable[[Pixels], Pixels]) -> Media:
    """Return the media with changed pictures or a changed video."""
    if media.video is not None:
        return Media((), change(media.video), media.names, media.times)
    return Media(tuple(change(pixels) for pixels in media.images), None, media.names)


def _reworded(query: Query, words: re.Pattern[str]) -> Query:
    options = tuple(_opposite(option, words) for option in query.options)
    return replace(query, text=_opposite(query.text, words), options=options)


def _opposite(text: str, words: re.Pattern[str]) -> str:
    return words.sub(lambda match: _OPPOSITES[match[1].lower()], text)


def _found_boxes(trial: Trial) -> list[PixelBox]:
    """Return the pixel boxes of all patches of the first picture that tools returned."""
    results = outside([call.result for call in trial.tool_calls], trial.sizes)
    parts = [part for each in results for part in (each if isinstance(each, list) else [each])]
    patches = [part for part in parts if isinstance(part, Mapping) and part.get("kind") == "patch"]
    return [tuple(it["box"]) for it in patches if it.get("picture") == "image0" and it["box"]]
