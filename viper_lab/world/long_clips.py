"""Long clips: minutes on one table on which objects come, move, and go, with exact times.

:func:`long_clip` draws one without pixels, :func:`write_long_clip` renders it. Unlike in a
:class:`~viper_lab.world.clips.Clip` of four seconds, several objects may move at once, and an
object that goes may come back; it is put down and taken away between two frames.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from viper.models.media import CLIP_FPS, write_mp4
from viper_lab.world.clips import Clip, contact_radius, render_frames
from viper_lab.world.render_shapes import half_height
from viper_lab.world.scene import SceneObject
from viper_lab.world.splits import combinations, scene_seed
from viper_lab.world.vocabulary import MATERIALS

OBJECTS = 5

# Seconds of a rest, of a move and of an absence.
_REST_S, _MOVE_S, _AWAY_S = (4.0, 20.0), (1.5, 4.0), (5.0, 20.0)

# Share of the rests after which an object goes away instead of moving.
_GOES = 0.3

# Places keep inside the table by this much, and objects this far from each other, in table units.
_HALF_X, _HALF_Y, _APART = 3.2, 2.0, 0.35

# Frames that are rendered and written at once: some megabytes.
_CHUNK = 256

Place = tuple[float, float]


@dataclass(frozen=True)
class LongClip:
    """A long clip before rendering.

    Attributes:
        clip: objects and positions float32 [T, N, 3], NaN while an object is away; no events.
        visible: float32 [T, N, 4], boxes of what can be seen of each object; known once rendered.
    """

    clip: Clip
    visible: NDArray[np.float32] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return self.clip.names


def long_clip(split: str, index: int, seconds: float) -> LongClip:
    """Draw a long clip; the same arguments always give the same one.

    Raises:
        UnknownNameError: there is no such split.
    """
    seed = scene_seed(split, index)
    draw = random.Random(f"long clip {seed}")
    things = [
        SceneObject(
            shape=shape, colour=colour, material=draw.choice(MATERIALS), size="small",
            position=(0.0, 0.0, 0.0), yaw=draw.uniform(0, 2 * math.pi),
        )
        for colour, shape in draw.sample(combinations(split), OBJECTS)
    ]  # fmt: skip
    count = round(seconds * CLIP_FPS)
    positions = np.full((count, OBJECTS, 3), np.nan, np.float32)
    radii = [contact_radius(thing) for thing in things]
    busy = np.zeros(OBJECTS, int)  # frame until which each object's positions are drawn
    while (number := int(busy.argmin())) < OBJECTS and busy[number] < count:
        begin = int(busy[number])
        here = positions[begin - 1, number] if begin else np.full(3, np.nan)
        height = half_height(things[number].shape, things[number].size)
        if begin and not np.isnan(here[0]) and draw.random() < _GOES:
            end = begin + _frames(draw, _AWAY_S)
        else:
            end = begin + (_frames(draw, _MOVE_S) if not np.isnan(here[0]) else 1)
            target = _free_place(draw, positions, radii, number, begin, min(end, count), here)
            if target is None:
                target = None if np.isnan(here[0]) else (float(here[0]), float(here[1]))
            if target is not None:
                start = target if np.isnan(here[0]) else (float(here[0]), float(here[1]))
                shares = (np.arange(begin, end) - begin + 1) / (end - begin)
                way = np.outer(1 - shares, start) + np.outer(shares, target)
                positions[begin:end, number, :2] = way[: count - begin]
                positions[begin:end, number, 2] = height
                rest = end + _frames(draw, _REST_S)
                positions[end:rest, number] = (*target, height)
                end = rest
        busy[number] = end
    return LongClip(Clip(tuple(things), (), positions, seed))


def write_long_clip(clip: LongClip, path: Path) -> LongClip:
    """Render a clip into an MP4 file; return it with what can be seen of each object."""
    frames, boxes = [], []
    for first in range(0, len(clip.clip.positions), _CHUNK):
        numbers = range(first, min(first + _CHUNK, len(clip.clip.positions)))
        pixels, visible = render_frames(clip.clip, numbers)
        frames.append(pixels)
        boxes.append(visible)
    write_mp4(path, np.concatenate(frames))
    return LongClip(clip.clip, np.concatenate(boxes))


def _frames(draw: random.Random, seconds: tuple[float, float]) -> int:
    return round(draw.uniform(*seconds) * CLIP_FPS)


def _free_place(
    draw: random.Random,
    positions: NDArray[np.float32],
    radii: Sequence[float],
    number: int,
    begin: int,
    end: int,
    here: NDArray[np.floating],
) -> Place | None:
    """Return a place to which an object moves without touching another; None if none was found."""
    if begin >= end:
        return None
    for _ in range(50):
        place = (draw.uniform(-_HALF_X, _HALF_X), draw.uniform(-_HALF_Y, _HALF_Y))
        start = place if np.isnan(here[0]) else (float(here[0]), float(here[1]))
        shares = np.linspace(0, 1, end - begin)
        way = np.outer(1 - shares, start) + np.outer(shares, place)
        others = [
            np.hypot(*(positions[begin:, other, :2] - np.pad(
                way, ((0, len(positions) - end), (0, 0)), mode="edge")).T)
            - radii[other] - radii[number]
            for other in range(len(radii)) if other != number
        ]  # fmt: skip
        if all(np.nanmin(gaps, initial=np.inf) > _APART for gaps in others):
            return place
    return None
