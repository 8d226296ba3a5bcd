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
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest
from random import Random

from viper.ace.mining import ExampleSource
from viper.ace.select import diverse
from viper.agreement import is_correct
from viper.api.spec import api_hash
from viper.data.sample import Sample, kind_of
from viper.errors import UsageError
from viper.evaluate.runs.store import RunStore
from viper.schema import Example
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
    solved = []
    for result in store.rows():
        if result.failure is not None or not is_correct(result.score):
            continue
        trace = store.read_trace(result.sample_id, result.seed)
        if trace is None:
            continue
        sample = by_id[result.sample_id]
        entries = source.library.api_set(source.api).entries(query_for_prompt(sample.query).task)
        origin = ExampleOrigin(
            source.llm,
            api_hash(entries),
            kind_of(sample.groups),
            source.evaluation.set_name,
            source.evaluation.spec.split or "",
        )
        with suppress(UsageError):  # too long for a demonstration
            examples = demonstrations_of(trace, origin)
            if examples:
                solved.append(SolvedSample(sample, tuple(examples)))
    return solved


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
        by_id = {candidate.sample.sample_id: candidate for candidate in of_task}
        ordered = [by_id[each.sample_id] for each in diverse(each.example for each in of_task)]
        chosen = []
        try:
            for candidate in ordered:
                if examples.samples == targets.correct:
                    break
                shown = candidate.demonstrations
                outcome = validation.with_demonstrations(candidate.sample, shown)
                if outcome.verdict == "right" and outcome.shown:
                    on = candidate.sample.sample_id
                    examples.correct += [replace(each, validated_on=on) for each in shown]
                    examples.samples += 1
                    chosen.append(candidate)
                    on_found(f"{task}: correct")
            others = [candidate for candidate in ordered if candidate not in chosen]
            for fault in FaultSearch(targets, validation).faults([*others, *chosen]):
                examples.incorrect.append(fault)
                on_found(f"{task}: incorrect")
        except BudgetSpentError:
            examples.stopped = True
            break
    return tasks


# Most faults to try in one program or plan. A program only runs again; each plan takes a request.
PROGRAMS_TRIED, PLANS_TRIED = 24, 4

# Faults of one sample that may mislead its own instruction before the search skips the sample: each
# costs a request, and the next ones are likely to mislead too.
MISLEADING = 3


@dataclass(frozen=True)
class Targets:
    """Number of demonstrations to find for each task in which the model is prompted.

    Attributes:
        correct: number of solved samples. Each adds its program, and its plan if there is one.
        incorrect: number of faults, alternately in plans and programs if there are plans.
        seed: random seed for choosing faults.
        families: families of words that exclude each other, which faults may exchange.
    """

    correct: int = 8
    incorrect: int = 8
    seed: int = 0
    families: Sequence[Sequence[str]] = ()


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
        """Yield faults that make the answer wrong, with their kinds.

        Kinds take turns, rarer ones first; edits of one kind come in random order.
        """
        right, families = candidate.example, self._targets.families
        base = replace(right, part=part, polarity="incorrect", score=0.0)
        edits: list[EditedPlan | EditedProgram] = []
        if part == "program":
            edits += edited_programs(right.program, Vocabulary(families))
        elif right.plan is not None:
            edits += edited_plans(right.plan, families)
        Random(f"{self._targets.seed}-{part}-{candidate.sample.sample_id}").shuffle(edits)
        kinds = sorted(dict.fromkeys(edit.kind for edit in edits), key=self._kinds.__getitem__)
        turns = zip_longest(*([edit for edit in edits if edit.kind == kind] for kind in kinds))
        in_turn = (edit for turn in turns for edit in turn if edit is not None)
        for edit in islice(in_turn, PROGRAMS_TRIED if part == "program" else PLANS_TRIED):
            if isinstance(edit, EditedProgram):
                outcome = self._validation.of_program(candidate.sample, edit.program)
                reason = program_fault(edit.kind, right.program, edit.program)
                fault = Critique("program", None, reason, right.program)
                wrong = replace(base, program=edit.program, critique=reason)
            else:
                outcome = self._validation.of_plan(candidate.sample, edit.plan)
                fault = Critique("plan", None, edit.fault, right.plan)
                wrong = replace(base, plan=edit.plan, program=outcome.program, critique=edit.fault)
            if outcome.verdict == "wrong":
                yield edit.kind, pool_example(wrong, fault_known=fault)
