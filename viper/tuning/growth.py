"""Growth of a demonstration pool: the demonstrations that a finished task adds, and their trial.

Source: CLOVA (Gao et al. 2024), sec. 3.4.2: plan, program and reflection of every task are kept as
correct or incorrect examples, validated on the instruction that they came from. Differs: an error
of a tool adds nothing, because neither plan nor program was wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from viper.schema import Example, Query, Trace, Trial
from viper.strategies.examples import (
    PARTS,
    Demonstration,
    ExampleRequest,
    ExampleStore,
    Part,
    SelectedExamples,
)
from viper.strategies.pool_example import PoolExample, pool_example
from viper.strategies.prompts import query_for_prompt


@dataclass(frozen=True)
class Origin:
    """Origin that an example records; see :class:`viper.schema.Example`."""

    llm: str
    api_hash: str
    kind: str = ""
    set: str = ""
    split: str = ""


@dataclass(frozen=True)
class CritiquedPart:
    """Critique of a task's plan or program."""

    part: Part
    critique: str


def demonstrations_of(
    trace: Trace, origin: Origin, *, solved: bool, wrong: CritiquedPart | None = None
) -> list[PoolExample]:
    """Return the demonstrations that a task adds to the pool, none of them validated yet.

    A solved task adds its program and, if it made one, its plan, as correct. An unsolved task adds
    the part that was wrong, with its critique. The list is empty if no program ran, or if an
    unsolved task has no critique.

    Raises:
        UsageError: a text is too long for a demonstration.
    """
    trial = trace.answering
    if trial is None or (not solved and wrong is None):
        return []
    base = _example(trace, trial, origin)
    if solved:
        parts = [part for part in PARTS if part == "program" or trial.plan]
        return [pool_example(replace(base, part=part)) for part in parts]
    assert wrong is not None
    if wrong.part == "plan" and not trial.plan:
        return []
    criticised = replace(base, part=wrong.part, polarity="incorrect", critique=wrong.critique)
    return [pool_example(replace(criticised, score=0.0))]


class TrialPool:
    """Demonstrations on trial, placed before those of a pool.

    They are shown even for their own query, because they are validated on it.
    """

    def __init__(self, on_trial: Sequence[PoolExample], pool: ExampleStore) -> None:
        self._on_trial, self._pool = tuple(on_trial), pool

    def select(self, query: Query, request: ExampleRequest) -> SelectedExamples:
        """Select demonstrations as the pool does, with those on trial first.

        Raises the pool's errors.
        """
        rest = self._pool.select(query, request)
        trial_ids = {item.id for item in self._on_trial}

        def together(
            polarity: str, others: Sequence[Demonstration], count: int
        ) -> Sequence[Demonstration]:
            first = [
                Demonstration(item.id, item.example)
                for item in self._on_trial
                if (item.example.part, item.example.polarity) == (request.part, polarity)
                and item.example.task == request.task
            ]
            return [*first, *(item for item in others if item.id not in trial_ids)][:count]

        return SelectedExamples(
            together("correct", rest.correct, request.correct),
            together("incorrect", rest.incorrect, request.incorrect),
        )


def _example(trace: Trace, trial: Trial, origin: Origin) -> Example:
    query = query_for_prompt(trace.query)
    return Example(
        query=query.text,
        program=trial.program,
        task=query.task,
        api=trace.api,
        score=1.0,
        sample_id=trace.query.sample_id or "",
        seed=trace.seed,
        llm=origin.llm,
        api_hash=origin.api_hash,
        plan=trial.plan,
        options=query.options,
        kind=origin.kind,
        set=origin.set,
        split=origin.split,
    )
