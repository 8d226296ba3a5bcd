"""The knowledge world as a part of a reproduction: an indexed catalogue for each seed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from viper.data.sample import Where
from viper.evaluate.evaluation import Evaluation
from viper.search.named import NamedPictures, NamedTexts
from viper.strategies.base import Components
from viper_lab.world.knowledge.catalogue import DESIGNS, catalogue
from viper_lab.world.knowledge.questions import KnowledgeQuestion, questions
from viper_lab.world.knowledge.write import GALLERY, TEXTS, write_world


@dataclass
class KnowledgePart:
    """Questions about catalogues that nobody has seen, with gallery and texts to look them up in.

    Attributes:
        folder: takes ``worlds/SPLIT-SEED`` and, below ``state``, their indexes.
        count: questions of a seed at most; pictures of that many stand in the gallery.
        split: ``val``, or ``test`` at the very end.
    """

    folder: Path
    count: int
    split: str = "val"
    name: str = "knowledge"
    _searches: dict[int, Mapping[str, Callable[[], Any]]] = field(default_factory=dict, repr=False)

    def asked(self, seed: int, limit: int) -> Evaluation:
        return self._evaluation(self.split, seed, limit)

    def shots(self, seed: int, limit: int) -> Evaluation:
        return self._evaluation("train", seed, limit)

    def _evaluation(self, split: str, seed: int, limit: int) -> Evaluation:
        return Evaluation("world-knowledge", Where(None, split, seed), limit, (seed,))

    def questions(self, seed: int) -> dict[str, KnowledgeQuestion]:
        """What is asked under a seed, by id, with the way to each answer."""
        asked = questions(catalogue(self.split, seed, DESIGNS), self.count)
        return {one.question_id: one for one in asked}

    def equipped(self, components: Components, seed: int) -> Components:
        """The parts over this seed's indexes, which are made now where they are missing."""
        if seed not in self._searches:
            self._searches[seed] = self._indexed(components, seed)
        hub = components.hub.with_roles(self._searches[seed])
        return replace(components, hub=hub)

    def _indexed(self, components: Components, seed: int) -> Mapping[str, Callable[[], Any]]:
        name = f"{self.split}-{seed}"
        state, world = self.folder / "state", self._written(name, seed)
        matcher = components.hub.models.shared("matcher")
        pictures, texts = NamedPictures(state, matcher, name), NamedTexts(state, name)
        pictures.name_folder(world / GALLERY)
        pictures.index().update()
        texts.update([world / TEXTS])
        return {
            "image_search": partial(NamedPictures, state, matcher, name),
            "text_search": partial(NamedTexts, state, name),
        }

    def _written(self, name: str, seed: int) -> Path:
        """The world's folder; one that was cut off while it was written is written anew."""
        world = self.folder / "worlds" / f"{name}-{self.count}"
        if not world.is_dir():
            part = world.with_name(f"{world.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            for _ in write_world(part, self.split, seed, DESIGNS, self.count):
                pass
            part.rename(world)
        return world
