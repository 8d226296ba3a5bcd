"""How a demonstration pool grows: what a finished task leaves in it, and how that is tried.

Source: CLOVA (Gao et al. 2024), sec. 3.4.2: plan, program and reflection of every task are kept as
correct or incorrect examples, validated on the instruction that they came from. Differs: a failure
that was a tool's leaves nothing, since neither plan nor program was wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from viper.ace.pool_example import PoolExample, pool_example
from viper.schema import Example, Query, Trace, Trial
from viper.strategies.examples import (
    PARTS,
    Demonstration,
    ExampleRequest,
    ExampleStore,
    Part,
    SelectedExamples,
)
from viper.strategies.prompts import query_for_prompt


@dataclass(frozen=True)
class Origin:
    """What an example says of where it is from; see :class:`viper.schema.Example`."""

    llm: str
    api_hash: str
    kind: str = ""
    set: str = ""
    split: str = ""


@dataclass(frozen=True)
class CritiquedPart:
    """What reflection found wrong with a task, where that was its plan or its program."""

    part: Part
    critique: str


def demonstrations_of(
    trace: Trace, origin: Origin, *, solved: bool, wrong: CritiquedPart | None = None
) -> list[PoolExample]:
    """Return the demonstrations that a task adds to the pool, none of them validated yet.

    Solved: its plan, where it made one, and its program, both correct. Not solved: the part that
    was found wrong, with the critique. Nothing where no program ran, or nobody says what was wrong.

    Raises:
        UsageError: a text that is too long for a demonstration.
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
    """Demonstrations that are tried out, in front of those of a pool.

    They are shown even to their own query: that is what they are validated on.
    """

    def __init__(self, tried: Sequence[PoolExample], pool: ExampleStore) -> None:
        self._tried, self._pool = tuple(tried), pool

    def select(self, query: Query, request: ExampleRequest) -> SelectedExamples:
        """Select demonstrations as the pool does, with those on trial first. Raise as the pool
        does."""
        rest = self._pool.select(query, request)
        trial_ids = {one.id for one in self._tried}

        def together(
            polarity: str, others: Sequence[Demonstration], count: int
        ) -> Sequence[Demonstration]:
            first = [
                Demonstration(one.id, one.example)
                for one in self._tried
                if (one.example.part, one.example.polarity) == (request.part, polarity)
                and one.example.task == request.task
            ]
            return [*first, *(one for one in others if one.id not in trial_ids)][:count]

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
