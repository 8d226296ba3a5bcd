"""Stills rendered once and read many times: shards on disk, images memory-mapped.

A shard holds ``SHARD`` consecutive scenes of a split in three files: images (uint8 ``.npy``), depth
(float16 ``.npy``) and the rest of the ground truth (``.json``, one record per scene, see
:func:`truth_record`). Shards appear by renaming finished files, so several processes may read and
render one folder at once.
"""

from __future__ import annotations

import fcntl
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from viper.errors import UsageError
from viper.record import record_from_json
from viper.schema import to_json
from viper.storage.files import replace_file
from viper_lab.world.clips import Clip, render_frame, sample_clip
from viper_lab.world.layout import sample_scene
from viper_lab.world.render import render_scene
from viper_lab.world.scene import CLIP_FRAMES, RenderedScene, Scene
from viper_lab.world.splits import check_split

Item = TypeVar("Item")

# Scenes in one shard.
SHARD = 500

# Version of the renderer's look, part of every file name; raised when pictures change.
LOOK = 1


@dataclass(frozen=True)
class StillTruth:
    """Ground truth of one cached still; see ``RenderedScene`` for the fields."""

    scene: Scene
    boxes: NDArray[np.float32]
    object_depths: NDArray[np.float32]
    visible: NDArray[np.float32]


@dataclass(frozen=True)
class Still(StillTruth):
    """A cached still: read-only views of its files beside the ground truth.

    ``image`` is uint8 [H, W, 3], RGB; ``depth`` float16 [H, W], larger is farther.
    """

    image: NDArray[np.uint8]
    depth: NDArray[np.float16]


def truth_record(rendered: RenderedScene) -> dict[str, Any]:
    """Return scene, boxes, object depths and visible shares as JSON values."""
    return {
        "scene": to_json(rendered.scene),
        "boxes": rendered.boxes.tolist(),
        "object_depths": rendered.object_depths.tolist(),
        "visible": rendered.visible.tolist(),
    }


def truth_from_record(record: Mapping[str, Any]) -> StillTruth:
    """Build the truth from the result of :func:`truth_record`."""
    return StillTruth(
        record_from_json(Scene, record["scene"]),
        np.array(record["boxes"], np.float32).reshape(-1, 4),
        np.array(record["object_depths"], np.float32),
        np.array(record["visible"], np.float32),
    )


class LazySequence(Sequence[Item]):
    """A sequence of ``count`` items, each built on access.

    Args:
        make: returns the item of a non-negative index.
    """

    def __init__(self, count: int, make: Callable[[int], Item]) -> None:
        self._count, self._make = count, make

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...

    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        chosen = range(self._count)[index]
        return self._make(chosen) if isinstance(chosen, int) else [self[i] for i in chosen]


class Stills(LazySequence[Still]):
    """The first ``count`` stills of a split; pixels are read from disk on access."""

    def __init__(self, folder: Path, split: str, count: int) -> None:
        super().__init__(count, self._still)
        self.folder, self.split = folder, split
        shards = range(-(-count // SHARD))
        self._images = [_map_file(_file(folder, split, i, "images.npy")) for i in shards]
        self._depths = [_map_file(_file(folder, split, i, "depth.npy")) for i in shards]

    @cached_property
    def truths(self) -> list[StillTruth]:
        """Return the ground truth of all stills, read on first use."""
        shards = range(len(self._images))
        files = [_file(self.folder, self.split, i, "truth.json") for i in shards]
        records = [record for file in files for record in json.loads(file.read_text())]
        return [truth_from_record(record) for record in records[: self._count]]

    def _still(self, index: int) -> Still:
        truth, image, depth = self.truths[index], self.image(index), self.depth(index)
        return Still(truth.scene, truth.boxes, truth.object_depths, truth.visible, image, depth)

    def image(self, index: int) -> NDArray[np.uint8]:
        """Return one picture, uint8 [H, W, 3], RGB; a read-only view of the file."""
        picture: NDArray[np.uint8] = self._images[index // SHARD][index % SHARD]
        return picture

    def depth(self, index: int) -> NDArray[np.float16]:
        depth: NDArray[np.float16] = self._depths[index // SHARD][index % SHARD]
        return depth


def rendered_stills(
    split: str,
    count: int,
    cache_dir: Path | str,
    progress: Callable[[int, int], None] | None = None,
) -> Stills:
    """Return the first ``count`` stills of a split, rendering the missing shards.

    Renders in this process, one shard of ``SHARD`` after the other. An interrupted call is resumed,
    and processes that request the same stills share the work. ``progress(done, count)`` is called
    after each shard rendered here.

    Raises:
        UnknownNameError: there is no such split.
        UsageError: ``count`` is not positive.
    """
    check_split(split)
    if count <= 0:
        raise UsageError(f"cannot render {count} stills; ask for at least one")
    folder = Path(cache_dir)
    folder.mkdir(parents=True, exist_ok=True)
    shards = range(-(-count // SHARD))
    # Shards of another process are skipped first and awaited in the end.
    for wait in (False, True):
        for shard in shards:
            if _ensure_shard(folder, split, shard, wait) and progress:
                done = sum(_is_complete(folder, split, i) for i in shards)
                progress(min(done * SHARD, count), count)
    return Stills(folder, split, count)


def _is_complete(folder: Path, split: str, shard: int) -> bool:
    return _file(folder, split, shard, "truth.json").exists()


def _ensure_shard(folder: Path, split: str, shard: int, wait: bool) -> bool:
    """Render a missing shard unless another process does; return True if it was rendered here.

    With ``wait``, wait for the other process, and render here if that process died.
    """
    if _is_complete(folder, split, shard):
        return False
    with _file(folder, split, shard, "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if _is_complete(folder, split, shard):
            return False
        _render_shard(folder, split, shard)
        return True


def _render_shard(folder: Path, split: str, shard: int) -> None:
    indices = range(shard * SHARD, (shard + 1) * SHARD)
    stills = [render_scene(sample_scene(split, index)) for index in indices]
    images = np.stack([still.image for still in stills])
    depth = np.stack([still.depth for still in stills]).astype(np.float16)
    save_array(_file(folder, split, shard, "images.npy"), images)
    save_array(_file(folder, split, shard, "depth.npy"), depth)
    # Written last, because it marks the shard as complete.
    records = json.dumps([truth_record(still) for still in stills])
    replace_file(_file(folder, split, shard, "truth.json"), records)


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array under a temporary name, then rename the file."""
    content = io.BytesIO()
    np.save(content, array)
    replace_file(path, content.getvalue())


def _map_file(path: Path) -> NDArray[Any]:
    """Return a file's array, memory-mapped and read-only."""
    return np.asarray(np.load(path, "r"))


def _file(folder: Path, split: str, shard: int, name: str) -> Path:
    return folder / f"look{LOOK}-{split}-{shard:04d}.{name}"


class FreshStills(Stills):
    """Stills of any pictures, kept in memory."""

    def __init__(self, split: str, pictures: Iterable[RenderedScene]) -> None:
        self._stills = [_still_of(picture) for picture in pictures]
        LazySequence.__init__(self, len(self._stills), self._stills.__getitem__)
        self.split = split

    @classmethod
    def of_scenes(cls, split: str, indices: Iterable[int]) -> FreshStills:
        """Render scenes of a split."""
        return cls(split, (render_scene(sample_scene(split, index)) for index in indices))

    @classmethod
    def of_clips(cls, split: str, indices: Iterable[int]) -> FreshStills:
        """Render one frame of each of these clips of a split, with an object in view."""
        return cls(split, (_random_frame(sample_clip(split, index)) for index in indices))

    @cached_property
    def truths(self) -> list[StillTruth]:
        """Return the ground truth of all stills."""
        return list(self._stills)

    def image(self, index: int) -> NDArray[np.uint8]:
        """Return one picture, uint8 [H, W, 3], RGB."""
        return self._stills[index].image

    def depth(self, index: int) -> NDArray[np.float16]:
        return self._stills[index].depth


class JoinedStills(Stills):
    """Stills followed by others of the same split."""

    def __init__(self, first: Stills, second: Stills) -> None:
        LazySequence.__init__(self, len(first) + len(second), self._still)
        self.split, self._first, self._second = first.split, first, second

    @cached_property
    def truths(self) -> list[StillTruth]:
        """Return the ground truth of all stills."""
        return [*self._first.truths, *self._second.truths]

    def image(self, index: int) -> NDArray[np.uint8]:
        """Return one picture, uint8 [H, W, 3], RGB."""
        stills, own = self._place(index)
        return stills.image(own)

    def depth(self, index: int) -> NDArray[np.float16]:
        stills, own = self._place(index)
        return stills.depth(own)

    def _place(self, index: int) -> tuple[Stills, int]:
        before = len(self._first)
        return (self._first, index) if index < before else (self._second, index - before)


def _random_frame(clip: Clip) -> RenderedScene:
    numbers = Random(clip.seed)
    while not (picture := render_frame(clip, numbers.randrange(CLIP_FRAMES))).scene.objects:
        pass
    return picture


def _still_of(picture: RenderedScene) -> Still:
    return Still(
        picture.scene,
        picture.boxes,
        picture.object_depths,
        picture.visible,
        picture.image,
        picture.depth.astype(np.float16),
    )
