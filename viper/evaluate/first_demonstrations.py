"""The first demonstrations of a pool: correct ones mined, incorrect ones with a planted fault.

Source: CLOVA (Gao et al. 2024), sec. 3.2, which begins with 15 to 20 examples. Differs: nobody
writes them. A correct one is what the model itself wrote for a labelled sample, was right by the
metric of the set, and is right again when it is shown to its own instruction. An incorrect one
differs from a correct one in one thing, and answers wrong by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from viper.ace.growth import Origin, demonstrations_of
from viper.ace.pooled import Pooled
from viper.ace.select import RIGHT, diverse
from viper.api.spec import api_hash
from viper.data.sample import Sample
from viper.errors import UsageError
from viper.evaluate.mining import Source, kind_of
from viper.evaluate.planted_demonstrations import Planting, Solved, Wish
from viper.evaluate.row import Row
from viper.evaluate.runs.store import RunStore
from viper.evaluate.tryout import BudgetSpentError, Tryout
from viper.record import record_from_json
from viper.schema import Trace
from viper.strategies.prompts import asked_as


@dataclass
class First:
    """What was found for one task.

    Attributes:
        correct: of each sample its plan, where there is one, and its program.
        samples: how many those are of.
        stopped: whether the budget ended it.
    """

    task: str
    correct: list[Pooled] = field(default_factory=list)
    incorrect: list[Pooled] = field(default_factory=list)
    samples: int = 0
    stopped: bool = False


def solved_samples(store: RunStore, samples: Sequence[Sample], source: Source) -> list[Solved]:
    """The samples of a mining run that were answered right, in its order."""
    known = {sample.sample_id: sample for sample in samples}
    right = [row for row in store.rows() if row.score > RIGHT and row.failure is None]
    found = [_solved(store, row, known[row.sample_id], source) for row in right]
    return [one for one in found if one is not None]


def _solved(store: RunStore, row: Row, sample: Sample, source: Source) -> Solved | None:
    values = store.trace(row.sample_id, row.seed)
    if values is None:
        return None
    task = asked_as(sample.query).task
    origin = Origin(
        source.llm,
        api_hash(source.library.api_set(source.api).entries(task)),
        kind_of(sample.groups),
        source.evaluation.set_name,
        source.evaluation.where.split or "",
    )
    try:
        left = demonstrations_of(record_from_json(Trace, values), origin, solved=True)
    except UsageError:
        return None  # too long for a demonstration
    return Solved(sample, tuple(left)) if left else None


def first_demonstrations(
    solved: Sequence[Solved],
    wish: Wish,
    tryout: Tryout,
    on_found: Callable[[str], None] = lambda what: None,
) -> list[First]:
    """The demonstrations of each task, found one after another; the same for the same answers.

    Where the budget ends, what was found by then, and no further task.

    Args:
        on_found: called after each one with what it is.

    Raises:
        ViperError: a model or the sandbox failed.
    """
    by_task: dict[str, list[Solved]] = {}
    for one in solved:
        by_task.setdefault(one.example.task, []).append(one)
    found = []
    for task, its in by_task.items():
        first = First(task)
        found.append(first)
        try:
            for what in _found(first, its, wish, tryout):
                on_found(f"{task}: {what}")
        except BudgetSpentError:
            first.stopped = True
            break
    return found


def _found(first: First, solved: Sequence[Solved], wish: Wish, tryout: Tryout) -> Iterator[str]:
    """Fills ``first``, telling each thing that it got."""
    by_id = {one.sample.sample_id: one for one in solved}
    ordered = [by_id[example.sample_id] for example in diverse(one.example for one in solved)]
    chosen = []
    for one in ordered:
        if first.samples == wish.correct:
            break
        outcome = tryout.with_demonstrations(one.sample, one.demonstrations)
        if outcome.verdict == "right" and outcome.shown:
            on = one.sample.sample_id
            first.correct += [replace(each, validated_on=on) for each in one.demonstrations]
            first.samples += 1
            chosen.append(one)
            yield "correct"
    others = [one for one in ordered if one not in chosen]
    for planted in Planting(wish, tryout).faults([*others, *chosen]):
        first.incorrect.append(planted)
        yield "incorrect"
