"""The data of a reproduction: parts that are figured apart, each with samples to mine from."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from viper.data.registry import data_set
from viper.data.sample import DatasetSpec, DrawnSet
from viper.evaluate.evaluation import Evaluation
from viper.search.named import NamedPictures, NamedTexts
from viper.strategies.base import Components
from viper_lab.datasets.world import EDITIONS
from viper_lab.world.knowledge.catalogue import DESIGNS, catalogue
from viper_lab.world.knowledge.questions import UNANSWERABLE, KnowledgeQuestion, questions
from viper_lab.world.knowledge.write import GALLERY, TEXTS, write_world


class Part(Protocol):
    """A part of the data, as ``referring``."""

    @property
    def name(self) -> str:
        """Return the name used in tables."""
        ...

    def evaluation(self, seed: int, limit: int) -> Evaluation:
        """Return the evaluation of a seed, with at most ``limit`` samples."""
        ...

    def shots(self, seed: int, limit: int) -> Evaluation:
        """Return at most ``limit`` labelled samples for mining. They are never evaluated."""
        ...

    def equipped(self, components: Components, seed: int) -> Components:
        """Return the components that answer under a seed, with the indexes that the data needs."""
        ...


def set_of(seed: int) -> str:
    """Return the set with conventions that a seed asks, as ``world-a``."""
    return f"world-{tuple(EDITIONS)[seed % len(EDITIONS)]}"


@dataclass(frozen=True)
class WorldPart:
    """One family of the embedded world; each seed has a data set with conventions of its own.

    Attributes:
        split: ``val``, or ``test`` at the very end.
    """

    name: str
    split: str = "val"

    def evaluation(self, seed: int, limit: int) -> Evaluation:
        spec = DatasetSpec(None, f"{self.split}:{self.name}", seed)
        return Evaluation(set_of(seed), spec, limit, (seed,))

    def shots(self, seed: int, limit: int) -> Evaluation:
        return replace(self, split="train").evaluation(seed, limit)

    def equipped(self, components: Components, seed: int) -> Components:
        return components


# Splits that papers answer, where they are not the first of the set: NExT-QA's hard one, as
# ViperGPT and Stanić et al. 2024, sec. 3.
_OF_PAPERS = {"nextqa": "val:hard"}


@dataclass(frozen=True)
class SetPart:
    """A whole data set.

    Seeds change sampling and the shots. They change the samples that are asked only if the set
    draws its samples.
    """

    name: str
    root: Path | None
    split: str
    shots_split: str

    def evaluation(self, seed: int, limit: int) -> Evaluation:
        own = seed if isinstance(data_set(self.name), DrawnSet) else 0
        return Evaluation(self.name, DatasetSpec(self.root, self.split, own), limit, (seed,))

    def shots(self, seed: int, limit: int) -> Evaluation:
        spec = DatasetSpec(self.root, self.shots_split, seed)
        return Evaluation(self.name, spec, limit, (seed,))

    def equipped(self, components: Components, seed: int) -> Components:
        return components


def set_part(name: str, root: Path | None, split: str | None, shots_split: str) -> SetPart:
    """Return a data set as a part.

    Raises:
        UnknownNameError: no such set.
    """
    own = split or _OF_PAPERS.get(name, data_set(name).splits[0])
    return SetPart(name, root, own, shots_split)


@dataclass
class KnowledgePart:
    """Questions about catalogues that nobody has seen, with gallery and texts to look them up in.

    Attributes:
        folder: takes ``worlds/SPLIT-SEED`` and, below ``state``, their indexes.
        count: questions of a seed at most; pictures of that many stand in the gallery.
    """

    folder: Path
    count: int
    split: str
    name: str = "knowledge"
    _searches: dict[int, Mapping[str, Callable[[], Any]]] = field(default_factory=dict, repr=False)

    def evaluation(self, seed: int, limit: int) -> Evaluation:
        return Evaluation("world-knowledge", DatasetSpec(None, self.split, seed), limit, (seed,))

    def shots(self, seed: int, limit: int) -> Evaluation:
        return replace(self, split="train").evaluation(seed, limit)

    @property
    def unanswerable(self) -> UnanswerablePart:
        """Return more questions about the same catalogues, all without an answer in the texts."""
        return UnanswerablePart(self)

    def questions(self, seed: int) -> dict[str, KnowledgeQuestion]:
        """Return the questions of a seed by id, each with its path to the answer."""
        selected = questions(catalogue(self.split, seed, DESIGNS), self.count)
        return {question.question_id: question for question in selected}

    def equipped(self, components: Components, seed: int) -> Components:
        """Return the components with this seed's indexes, which are built if they are missing."""
        if seed not in self._searches:
            self._searches[seed] = self._indexed(components, seed)
        toolbox = components.toolbox.with_roles(self._searches[seed])
        return replace(components, toolbox=toolbox)

    def _indexed(self, components: Components, seed: int) -> Mapping[str, Callable[[], Any]]:
        name = f"{self.split}-{seed}"
        state, world = self.folder / "state", self._written(name, seed)
        matcher = components.toolbox.models.shared("matcher")
        pictures, texts = NamedPictures(state, matcher, name), NamedTexts(state, name)
        pictures.name_folder(world / GALLERY)
        pictures.index().update()
        texts.update([world / TEXTS])
        return {
            "image_search": partial(NamedPictures, state, matcher, name),
            "text_search": partial(NamedTexts, state, name),
        }

    def _written(self, name: str, seed: int) -> Path:
        """Return the world's folder. A folder whose writing was interrupted is written again."""
        world = self.folder / "worlds" / f"{name}-{self.count}"
        if not world.is_dir():
            part = world.with_name(f"{world.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            for _ in write_world(part, self.split, seed, DESIGNS, self.count):
                pass
            part.rename(world)
        return world


# Number of unanswerable questions under each seed. Among all questions only 1 in 12 is.
UNANSWERABLE_EACH = 40


@dataclass(frozen=True)
class UnanswerablePart:
    """Questions that no text answers, about the catalogues of a part and with its indexes."""

    of: KnowledgePart
    name: str = UNANSWERABLE

    def evaluation(self, seed: int, limit: int) -> Evaluation:
        spec = DatasetSpec(None, f"{self.of.split}:{UNANSWERABLE}", seed)
        return Evaluation("world-knowledge", spec, min(limit, UNANSWERABLE_EACH), (seed,))

    def shots(self, seed: int, limit: int) -> Evaluation:
        return self.of.shots(seed, limit)

    def equipped(self, components: Components, seed: int) -> Components:
        return self.of.equipped(components, seed)
