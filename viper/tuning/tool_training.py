"""Teaches one tool one concept: collects data, trains prompts, keeps those that hold.

Source: CLOVA (Gao et al. 2024), sec. 3.4, algorithm 1, the update of a tool.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean
from typing import Any

from viper.errors import UsageError
from viper.tools.models import ModelSet
from viper.tuning.data_collection import RELATED, collect_annotated, collect_pictures
from viper.tuning.prompt_pool import PromptPool
from viper.tuning.soft_prompts.base import USUAL, Progress, TrainedPrompt, TunerOptions, tuner_for
from viper.tuning.training_data import (
    LOC_SAMPLES,
    POSITIVES,
    SEG_SAMPLES,
    AnnotatedStore,
    Collected,
    ConceptQuery,
    PictureSearch,
)

ANNOTATED: Mapping[str, int] = {"loc": LOC_SAMPLES, "seg": SEG_SAMPLES}
"""Tools that learn from annotated pictures, and from how many at most."""

SEARCHED: Mapping[str, int] = {"match": POSITIVES, "replace": POSITIVES}
"""Tools that learn from pictures that a search finds."""

NEGATIVES: Mapping[str, int] = {"match": 80}
"""Pictures of other concepts for tools that learn from searched ones, where not as many as of it:
a matcher that was shown few takes much else for the concept."""

RELATED_TO: Mapping[str, int] = {"match": 40}
"""Of so many other concepts, where not of :data:`viper.tuning.data_collection.RELATED`."""


KNOWN = 0.8
"""A tool that is right about so many held-out pictures of a concept, by itself, knows it: a prompt
has little to win there, and takes things for the concept that are none."""


@dataclass(frozen=True)
class Sources:
    """Where data for concepts comes from; None: there is no such source here.

    Attributes:
        positives: pictures of a concept at most, whatever a tool would take.
    """

    store: AnnotatedStore | None = None
    search: PictureSearch | None = None
    positives: int | None = None


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """What came of teaching a tool.

    Attributes:
        trained: all prompts, kept or not.
        ids: of those that the pool has now.
        collected: where the data came from, JSON values; see :mod:`viper.tuning.data_collection`.
    """

    tool: str
    concept: str | None
    trained: Sequence[TrainedPrompt]
    ids: Sequence[str]
    collected: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kept(self) -> int:
        return len(self.ids)


Memory = MutableMapping[tuple[Any, ...], Sequence[TrainedPrompt]]
"""What was trained from which data, for teachers that begin anew with the same models."""


@dataclass(frozen=True)
class ToolTrainer:
    """Teaches the tools of a profile; what they learn goes into a pool.

    Args:
        models: whose backends are taught.
        pool: keeps what holds.
        sources: of data.
        memory: prompts are not trained again from collected data that stands in it: training is
            a function of the data, the model and the options alone. None: always trained.
    """

    models: ModelSet
    pool: PromptPool
    sources: Sources
    memory: Memory | None = None

    def teach(
        self,
        tool: str,
        concept: str,
        options: TunerOptions = USUAL,
        on_progress: Progress | None = None,
        task: str = "",
    ) -> TrainingResult:
        """Collect data about a concept and train the tool on it.

        Args:
            task: the query whose failure asked for it; part of the evidence.

        Raises:
            UsageError: no source of data for the tool, nothing found there, or a model that
                takes no soft prompts.
            StoreError: the pool cannot be written.
            CancelledError: raised by ``on_progress``; the pool stays as it was.
        """
        lesson = self.collect(tool, concept, options.seed)
        return self.learn(tool, concept, lesson, options, on_progress, lesson.evidence, task)

    def collect(self, tool: str, concept: str, seed: int = 0) -> Collected[Any]:
        """Collect the data for a concept; raise as :meth:`teach`."""
        sources, query = self.sources, ConceptQuery(concept)
        matcher = self.models.shared("matcher")
        data: Collected[Any] | None = None
        if tool in ANNOTATED and sources.store is not None:
            limit = min(ANNOTATED[tool], sources.positives or ANNOTATED[tool])
            data = collect_annotated(
                query, sources.store, limit=limit, negatives=limit, matcher=matcher, seed=seed
            )
        if tool in SEARCHED and sources.search is not None:
            limit = min(SEARCHED[tool], sources.positives or SEARCHED[tool])
            words = () if sources.store is None else tuple(sources.store.vocabulary())
            same = () if sources.store is None else sources.store.names_of(concept)
            data = collect_pictures(
                query,
                sources.search,
                limit=limit,
                negatives=NEGATIVES.get(tool, limit),
                vocabulary=words,
                same=same,
                matcher=matcher,
                related=RELATED_TO.get(tool, RELATED),
            )
        if data is None:
            raise UsageError(f"nothing to teach {tool} with: no source of data for it is given")
        if not data.positives:
            name = data.evidence.get("source", "the source")
            raise UsageError(f"{name} has no picture of {concept!r}; name another source of data")
        return data

    def learn(
        self,
        tool: str,
        concept: str | None,
        lesson: Any,
        options: TunerOptions = USUAL,
        on_progress: Progress | None = None,
        collected: Mapping[str, Any] | None = None,
        task: str = "",
    ) -> TrainingResult:
        """Train on the data and store all prompts that hold as one version of the pool.

        Raises:
            UsageError: as :meth:`teach`.
            StoreError, CancelledError: as there.
        """
        trained = self._trained(tool, lesson, options, on_progress)
        if concept is not None and options.validate:
            trained = _needed(trained)
        prompts = [
            (one.prompt, replace(one.evidence, task=task or one.evidence.task))
            for one in trained
            if one.kept
        ]
        ids = self.pool.add(tool, concept, prompts) if prompts else []
        return TrainingResult(tool, concept, tuple(trained), tuple(ids), collected or {})

    def _trained(
        self, tool: str, lesson: Any, options: TunerOptions, on_progress: Progress | None
    ) -> Sequence[TrainedPrompt]:
        tuner = tuner_for(tool)
        using = partial(self.models.using, tuner.role)
        if self.memory is None or not isinstance(lesson, Collected):
            return tuner.learn(using, lesson, options, on_progress)
        data = json.dumps(lesson.evidence, sort_keys=True)
        key = (tool, self.models.trait(tuner.role, "model_id"), options, lesson.concept, data)
        trained = self.memory.get(key)
        if trained is None:
            trained = self.memory[key] = tuner.learn(using, lesson, options, on_progress)
        return trained


def _needed(trained: Sequence[TrainedPrompt]) -> Sequence[TrainedPrompt]:
    """Return the prompts, all discarded if the tool knows the concept without them
    (:data:`KNOWN`)."""
    shares = [one.evidence.before for one in trained if one.evidence.before is not None]
    before = fmean(shares) if shares else 0.0
    if before < KNOWN:
        return trained
    why = f"not needed: {before:.2f} of the held-out pictures are right without it"
    return [one if one.why else replace(one, why=why) for one in trained]
