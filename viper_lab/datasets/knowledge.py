"""The knowledge world as a data set: questions that need what ``viper lab world knowledge`` writes.

Drawn afresh for each seed, which is the catalogue's: the same questions as in the
``questions.jsonl`` of ``viper lab world knowledge OUT --seed SEED``, of the same number of designs.
Whoever is to answer them needs ``OUT/gallery`` and ``OUT/texts.jsonl`` in an index.

Splits: ``val``, ``train``, ``test`` (names, and looks under them, are of the split alone; ``test``
is to be looked at last); ``val:unanswerable`` has only questions that no text answers, and so on.
Ids are ``knowledge-SPLIT-SEED-N``; the cluster is
the design or picture that is asked about. Where no text tells it, the target is ``unanswerable``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from viper.data.layout import split_of
from viper.data.sample import DatasetSpec, Finding, Sample
from viper_lab.datasets.world import VAL_FIRST, count_of
from viper_lab.world.knowledge.catalogue import DESIGNS, catalogue
from viper_lab.world.knowledge.questions import (
    UNANSWERABLE,
    KnowledgeQuestion,
    questions,
    unanswerable,
)


@dataclass(frozen=True)
class QuestionPicture:
    """Renders the picture of a question ``uint8 [H, W, 3]`` when called."""

    question: KnowledgeQuestion

    def __call__(self) -> Any:
        from viper_lab.world.knowledge.write import picture_of

        return picture_of(self.question)


@dataclass(frozen=True)
class WorldKnowledge:
    """The set; see the module."""

    name: str = "world-knowledge"
    metric: str = "world"
    summary: str = "the embedded world: what the picture alone cannot tell; needs an index"
    splits: tuple[str, ...] = (*VAL_FIRST, *(f"{split}:{UNANSWERABLE}" for split in VAL_FIRST))

    def samples(self, spec: DatasetSpec) -> Sequence[Sample]:
        """Return the samples asked for (300 by default). A smaller limit returns the first samples
        of a larger one.
        """
        split, _, part = split_of(self, spec).partition(":")
        whole, draw = catalogue(split, spec.seed, DESIGNS), unanswerable if part else questions
        return [knowledge_sample(question) for question in draw(whole, count_of(spec))]

    def check(self, spec: DatasetSpec) -> Sequence[Finding]:
        """Return what must be indexed. Questions are drawn and cannot be missing."""
        split = split_of(self, spec).partition(":")[0]
        options = f"--split {split} --seed {spec.seed} --questions {count_of(spec)}"
        how = f"viper lab world knowledge lore {options}; viper setup index images lore/gallery; "
        return [
            Finding(True, split, "drawn by the package itself"),
            Finding(True, "to answer them", f"{how}viper setup index text lore/texts.jsonl"),
        ]


def knowledge_sample(question: KnowledgeQuestion) -> Sample:
    """Return a question of the knowledge world as a sample that metrics accept."""
    return Sample(
        question.question_id,
        question.text,
        task="question",
        media="image",
        target=question.answer,
        load=QuestionPicture(question),
        groups={
            "kind": question.kind,
            "hops": str(question.hops),
            "answerable": "yes" if question.is_answerable else "no",
            "look_alike": "yes" if question.look_alike else "no",
        },
        cluster=f"{question.question_id.split('-')[2]} {question.seen}",
        files=(f"{question.question_id}.png",),
    )
