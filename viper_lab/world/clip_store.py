"""Rendered clips on disk, for training: a video file and a JSON file each.

The frames have gone through video compression at several strengths, as the
clips that users bring have.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from viper.models.media import read_mp4, write_mp4
from viper_lab.world.clips import render_clip, sample_clip
from viper_lab.world.scene import ClipEvent, RenderedClip, SceneObject

QUALITIES = (6, 14, 20, 25)
"""Constant rate factors of stored clips, in turn by index."""


class ClipStore:
    """Clips of one split in a folder, rendered when first asked for.

    Args:
        folder: holds one folder a split; made if absent.
        split: ``train``, ``val`` or ``test``.
    """

    def __init__(self, folder: Path, split: str) -> None:
        self._folder, self._split = folder / split, split

    def prepare(self, count: int, report: Callable[[str], None] = print) -> None:
        """Renders what is missing of the first ``count`` clips."""
        for index in range(count):
            if self._render(index) and index % 200 == 0:
                report(f"rendered {index} of {count} {self._split} clips")

    def __getitem__(self, index: int) -> RenderedClip:
        """Clip ``index`` as stored."""
        self._render(index)
        record = json.loads(self._path(index).with_suffix(".json").read_text())
        return RenderedClip(
            objects=tuple(_thing(fields) for fields in record["objects"]),
            frames=read_mp4(self._path(index)),
            boxes=np.array(record["boxes"], np.float32),
            events=tuple(ClipEvent(**event) for event in record["events"]),
            seed=record["seed"],
        )

    def _path(self, index: int) -> Path:
        return self._folder / f"{index:06d}.mp4"

    def _render(self, index: int) -> bool:
        """Whether there was something to do; the JSON file is written last and means done."""
        notes = self._path(index).with_suffix(".json")
        if notes.exists():
            return False
        self._folder.mkdir(parents=True, exist_ok=True)
        clip = render_clip(sample_clip(self._split, index))
        write_mp4(self._path(index), clip.frames, quality=QUALITIES[index % len(QUALITIES)])
        record = {
            "objects": [asdict(thing) for thing in clip.objects],
            "events": [asdict(event) for event in clip.events],
            "boxes": clip.boxes.tolist(),
            "seed": clip.seed,
        }
        part = notes.with_suffix(".part")
        part.write_text(json.dumps(record))
        part.replace(notes)
        return True


def _thing(fields: dict[str, Any]) -> SceneObject:
    x, y, z = fields["position"]
    return SceneObject(**{**fields, "position": (x, y, z)})
