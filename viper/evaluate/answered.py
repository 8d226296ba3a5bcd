"""Answers an evaluation into a run's folder and gives its rows: for what asks many times over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from viper.evaluate.engines.answering import Answering
from viper.evaluate.engines.local import Bounds, LocalEngine
from viper.evaluate.engines.runner import Running, items, run
from viper.evaluate.evaluation import Evaluation, manifest_of
from viper.evaluate.metrics import metric
from viper.evaluate.row import Row
from viper.evaluate.runs.store import RunStore
from viper.reasoner import Reasoner
from viper.strategies.base import Components

IN_FLIGHT = 16
"""Samples on their way at once."""


def answered(
    components: Components,
    evaluation: Evaluation,
    folder: Path,
    document: Mapping[str, Any],
    on_done: Callable[[Running], None] = lambda running: None,
) -> list[Row]:
    """One judged row for each sample and seed, in the evaluation's order.

    What the folder holds already is not answered again.

    Args:
        document: the profile as JSON values, for the run's manifest.
        on_done: called after every new row.

    Raises:
        UsageError: the folder holds a run of another configuration.
    """
    samples = evaluation.samples()
    reasoner = Reasoner(components, preload=False)
    execution = {"engine": "local", "workers": IN_FLIGHT}
    manifest = manifest_of(evaluation, samples, reasoner, document, execution)
    judge = metric(evaluation.metric)
    answering = Answering.with_cache(reasoner, judge, evaluation.options, IN_FLIGHT + 8)
    engine = LocalEngine(answering, Bounds(IN_FLIGHT, evaluation.deadline_s))
    with RunStore.resume(folder, manifest) as store:
        todo = items(samples, evaluation.seeds)
        run(engine, todo, store, on_done=lambda _, running: on_done(running))
        found = {(row.sample_id, row.seed): row for row in store.rows()}
    return [found[item.key] for item in todo]
