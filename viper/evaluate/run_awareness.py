"""Tool awareness of a stored run: what its agent asked of the tools, and what that was worth.

Of runs of strategy ``explore``, from their traces. Where the scenes are known, as those of the
embedded world are, the code of some wrong answers is run again with tools that make no mistake;
elsewhere, why an answer is wrong is told only as far as the answer itself says it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from viper.api.library import Library
from viper.errors import StoreError, ViperError
from viper.evaluate.awareness import Awareness, awareness, causes_of, perfect_tools
from viper.evaluate.row import Row
from viper.evaluate.runs.samples import samples_of_run
from viper.evaluate.runs.store import RunStore
from viper.evaluate.workflows import kind_of
from viper.record import record_from_json
from viper.sandbox import Sandbox
from viper.schema import Trace
from viper.tuning.agent.workflow import Workflow

RIGHT_FROM = 0.5
"""Score from which an answer counts as right, as in the viewer."""


MOST_TOLD = 100
"""Wrong answers whose code is run again; somebody waits for it."""


def run_awareness(store: RunStore, most_told: int = MOST_TOLD) -> Awareness | None:
    """The figures of a run; None where none of its samples was explored.

    Args:
        most_told: wrong answers at most, the first ones, whose code is run again.

    Raises:
        StoreError: the store cannot be read.
    """
    explored = list(explored_samples(store))
    return awareness(explored, _causes(store, explored, most_told)) if explored else None


def _causes(store: RunStore, explored: Sequence[Workflow], most_told: int) -> list[str]:
    """Why each sample is wrong; of more than ``most_told`` not whether the logic was right."""
    told = [one for one in explored if one.outcome == "wrong"][:most_told]
    try:
        tools_of = perfect_tools(samples_of_run(store, None, {one.id for one in told}).values())
        if tools_of is None or not told:
            return causes_of(explored)
        chosen = {(one.id, one.seed) for one in told}
        with Sandbox(prelude=Library().prelude()) as sandbox:
            return [
                causes_of([one], tools_of if (one.id, one.seed) in chosen else None, sandbox)[0]
                for one in explored
            ]
    except StoreError:
        raise
    except ViperError:  # samples of another edition, no strict sandbox on this machine
        return causes_of(explored)


def explored_samples(store: RunStore) -> Iterator[Workflow]:
    """The samples of a run that have turns, as workflows."""
    for row in store.rows():
        values = store.trace(row.sample_id, row.seed)
        trace = record_from_json(Trace, values) if values is not None else None
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
