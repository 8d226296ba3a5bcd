"""Answers an evaluation into a run's folder and gives its rows: for what asks many times over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from viper.data.sample import Sample
from viper.evaluate.engines.answering import Answering
from viper.evaluate.engines.local import Bounds, LocalEngine
from viper.evaluate.engines.runner import UNBOUNDED, Budget, Running, items, run
from viper.evaluate.evaluation import Evaluation, manifest_of
from viper.evaluate.metrics import metric
from viper.evaluate.row import Row
from viper.evaluate.runs.store import RunStore
from viper.reasoner import Reasoner, RunOptions
from viper.strategies.base import Components

IN_FLIGHT = 16
"""Samples on their way at once."""


@dataclass(frozen=True)
class Drawn:
    """An evaluation with its samples, so that they are drawn or read once for many runs."""

    evaluation: Evaluation
    samples: Sequence[Sample]

    @classmethod
    def of(cls, evaluation: Evaluation) -> Drawn:
        """The evaluation, its samples drawn now.

        Raises:
            DataError: files are missing or broken, or there is no sample at all.
        """
        return cls(evaluation, evaluation.samples())

    def under(self, options: RunOptions) -> Drawn:
        """The same samples, answered under other settings."""
        return replace(self, evaluation=replace(self.evaluation, options=options))


def answered(
    components: Components,
    drawn: Drawn,
    folder: Path,
    document: Mapping[str, Any],
    on_done: Callable[[Running], None] = lambda running: None,
    budget: Budget = UNBOUNDED,
) -> list[Row]:
    """One judged row for each sample and seed, in the evaluation's order.

    What the folder holds already is not answered again.

    Args:
        document: the profile as JSON values, for the run's manifest.
        on_done: called after every new row.
        budget: of all sessions; rows that it leaves no room for are not there.

    Raises:
        UsageError: the folder holds a run of another configuration.
    """
    evaluation, samples = drawn.evaluation, drawn.samples
    reasoner = Reasoner(components, preload=False)
    execution = {"engine": "local", "workers": IN_FLIGHT}
    manifest = manifest_of(evaluation, samples, reasoner, document, execution)
    judge = metric(evaluation.metric)
    answering = Answering.with_cache(reasoner, judge, evaluation.options, IN_FLIGHT + 8)
    engine = LocalEngine(answering, Bounds(IN_FLIGHT, evaluation.deadline_s))
    with RunStore.resume(folder, manifest) as store:
        todo = items(samples, evaluation.seeds)
        run(engine, todo, store, budget=budget, on_done=lambda _, running: on_done(running))
        found = {(row.sample_id, row.seed): row for row in store.rows()}
    return [found[item.key] for item in todo if item.key in found]
