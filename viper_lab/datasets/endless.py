"""Endlessly many everyday questions about pictures of the embedded world, each drawn by its number.

Splits: ``train``, ``val``, ``test``, each with its own scenes; ``train:2`` draws one level. The
level is the number of groups of objects that the question names: 1, 2, or 3 and more. Without a
level they alternate. Sample ids are ``everyday-SPLIT-SEED-LEVEL-NUMBER``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any

from viper.data.layout import split_of
from viper.data.sample import DatasetSpec, Sample
from viper.strategies.exact import ExactInput
from viper_lab.datasets.world import VAL_FIRST, GeneratedDataset, count_of
from viper_lab.world.everyday.meaning import Ask
from viper_lab.world.everyday.samples import LEVELS, everyday_question
from viper_lab.world.everyday.truth import EverydayTruth
from viper_lab.world.exact_inputs import exact_scene, named_looks, scene_near
from viper_lab.world.layout import sample_scene
from viper_lab.world.queries.truth import UnanswerableError
from viper_lab.world.render import render_scene
from viper_lab.world.scene import RenderedScene

# Rendered scenes that are kept for further episodes about them.
SCENES_KEPT = 256

# Most scenes that are drawn for each case.
_SCENES_FOR_A_CASE = 20

_ID = re.compile(r"everyday-([a-z]+)-(-?\d+)-(\d)-(\d+)")


@dataclass(frozen=True)
class QuestionMedia:
    """Renders the scene of a question, ``uint8 [H, W, 3]``, when called.

    It implements :class:`viper.strategies.exact.KnowsScenes`.
    """

    split: str
    index: int
    text: str
    ask: Ask

    def __call__(self) -> Any:
        return self._scene().image

    def exact(self, question: str = "", answer: str = "") -> ExactInput:
        """Return the picture with tools that make no mistake and do not know the answer."""
        return exact_scene(self._scene())

    def cases(self, count: int) -> list[tuple[ExactInput, Any]]:
        """Return other scenes with exact tools, each with the answer that is right there.

        No answer is right in more than half of the scenes; there are fewer than ``count`` where
        the question has the same answer nearly everywhere.
        """
        random, looks = Random(f"cases {self.text}"), named_looks(self.text)
        cases: list[tuple[ExactInput, Any]] = []
        given: Counter[Any] = Counter()
        for _ in range(_SCENES_FOR_A_CASE * count):
            scene = scene_near(random, looks)
            try:
                answer = EverydayTruth(scene).answer(self.ask)
            except UnanswerableError:
                continue
            target = scene.box(int(answer)) if self.ask.type == "refer" else answer
            if given[target] < count // 2:
                given[target] += 1
                cases.append((exact_scene(scene), target))
            if len(cases) == count:
                break
        return cases

    def _scene(self) -> RenderedScene:
        return _rendered(self.split, self.index)


@lru_cache(maxsize=SCENES_KEPT)
def _rendered(split: str, index: int) -> RenderedScene:
    return render_scene(sample_scene(split, index))


class WorldEveryday(GeneratedDataset):
    """The set ``world-everyday``; see the module."""

    name = "world-everyday"
    metric = "world"
    summary = "endless everyday questions about the embedded world by level; needs no files"
    splits = (*VAL_FIRST, *(f"{split}:{level}" for split in VAL_FIRST for level in LEVELS))

    def samples(self, spec: DatasetSpec) -> Sequence[Sample]:
        """Return the first samples, 300 by default."""
        return [self.sample(spec, number) for number in range(count_of(spec))]

    def sample(self, spec: DatasetSpec, number: int) -> Sample:
        """Return the sample of a number; see :class:`viper.data.sample.EndlessSet`."""
        split, _, part = split_of(self, spec).partition(":")
        level = int(part) if part else LEVELS[number % len(LEVELS)]
        return _sample(split, spec.seed, level, number)

    def by_id(self, spec: DatasetSpec, ids: Iterable[str]) -> dict[str, Sample]:
        """Return samples by id; see :class:`viper.data.sample.DrawnSet`."""
        found: dict[str, Sample] = {}
        for id_ in ids:
            match = _ID.fullmatch(id_)
            known = match and f"{match[1]}:{match[3]}" in self.splits and len(match[4]) < 10
            if match and known and spec.split in (None, match[1], f"{match[1]}:{match[3]}"):
                found[id_] = _sample(match[1], *map(int, match.groups()[1:]))
        return found


def _sample(split: str, seed: int, level: int, number: int) -> Sample:
    question = everyday_question(split, seed, level, number)
    picture = f"{split}-scene-{question.index}"
    assert isinstance(question.ask, Ask)
    return Sample(
        f"everyday-{split}-{seed}-{level}-{number}",
        question.query.text,
        task=question.query.task,
        media="image",
        target=question.answer if question.box is None else question.box,
        load=QuestionMedia(split, question.index, question.query.text, question.ask),
        groups={"level": str(level), "query_type": question.type},
        cluster=picture,
        files=(picture,),
    )
