"""Tool awareness of a stored run: what its agent asked of the tools, and what that was worth.

Of runs of strategy ``explore``, from their traces alone; nothing is run again, so why an answer is
wrong is told only as far as the answer itself says it.
"""

from __future__ import annotations

from collections.abc import Iterator

from viper.evaluate.awareness import Awareness, awareness
from viper.evaluate.row import Row
from viper.evaluate.runs.store import RunStore
from viper.evaluate.workflows import kind_of
from viper.schema import Trace, trace_from_json
from viper.tuning.agent.workflow import Workflow

RIGHT_FROM = 0.5
"""Score from which an answer counts as right, as in the viewer."""


def run_awareness(store: RunStore) -> Awareness | None:
    """The figures of a run; None where none of its samples was explored.

    Raises:
        StoreError: the store cannot be read.
    """
    explored = list(explored_samples(store))
    return awareness(explored) if explored else None


def explored_samples(store: RunStore) -> Iterator[Workflow]:
    """The samples of a run that have turns, as workflows."""
    for row in store.rows():
        values = store.trace(row.sample_id, row.seed)
        trace = trace_from_json(values) if values is not None else None
        if trace is not None and trace.turns:
            yield _workflow(row, trace, store.manifest.set.name)


def _workflow(row: Row, trace: Trace, set_name: str) -> Workflow:
    answer = None if row.prediction is None else row.prediction.value
    if row.failure is not None or row.prediction is None:
        outcome = "unanswered"
    else:
        outcome = "right" if row.score >= RIGHT_FROM else "wrong"
    return Workflow(
        id=row.sample_id,
        set=set_name,
        query=trace.query,
        captions=(),
        turns=trace.turns,
        answer=answer,
        label=row.target,
        manner="standard",
        outcome=outcome,
        kind=kind_of(row.groups),
        tool_calls=trace.tool_calls,
        usage=row.usage,
        seconds=row.seconds,
        seed=row.seed,
    )
