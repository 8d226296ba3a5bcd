"""The first demonstrations of a pool: correct ones are mined, incorrect ones get a fault.

`solved_samples` reads what a mining run answered right; `first_demonstrations` keeps those that
stay right with their own demonstration, and `FaultSearch` injures plans and programs until the
answer is wrong.

Source: CLOVA (Gao et al. 2024), sec. 3.2, which begins with 15 to 20 examples. Differs: nobody
writes them. The model wrote a correct demonstration for a labelled sample. It was right by the
set's metric, and is right again when it is shown for its own instruction. An incorrect one differs
from a correct one in one edit, which makes its answer wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import TypeVar

from viper.ace.mining import ExampleSource
from viper.ace.select import diverse
from viper.agreement import is_correct
from viper.api.spec import api_hash
from viper.data.sample import Sample, kind_of
from viper.errors import UsageError
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult
from viper.record import record_from_json
from viper.schema import Example, Trace
from viper.strategies.critique import Critique
from viper.strategies.demonstration_pool import PoolExample, pool_example
from viper.strategies.examples import PARTS, Part
from viper.strategies.prompts import query_for_prompt
from viper.tuning.learner import ExampleOrigin, demonstrations_of
from viper.tuning.plan_edits import EditedPlan, edited_plans
from viper.tuning.program_edits import EditedProgram, Vocabulary, edited_programs, program_fault
from viper.tuning.validation import BudgetSpentError, ValidationRun


@dataclass
class TaskExamples:
    """Demonstrations of one task.

    Attributes:
        correct: the program of each sample, preceded by its plan if there is one.
        samples: number of samples that the correct demonstrations come from.
        stopped: whether the budget ended the search.
    """

    task: str
    correct: list[PoolExample] = field(default_factory=list)
    incorrect: list[PoolExample] = field(default_factory=list)
    samples: int = 0
    stopped: bool = False


def solved_samples(
    store: RunStore, samples: Sequence[Sample], source: ExampleSource
) -> list[SolvedSample]:
    """Return the samples that a mining run answered right, in the run's order."""
    by_id = {sample.sample_id: sample for sample in samples}
    right = [
        result for result in store.rows() if is_correct(result.score) and result.failure is None
    ]
    candidates = [_solved(store, result, by_id[result.sample_id], source) for result in right]
    return [candidate for candidate in candidates if candidate is not None]


def _solved(
    store: RunStore, result: SampleResult, sample: Sample, source: ExampleSource
) -> SolvedSample | None:
    values = store.trace(result.sample_id, result.seed)
    if values is None:
        return None
    task = query_for_prompt(sample.query).task
    origin = ExampleOrigin(
        source.llm,
        api_hash(source.library.api_set(source.api).entries(task)),
        kind_of(sample.groups),
        source.evaluation.set_name,
        source.evaluation.spec.split or "",
    )
    try:
        examples = demonstrations_of(record_from_json(Trace, values), origin, solved=True)
    except UsageError:
        return None  # too long for a demonstration
    return SolvedSample(sample, tuple(examples)) if examples else None


def first_demonstrations(
    solved: Sequence[SolvedSample],
    targets: Targets,
    validation: ValidationRun,
    on_found: Callable[[str], None] = lambda what: None,
) -> list[TaskExamples]:
    """Find the demonstrations of each task, task by task. Equal answers give equal demonstrations.

    If the budget runs out, return those found so far and skip further tasks.

    Args:
        on_found: called for each demonstration with its task and polarity.

    Raises:
        ViperError: a model or the sandbox failed.
    """
    by_task: dict[str, list[SolvedSample]] = {}
    for candidate in solved:
        by_task.setdefault(candidate.example.task, []).append(candidate)
    tasks = []
    for task, of_task in by_task.items():
        examples = TaskExamples(task)
        tasks.append(examples)
        try:
            for polarity in _fill(examples, of_task, targets, validation):
                on_found(f"{task}: {polarity}")
        except BudgetSpentError:
            examples.stopped = True
            break
    return tasks


def _fill(
    examples: TaskExamples,
    solved: Sequence[SolvedSample],
    targets: Targets,
    validation: ValidationRun,
) -> Iterator[str]:
    """Add to ``examples`` and yield the polarity of each new demonstration."""
    by_id = {candidate.sample.sample_id: candidate for candidate in solved}
    ordered = [by_id[example.sample_id] for example in diverse(each.example for each in solved)]
    chosen = []
    for candidate in ordered:
        if examples.samples == targets.correct:
            break
        outcome = validation.with_demonstrations(candidate.sample, candidate.demonstrations)
        if outcome.verdict == "right" and outcome.shown:
            on = candidate.sample.sample_id
            examples.correct += [
                replace(example, validated_on=on) for example in candidate.demonstrations
            ]
            examples.samples += 1
            chosen.append(candidate)
            yield "correct"
    others = [candidate for candidate in ordered if candidate not in chosen]
    for fault in FaultSearch(targets, validation).faults([*others, *chosen]):
        examples.incorrect.append(fault)
        yield "incorrect"


# Most faults to try in one program or plan. A program only runs again; each plan takes a request.
PROGRAMS_TRIED, PLANS_TRIED = 24, 4

# Faults of one sample that may mislead its own instruction before the search skips the sample: each
# costs a request, and the next ones are likely to mislead too.
MISLEADING = 3

# Families of words that exclude each other.
Words = Sequence[Sequence[str]]

_E = TypeVar("_E", EditedPlan, EditedProgram)


@dataclass(frozen=True)
class Targets:
    """Number of demonstrations to find for each task in which the model is prompted.

    Attributes:
        correct: number of solved samples. Each adds its program, and its plan if there is one.
        incorrect: number of faults, alternately in plans and programs if there are plans.
        seed: random seed for choosing faults.
        families: words that faults may exchange.
    """

    correct: int = 8
    incorrect: int = 8
    seed: int = 0
    families: Words = ()


@dataclass(frozen=True)
class SolvedSample:
    """A labelled sample that was answered right, with the demonstrations that it adds to a pool."""

    sample: Sample
    demonstrations: tuple[PoolExample, ...]

    @property
    def example(self) -> Example:
        """Return the example of its program, which also holds the plan."""
        return self.demonstrations[-1].example


class FaultSearch:
    """Search for faults in correct plans and programs that takes the kinds of fault in turn."""

    def __init__(self, targets: Targets, validation: ValidationRun) -> None:
        self._targets, self._validation = targets, validation
        self._kinds: Counter[str] = Counter()
        self._taken: set[str] = set()

    def faults(self, solved: Sequence[SolvedSample]) -> Iterator[PoolExample]:
        """Yield the requested number of faults, one per sample.

        If there are too few samples, yield further faults of the same ones.
        """
        available = {
            demonstration.example.part
            for candidate in solved
            for demonstration in candidate.demonstrations
        }
        parts = [part for part in PARTS if part in available]
        count = 0
        while count < self._targets.incorrect:
            before = count
            for candidate in solved:
                if count == self._targets.incorrect:
                    return
                turn = parts[count % len(parts) :] + parts[: count % len(parts)]
                fault = next(filter(None, (self._fault(candidate, part) for part in turn)), None)
                if fault is not None:
                    count += 1
                    yield fault
            if count == before:
                return

    def _fault(self, candidate: SolvedSample, part: Part) -> PoolExample | None:
        """Return a fault in one part, or None if there is none.

        It makes the answer wrong, and the prompt that shows it as incorrect still answers right.
        """
        misleading = 0
        for kind, fault in self._harmful(candidate, part):
            if fault.id in self._taken:
                continue
            if self._validation.shows_incorrect:
                outcome = self._validation.with_demonstrations(candidate.sample, [fault])
                if outcome.shown and outcome.verdict != "right":
                    misleading += 1
                    if misleading == MISLEADING:
                        return None
                    continue
                if outcome.shown:
                    fault = replace(fault, validated_on=candidate.sample.sample_id)
            self._kinds[kind] += 1
            self._taken.add(fault.id)
            return fault
        return None

    def _harmful(self, candidate: SolvedSample, part: Part) -> Iterator[tuple[str, PoolExample]]:
        """Yield faults that make the answer wrong, rarer kinds first."""
        random = Random(f"{self._targets.seed}-{part}-{candidate.sample.sample_id}")
        return (
            self._in_plan(candidate, random)
            if part == "plan"
            else self._in_program(candidate, random)
        )

    def _in_program(
        self, candidate: SolvedSample, random: Random
    ) -> Iterator[tuple[str, PoolExample]]:
        program = candidate.example.program
        wrong = edited_programs(program, Vocabulary(self._targets.families))
        for edited in self._in_turn(wrong, random)[:PROGRAMS_TRIED]:
            if self._validation.of_program(candidate.sample, edited.program).verdict != "wrong":
                continue
            reason = program_fault(edited.kind, program, edited.program)
            fault = Critique("program", None, reason, program)
            yield edited.kind, _incorrect(candidate, "program", fault, program=edited.program)

    def _in_plan(
        self, candidate: SolvedSample, random: Random
    ) -> Iterator[tuple[str, PoolExample]]:
        plan = candidate.example.plan
        if plan is None:
            return
        for edited in self._in_turn(edited_plans(plan, self._targets.families), random)[
            :PLANS_TRIED
        ]:
            outcome = self._validation.of_plan(candidate.sample, edited.plan)
            if outcome.verdict != "wrong":
                continue
            fault = Critique("plan", None, edited.fault, plan)
            changed = {"plan": edited.plan, "program": outcome.program}
            yield edited.kind, _incorrect(candidate, "plan", fault, **changed)

    def _in_turn(self, edits: Sequence[_E], random: Random) -> list[_E]:
        """Return the edits with kinds in turn, rarer kinds first, in random order per kind."""
        shuffled = list(edits)
        random.shuffle(shuffled)
        kinds = list(dict.fromkeys(edit.kind for edit in shuffled))
        kinds.sort(key=lambda kind: self._kinds[kind])
        turns = [[edit for edit in shuffled if edit.kind == kind] for kind in kinds]
        longest = max(map(len, turns), default=0)
        return [turn[n] for n in range(longest) for turn in turns if n < len(turn)]


def _incorrect(candidate: SolvedSample, part: Part, fault: Critique, **changed: str) -> PoolExample:
    example = replace(
        candidate.example,
        part=part,
        polarity="incorrect",
        score=0.0,
        critique=fault.reason,
        **changed,  # type: ignore[arg-type]
    )
    return pool_example(example, fault_known=fault)
