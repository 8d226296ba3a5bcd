"""The embedded world's own tasks as data sets: drawn afresh for each seed, nothing is read.

``world-pairs``: statements about two pictures; ``world-tag``: knowledge tagging; ``world-edit``:
language-guided editing; ``world-reserved``: expressions and questions in scenes with what no
shipped model has seen.

Splits: ``val``, ``train``, ``test`` (wordings and combinations held out; to be looked at last). The
first three sets are about known objects; a suffix takes reserved concepts instead, all of them by
turns, ``val:reserved``, or a single one, ``val:pyramid``. Of ``world-reserved`` half is about the
new and half about known objects in the same scenes, which ``val:new`` and ``val:old`` ask alone.
Ids are ``pairs-SPLIT-SEED-PART-N``; the cluster is the picture or the pair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from viper.data.layout import split_of
from viper.data.sample import DatasetSpec, Sample
from viper_lab.datasets.world import VAL_FIRST, GeneratedDataset, count_of
from viper_lab.world.places import ScenePlace
from viper_lab.world.queries.task_sample import TaskSample
from viper_lab.world.reserved import CONCEPTS

# Samples by split, seed, count and part.
Draw = Callable[[str, int, int, str], "list[TaskSample]"]


@dataclass(frozen=True)
class PlacedPictures:
    """Renders one picture ``uint8 [H, W, 3]``, or a list of several, when called."""

    places: tuple[ScenePlace, ...]

    def __call__(self) -> Any:
        pictures = [place.rendered().image for place in self.places]
        return pictures[0] if len(pictures) == 1 else pictures


@dataclass(frozen=True)
class WorldTask(GeneratedDataset):
    """One of the sets; see the module.

    Attributes:
        parts: that a suffix takes, beside the reserved concepts; the default ones first.
        defaults: how many of the parts are drawn, equally, without a suffix.
        draw: the samples of a part.
    """

    name: str
    metric: str
    summary: str
    parts: tuple[str, ...]
    draw: Draw
    defaults: int = 1

    @property
    def splits(self) -> tuple[str, ...]:
        """Return the splits and their parts."""
        parts = (*self.parts, *CONCEPTS)
        return (*VAL_FIRST, *(f"{split}:{part}" for split in VAL_FIRST for part in parts))

    def samples(self, spec: DatasetSpec) -> Sequence[Sample]:
        """Return the samples asked for (300 by default). A smaller limit returns the first samples
        of a larger one.
        """
        return [task_sample(sample) for sample in self.task_samples(spec)]

    def task_samples(self, spec: DatasetSpec) -> list[TaskSample]:
        """Return the same samples with their plans and programs."""
        split, _, part = split_of(self, spec).partition(":")
        parts = (part,) if part else self.parts[: self.defaults]
        each, more = divmod(count_of(spec), len(parts))
        return [
            sample
            for place, name in enumerate(parts)
            for sample in self.draw(split, spec.seed, each + (place < more), name)
        ]


def task_sample(sample: TaskSample) -> Sample:
    """Return a sample of the world's tasks in the form that metrics accept."""
    pictures = tuple(place.name for place in sample.places)
    concept = {"concept": sample.concept} if sample.concept else {}
    return Sample(
        sample.sample_id,
        sample.text,
        task=sample.task,
        media=sample.query.media,
        target=sample.target,
        load=PlacedPictures(sample.places),
        groups={"query_type": sample.query_type, **concept, **sample.groups},
        cluster="+".join(pictures),
        files=pictures,
    )


def _generated(name: str, kind: str, metric: str, about: str) -> WorldTask:
    """Return the set of a kind of query, whose module is imported at the first draw."""

    def draw(split: str, seed: int, count: int, part: str) -> list[TaskSample]:
        module = import_module(f"viper_lab.world.queries.{kind}")
        concepts = {"known": (), "reserved": tuple(CONCEPTS)}.get(part, (part,))
        samples: list[TaskSample] = getattr(module, f"generate_{kind}")(
            split, seed, count, concepts=concepts
        )
        return samples

    summary = f"the embedded world: {about}; needs no files"
    return WorldTask(name, metric, summary, ("known", "reserved"), draw)


def _reserved(split: str, seed: int, count: int, part: str) -> list[TaskSample]:
    from viper_lab.world.queries.about_reserved import generate_about_reserved

    if part == "old":
        return generate_about_reserved(split, seed, count, about="old")
    concepts = tuple(CONCEPTS) if part == "new" else (part,)
    return generate_about_reserved(split, seed, count, concepts=concepts)


WORLD_PAIRS = _generated("world-pairs", "pairs", "world", "statements about two pictures")
WORLD_TAG = _generated("world-tag", "tagging", "tagging", "tags by what is generally known")
WORLD_EDIT = _generated("world-edit", "editing", "editing", "instructions to edit a picture")
WORLD_RESERVED = WorldTask(
    "world-reserved",
    "world",
    "the embedded world with what no shipped model has seen; needs no files",
    ("new", "old"),
    _reserved,
    defaults=2,
)
