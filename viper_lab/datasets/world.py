"""The embedded world as data sets: drawn afresh for each seed, nothing is read.

``world`` asks explicit queries only, each with one meaning. Half of the queries of ``world-a``,
``world-b`` and ``world-c`` are ambiguous ("the second cube"); a convention of the set decides
their meaning. Neighbouring sets differ in every convention
(:mod:`viper_lab.world.queries.conventions`).

Splits: ``val``, ``train``, ``test`` (to be looked at last: its wordings and combinations are held
out). A suffix takes one family, ``val:referring``, ``val:question``, ``val:video``; without it all
three are drawn, equally many. ``val:referring4`` asks four different expressions about each
picture. Sample ids are those of :mod:`viper_lab.world.queries.generate`, ``SPLIT-SEED-FAMILY-N``
(``SPLIT-SEED-referring4-SCENE-N``), of the others ``A-SPLIT-…``; the cluster is the scene or
clip. Boxes are the visible
pixels' ``(x0, y0, x1, y1)`` from the top-left corner.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from viper.data.layout import split_of
from viper.data.sample import DataSet, DatasetSpec, Finding, Sample
from viper.strategies.exact import ExactInput
from viper_lab.world.queries.ambiguous import wording
from viper_lab.world.queries.conventions import conventions_of
from viper_lab.world.queries.meaning import FAMILIES
from viper_lab.world.queries.sample import WorldSample
from viper_lab.world.vocabulary import SPLITS


def count_of(spec: DatasetSpec) -> int:
    """Return how many samples are drawn."""
    return 300 if spec.limit is None else spec.limit


SEVERAL = "referring4"

# Numbers of the editions for :func:`viper_lab.world.queries.conventions.conventions_of`.
EDITIONS: Mapping[str, int] = {"a": 0, "b": 1, "c": 2}

VAL_FIRST = ("val", *(split for split in SPLITS if split != "val"))


@dataclass(frozen=True)
class WorldMedia:
    """Renders a scene ``uint8 [H, W, 3]`` or clip ``uint8 [T, H, W, 3]`` when called."""

    split: str
    index: int
    is_clip: bool

    def __call__(self) -> Any:
        if self.is_clip:
            from viper_lab.world.clips import render_clip, sample_clip

            return render_clip(sample_clip(self.split, self.index)).frames
        from viper_lab.world.layout import sample_scene
        from viper_lab.world.render import render_scene

        return render_scene(sample_scene(self.split, self.index)).image

    def exact(self, question: str = "", answer: str = "") -> ExactInput | None:
        """Return the picture with exact tools, or None for videos. See
        :class:`viper.strategies.exact.KnowsTruth`.
        """
        if self.is_clip:
            return None
        from viper_lab.world.layout import sample_scene
        from viper_lab.world.perfect import KnowingTools
        from viper_lab.world.render import render_scene

        scene = render_scene(sample_scene(self.split, self.index))
        tools = KnowingTools([scene], question, answer)
        return ExactInput(tools.media, tools)


# ``SPLIT-SEED-FAMILY-NUMBER`` of the sets here and in :mod:`viper_lab.datasets.tasks`.
_DRAWN_ID = re.compile(r"(?:[a-z]+-)?([a-z]+)-(-?\d+)-([a-z]+)-(\d+)")

# Numbers beyond it are taken for none: all before them would have to be drawn.
_FARTHEST = 20_000


class GeneratedDataset:
    """What the sets of the embedded world have in common: they give samples by id, need no files.

    Attributes:
        families: see :class:`~viper.data.sample.DrawnSet`.
    """

    families: tuple[str, ...] = ()

    def by_id(self: DataSet, spec: DatasetSpec, ids: Iterable[str]) -> dict[str, Sample]:
        """Return samples by id; see :class:`~viper.data.sample.DrawnSet`.

        Of each split, seed and family as many are drawn as the ids reach.
        """
        reach: dict[tuple[str, int], int] = {}
        for id_ in ids:
            match = _DRAWN_ID.fullmatch(id_)
            if match is None or len(match[4]) > len(str(_FARTHEST)) or int(match[4]) > _FARTHEST:
                continue
            part = f"{match[1]}:{match[3]}"
            if part not in self.splits or spec.split not in (None, match[1], part):
                continue
            key = (part, int(match[2]))
            reach[key] = max(reach.get(key, 0), int(match[4]) + 1)
        return {
            sample.sample_id: sample
            for (part, seed), count in reach.items()
            for sample in self.samples(DatasetSpec(None, part, seed, count))
        }

    def check(self: DataSet, spec: DatasetSpec) -> Sequence[Finding]:
        """Return no problem, because samples are drawn and cannot be missing."""
        return [Finding(True, split_of(self, spec), "drawn by the package itself; needs no files")]


@dataclass(frozen=True)
class World(GeneratedDataset):
    """The embedded world; see the module.

    Attributes:
        edition: a key of ``EDITIONS`` with conventions for ambiguous queries; empty: explicit ones.
    """

    edition: str = ""
    metric: str = "world"
    families = FAMILIES

    @property
    def name(self) -> str:
        """Return ``world``, or ``world-a`` for the edition ``a``."""
        return f"world-{self.edition}" if self.edition else "world"

    @property
    def splits(self) -> tuple[str, ...]:
        """Return the splits and their parts by family."""
        parts = FAMILIES if self.edition else (*FAMILIES, SEVERAL)
        return (*VAL_FIRST, *(f"{split}:{part}" for split in VAL_FIRST for part in parts))

    @property
    def summary(self) -> str:
        """Return a description in one line."""
        if self.edition:
            return f"the embedded world with the conventions {self.edition}: half ambiguous"
        return "the embedded world: expressions, questions, clips; needs no files"

    def samples(self, spec: DatasetSpec) -> Sequence[Sample]:
        """Return the samples asked for (300 by default): equally many of each family, family by
        family.
        """
        split, _, part = split_of(self, spec).partition(":")
        from viper_lab.world.queries.generate import generate, several_expressions

        count = count_of(spec)
        if part == SEVERAL:
            return [world_sample(s) for s in several_expressions(split, spec.seed, count)]
        conventions = conventions_of(EDITIONS[self.edition]) if self.edition else None
        draw = partial(generate, conventions=conventions, edition=self.edition)
        families = [family for family in FAMILIES if part in ("", family)]
        each, more = divmod(count, len(families))
        return [
            world_sample(sample, self.edition)
            for place, family in enumerate(families)
            for sample in draw(family, split, spec.seed, each + (place < more))
        ]


def world_media(sample: WorldSample) -> WorldMedia:
    """Return the object that renders the scene or video of a query."""
    return WorldMedia(sample.split, sample.media_index, sample.family == "video")


def world_sample(sample: WorldSample, edition: str = "") -> Sample:
    """Return a query of the world as a sample. Editions with annotator conventions use their own
    wording.
    """
    is_clip, ambiguity = sample.family == "video", wording(sample.meaning)
    picture = f"{sample.split}-{'clip' if is_clip else 'scene'}-{sample.media_index}"
    return Sample(
        sample.sample_id,
        sample.text,
        task=sample.task,
        media="video" if is_clip else "image",
        target=sample.box if sample.task == "ground" else sample.answer,
        load=world_media(sample),
        options=sample.options,
        groups={
            "family": sample.family,
            "query_type": sample.query_type if ambiguity is None else f"vague {ambiguity}",
            "steps": str(sample.steps),
            **({"wording": "explicit" if ambiguity is None else "vague"} if edition else {}),
        },
        cluster=picture,
        files=(picture,),
    )


WORLD_A, WORLD_B, WORLD_C = (World(edition) for edition in EDITIONS)
