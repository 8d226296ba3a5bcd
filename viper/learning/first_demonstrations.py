"""The first demonstrations of a pool: correct ones mined, incorrect ones with a planted fault.

Source: CLOVA (Gao et al. 2024), sec. 3.2, which begins with 15 to 20 examples. Differs: nobody
writes them. A correct one is what the model itself wrote for a labelled sample, was right by the
metric of the set, and is right again when it is shown to its own instruction. An incorrect one
differs from a correct one in one thing, and answers wrong by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import TypeVar

from viper.ace.critique import Critique
from viper.ace.growth import Origin, demonstrations_of
from viper.ace.pool_example import PoolExample, pool_example
from viper.ace.select import RIGHT, diverse
from viper.api.spec import api_hash
from viper.data.sample import Sample
from viper.errors import UsageError
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult
from viper.learning.mining import ExampleSource, kind_of
from viper.learning.validation import BudgetSpentError, ValidationRun
from viper.record import record_from_json
from viper.schema import Example, Trace
from viper.strategies.examples import PARTS, Part
from viper.strategies.prompts import query_for_prompt
from viper.tuning.plan_edits import EditedPlan, edited_plans
from viper.tuning.program_edits import EditedProgram, Vocabulary, edited_programs, program_fault


@dataclass
class TaskExamples:
    """What was found for one task.

    Attributes:
        correct: of each sample its plan, where there is one, and its program.
        samples: how many those are of.
        stopped: whether the budget ended it.
    """

    task: str
    correct: list[PoolExample] = field(default_factory=list)
    incorrect: list[PoolExample] = field(default_factory=list)
    samples: int = 0
    stopped: bool = False


def solved_samples(
    store: RunStore, samples: Sequence[Sample], source: ExampleSource
) -> list[SolvedSample]:
    """Return the samples of a mining run that were answered right, in its order."""
    by_id = {sample.sample_id: sample for sample in samples}
    right = [row for row in store.rows() if row.score > RIGHT and row.failure is None]
    candidates = [_solved(store, row, by_id[row.sample_id], source) for row in right]
    return [one for one in candidates if one is not None]


def _solved(
    store: RunStore, row: SampleResult, sample: Sample, source: ExampleSource
) -> SolvedSample | None:
    values = store.trace(row.sample_id, row.seed)
    if values is None:
        return None
    task = query_for_prompt(sample.query).task
    origin = Origin(
        source.llm,
        api_hash(source.library.api_set(source.api).entries(task)),
        kind_of(sample.groups),
        source.evaluation.set_name,
        source.evaluation.spec.split or "",
    )
    try:
        left = demonstrations_of(record_from_json(Trace, values), origin, solved=True)
    except UsageError:
        return None  # too long for a demonstration
    return SolvedSample(sample, tuple(left)) if left else None


def first_demonstrations(
    solved: Sequence[SolvedSample],
    wish: Targets,
    validation: ValidationRun,
    on_found: Callable[[str], None] = lambda what: None,
) -> list[TaskExamples]:
    """Find the demonstrations of each task, one after another. The same answers give the same ones.

    Where the budget ends, what was found by then, and no further task.

    Args:
        on_found: called after each one with what it is.

    Raises:
        ViperError: a model or the sandbox failed.
    """
    by_task: dict[str, list[SolvedSample]] = {}
    for one in solved:
        by_task.setdefault(one.example.task, []).append(one)
    tasks = []
    for task, its in by_task.items():
        first = TaskExamples(task)
        tasks.append(first)
        try:
            for what in _found(first, its, wish, validation):
                on_found(f"{task}: {what}")
        except BudgetSpentError:
            first.stopped = True
            break
    return tasks


def _found(
    first: TaskExamples, solved: Sequence[SolvedSample], wish: Targets, validation: ValidationRun
) -> Iterator[str]:
    """Fill ``first`` and yield the polarity of each new demonstration."""
    by_id = {one.sample.sample_id: one for one in solved}
    ordered = [by_id[example.sample_id] for example in diverse(one.example for one in solved)]
    chosen = []
    for one in ordered:
        if first.samples == wish.correct:
            break
        outcome = validation.with_demonstrations(one.sample, one.demonstrations)
        if outcome.verdict == "right" and outcome.shown:
            on = one.sample.sample_id
            first.correct += [replace(each, validated_on=on) for each in one.demonstrations]
            first.samples += 1
            chosen.append(one)
            yield "correct"
    others = [one for one in ordered if one not in chosen]
    for planted in FaultSearch(wish, validation).faults([*others, *chosen]):
        first.incorrect.append(planted)
        yield "incorrect"


PROGRAMS_TRIED, PLANS_TRIED = 24, 4
"""Faults tried in one program or plan; each plan takes a request."""

MISLEADING = 3
"""Faults of one sample that may mislead its own instruction before another is taken."""

Words = Sequence[Sequence[str]]
"""Families of words that exclude each other."""

_E = TypeVar("_E", EditedPlan, EditedProgram)


@dataclass(frozen=True)
class Targets:
    """How many are wanted for each task, as the language model is asked it.

    Attributes:
        correct: samples; each leaves its plan, where there is one, and its program.
        incorrect: faults, in plans and programs by turns where there are plans.
        seed: of the faults.
        families: words that faults may exchange.
    """

    correct: int = 8
    incorrect: int = 8
    seed: int = 0
    families: Words = ()


@dataclass(frozen=True)
class SolvedSample:
    """A labelled sample that was answered right, with what that leaves in a pool."""

    sample: Sample
    demonstrations: tuple[PoolExample, ...]

    @property
    def example(self) -> Example:
        """Return the example of its program, which also holds the plan."""
        return self.demonstrations[-1].example


class FaultSearch:
    """Faults in what was right, of ever other kinds."""

    def __init__(self, wish: Targets, validation: ValidationRun) -> None:
        self._wish, self._validation = wish, validation
        self._kinds: Counter[str] = Counter()
        self._taken: set[str] = set()

    def faults(self, solved: Sequence[SolvedSample]) -> Iterator[PoolExample]:
        """Yield the requested number of faults, one per sample. If samples run out, give further
        faults of the same ones."""
        there = {each.example.part for one in solved for each in one.demonstrations}
        parts = [part for part in PARTS if part in there]
        count = 0
        while count < self._wish.incorrect:
            before = count
            for one in solved:
                if count == self._wish.incorrect:
                    return
                turn = parts[count % len(parts) :] + parts[: count % len(parts)]
                planted = next(filter(None, (self._fault(one, part) for part in turn)), None)
                if planted is not None:
                    count += 1
                    yield planted
            if count == before:
                return

    def _fault(self, one: SolvedSample, part: Part) -> PoolExample | None:
        """Return a fault of one part that makes the answer wrong and does not mislead when it is
        shown."""
        misleading = 0
        for kind, planted in self._harmful(one, part):
            if planted.id in self._taken:
                continue
            if self._validation.shows_incorrect:
                outcome = self._validation.with_demonstrations(one.sample, [planted])
                if outcome.shown and outcome.verdict != "right":
                    misleading += 1
                    if misleading == MISLEADING:
                        return None
                    continue
                if outcome.shown:
                    planted = replace(planted, validated_on=one.sample.sample_id)
            self._kinds[kind] += 1
            self._taken.add(planted.id)
            return planted
        return None

    def _harmful(self, one: SolvedSample, part: Part) -> Iterator[tuple[str, PoolExample]]:
        """Yield faults that answer wrong, the kinds injected less often first."""
        random = Random(f"{self._wish.seed}-{part}-{one.sample.sample_id}")
        return self._in_plan(one, random) if part == "plan" else self._in_program(one, random)

    def _in_program(self, one: SolvedSample, random: Random) -> Iterator[tuple[str, PoolExample]]:
        program = one.example.program
        wrong = edited_programs(program, Vocabulary(self._wish.families))
        for edited in self._in_turn(wrong, random)[:PROGRAMS_TRIED]:
            if self._validation.of_program(one.sample, edited.program).verdict != "wrong":
                continue
            reason = program_fault(edited.kind, program, edited.program)
            fault = Critique("program", None, reason, program)
            yield edited.kind, _incorrect(one, "program", fault, program=edited.program)

    def _in_plan(self, one: SolvedSample, random: Random) -> Iterator[tuple[str, PoolExample]]:
        plan = one.example.plan
        if plan is None:
            return
        for edited in self._in_turn(edited_plans(plan, self._wish.families), random)[:PLANS_TRIED]:
            outcome = self._validation.of_plan(one.sample, edited.plan)
            if outcome.verdict != "wrong":
                continue
            fault = Critique("plan", None, edited.said, plan)
            changed = {"plan": edited.plan, "program": outcome.program}
            yield edited.kind, _incorrect(one, "plan", fault, **changed)

    def _in_turn(self, edits: Sequence[_E], random: Random) -> list[_E]:
        """Return the edits with kinds in turn, the rarer kinds first, in random order within a
        kind."""
        shuffled = list(edits)
        random.shuffle(shuffled)
        kinds = list(dict.fromkeys(one.kind for one in shuffled))
        kinds.sort(key=lambda kind: self._kinds[kind])
        turns = [[one for one in shuffled if one.kind == kind] for kind in kinds]
        longest = max(map(len, turns), default=0)
        return [turn[n] for n in range(longest) for turn in turns if n < len(turn)]


def _incorrect(one: SolvedSample, part: Part, fault: Critique, **changed: str) -> PoolExample:
    example = replace(
        one.example,
        part=part,
        polarity="incorrect",
        score=0.0,
        critique=fault.reason,
        **changed,  # type: ignore[arg-type]
    )
    return pool_example(example, fault_known=fault)
