"""Clips: a few objects on a table with simulated events, and their rendering.

:func:`sample_clip` is cheap (no pixels): objects, positions and exact events.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from viper.models.media import av, write_mp4
from viper.record import record_from_json
from viper.schema import to_json
from viper.storage.files import replace_file
from viper_lab.world.events import object_name
from viper_lab.world.motion import (
    TABLE_HALF_X,
    TABLE_HALF_Y,
    ScriptImpossibleError,
    draw_script,
    perform,
)
from viper_lab.world.render import rendered_scene
from viper_lab.world.render_camera import Camera
from viper_lab.world.render_props import TableTop
from viper_lab.world.render_shading import Light
from viper_lab.world.render_shapes import RADIUS, SOLIDS, half_height
from viper_lab.world.render_stage import Stage
from viper_lab.world.scene import (
    CLIP_FRAMES,
    CLIP_HEIGHT,
    CLIP_WIDTH,
    ClipEvent,
    RenderedClip,
    RenderedScene,
    Scene,
    SceneObject,
)
from viper_lab.world.splits import combinations, scene_seed
from viper_lab.world.vocabulary import MATERIALS

# Camera of every clip; the whole table is in view.
CAMERA = Camera.around(height=7.2, distance=8.6, aim=0.1)

# Kinds of which a clip must hold a random one; hits and stops are rare by chance.
WANTED_KINDS = ("hit", "hit", "hit", "stop", "stop", None)

TRIES_PER_SCRIPT = 60

# Visible share from which an object counts in a single frame.
LEAST_VISIBLE = 0.2


@dataclass(frozen=True)
class Clip:
    """Events of a clip, before rendering.

    Attributes:
        objects: 2 to 4, no two of the same colour and shape; ``position`` is the first one.
        events: 2 to 5, sorted by start. Two events do not overlap in time, except a hit and the
            start that it causes (see ``events.is_consequence``).
        positions: float32 [T, N, 3], centres in table units; NaN while an object is absent.
        seed: reproduces the clip and its rendering.
    """

    objects: tuple[SceneObject, ...]
    events: tuple[ClipEvent, ...]
    positions: NDArray[np.float32]
    seed: int

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the objects, e.g. ``red cube``."""
        return tuple(object_name(thing) for thing in self.objects)


def sample_clip(split: str, index: int) -> Clip:
    """Return clip number ``index`` of a split; the same arguments always give the same clip.

    Objects whose (colour, shape) is held out appear in the test split only.

    Raises:
        UnknownNameError: there is no such split.
    """
    return clip_from_seed(scene_seed(split, index), held_out=split == "test")


def clip_from_seed(seed: int, *, held_out: bool = False) -> Clip:
    """Return the clip of a seed; ``held_out`` allows held-out (colour, shape) pairs."""
    draw = random.Random(f"clip {seed}")
    needed = draw.choice(WANTED_KINDS)
    while True:
        things = _draw_objects(draw, held_out)
        sizes = [(contact_radius(t), half_height(t.shape, t.size)) for t in things]
        try:
            script = draw_script(draw, len(things))
        except ScriptImpossibleError:
            continue
        if needed and needed not in {step.kind for step in script[0]}:
            continue
        for _ in range(TRIES_PER_SCRIPT):
            try:
                positions, events = perform(draw, script, sizes)
            except ScriptImpossibleError:
                continue
            placed = [
                replace(thing, position=_first_position(positions[:, i]))
                for i, thing in enumerate(things)
            ]
            return Clip(tuple(placed), events, positions, seed)


def contact_radius(thing: SceneObject) -> float:
    """Return the radius of the circle on the table with which an object touches others."""
    return RADIUS[thing.size] * SOLIDS[thing.shape]["contact"]


def render_clip(clip: Clip) -> RenderedClip:
    """Render the frames of a clip with each object's visible box; depends on the clip alone."""
    frames, boxes = render_frames(clip, range(CLIP_FRAMES))
    return RenderedClip(clip.objects, frames, boxes, clip.events, clip.seed)


def render_frames(
    clip: Clip, numbers: Iterable[int]
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Render frames uint8 [K, H, W, 3] of a clip, and visible boxes float32 [K, N, 4] in them."""
    stage = _stage(clip.seed)
    frames: list[NDArray[np.uint8]] = []
    boxes: list[NDArray[np.float32]] = []
    before: NDArray[np.float32] | None = None
    for here in clip.positions[list(numbers)]:
        if before is not None and np.array_equal(here, before, equal_nan=True):
            frames.append(frames[-1])
            boxes.append(boxes[-1])
            continue
        there = np.flatnonzero(~np.isnan(here[:, 0]))
        picture = stage.render(_placed(clip, here))
        visible = np.full((len(here), 4), np.nan, np.float32)
        visible[there] = picture.boxes
        frames.append(picture.image)
        boxes.append(visible)
        before = here
    return np.stack(frames), np.stack(boxes)


def render_frame(clip: Clip, number: int) -> RenderedScene:
    """Render one frame as a picture of the objects that can be seen in it."""
    stage, things = _stage(clip.seed), _placed(clip, clip.positions[number])
    picture = stage.render(things)
    if (picture.visible < LEAST_VISIBLE).any():
        seen = picture.visible >= LEAST_VISIBLE
        things = [thing for thing, is_seen in zip(things, seen, strict=True) if is_seen]
        picture = stage.render(things)
    return rendered_scene(Scene(tuple(things), clip.seed), picture)


def _placed(clip: Clip, positions: NDArray[np.float32]) -> list[SceneObject]:
    """Return the objects of one frame at their places; absent ones are left out."""
    return [
        replace(thing, position=tuple(place.tolist()))
        for thing, place in zip(clip.objects, positions, strict=True)
        if not np.isnan(place[0])
    ]


def _stage(seed: int) -> Stage:
    return Stage(CAMERA, CLIP_WIDTH, CLIP_HEIGHT, 1, Light.for_seed(seed), _table(seed))


def _table(seed: int) -> TableTop:
    tone, warmth = np.random.default_rng([seed, 7]).uniform((0.46, 0.97), (0.6, 1.03))
    return TableTop(
        -TABLE_HALF_X,
        -TABLE_HALF_Y,
        TABLE_HALF_X,
        TABLE_HALF_Y,
        colour=(float(tone * warmth), float(tone), float(tone / warmth)),
    )


def _first_position(track: NDArray[np.float32]) -> tuple[float, float, float]:
    x, y, z = track[~np.isnan(track[:, 0])][0]
    return float(x), float(y), float(z)


def _draw_objects(draw: random.Random, held_out: bool) -> list[SceneObject]:
    """Draw 2 to 4 objects of different names."""
    pairs = combinations("test" if held_out else "train")
    return [
        SceneObject(
            shape=shape,
            colour=colour,
            material=draw.choice(MATERIALS),
            size="big" if draw.random() < 0.3 else "small",
            position=(0.0, 0.0, 0.0),
            yaw=draw.uniform(0, 2 * math.pi),
        )
        for colour, shape in draw.sample(pairs, draw.choice((2, 3, 3, 4)))
    ]


# Constant rate factors of stored clips, alternating by index.
QUALITIES = (6, 14, 20, 25)


class ClipStore:
    """Clips of one split in a folder, rendered on first use: a video and a JSON file each.

    The frames have passed video compression at several strengths, like the clips of users.

    Args:
        folder: holds one folder per split; created if absent.
        split: ``train``, ``val`` or ``test``.
    """

    def __init__(self, folder: Path, split: str) -> None:
        self._folder, self._split = folder / split, split

    def prepare(self, count: int, report: Callable[[str], None] = print) -> None:
        """Render the missing ones of the first ``count`` clips."""
        for index in range(count):
            if self._render(index) and index % 200 == 0:
                report(f"rendered {index} of {count} {self._split} clips")

    def __getitem__(self, index: int) -> RenderedClip:
        """Return clip ``index`` as stored."""
        self._render(index)
        record = json.loads(self._path(index).with_suffix(".json").read_text())
        return RenderedClip(
            objects=tuple(record_from_json(SceneObject, fields) for fields in record["objects"]),
            frames=read_mp4(self._path(index)),
            boxes=np.array(record["boxes"], np.float32),
            events=tuple(ClipEvent(**event) for event in record["events"]),
            seed=record["seed"],
        )

    def _path(self, index: int) -> Path:
        return self._folder / f"{index:06d}.mp4"

    def _render(self, index: int) -> bool:
        """Render a missing clip, the JSON file last, and return whether it was missing."""
        notes = self._path(index).with_suffix(".json")
        if notes.exists():
            return False
        self._folder.mkdir(parents=True, exist_ok=True)
        clip = render_clip(sample_clip(self._split, index))
        write_mp4(self._path(index), clip.frames, quality=QUALITIES[index % len(QUALITIES)])
        record = {
            "objects": to_json(clip.objects),
            "events": to_json(clip.events),
            "boxes": clip.boxes.tolist(),
            "seed": clip.seed,
        }
        replace_file(notes, json.dumps(record))
        return True


def read_mp4(path: Path) -> NDArray[np.uint8]:
    """Return all frames of a file written by ``write_mp4``, ``uint8 [T, H, W, 3]``."""
    with av.open(str(path)) as container:
        container.streams.video[0].thread_count = 1
        return np.stack([f.to_ndarray(format="rgb24") for f in container.decode(video=0)])
