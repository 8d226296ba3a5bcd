"""Faults planted into plans and programs that answered right: demonstrations of what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from viper.ace.critique import Critique
from viper.ace.pooled import Pooled, pooled
from viper.data.sample import Sample
from viper.evaluate.tryout import Tryout
from viper.schema import Example
from viper.strategies.examples import PARTS, Part
from viper.tuning.plan_edits import EditedPlan, edited_plans
from viper.tuning.program_edits import EditedProgram, Vocabulary, edited_programs, program_fault

PROGRAMS_TRIED, PLANS_TRIED = 24, 4
"""Faults tried in one program or plan; each plan takes a request."""

MISLEADING = 3
"""Faults of one sample that may mislead its own instruction before another is taken."""

Words = Sequence[Sequence[str]]
"""Families of words that exclude each other."""

_E = TypeVar("_E", EditedPlan, EditedProgram)


@dataclass(frozen=True)
class Wish:
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
class Solved:
    """A labelled sample that was answered right, with what that leaves in a pool."""

    sample: Sample
    demonstrations: tuple[Pooled, ...]

    @property
    def example(self) -> Example:
        """That of its program, which has the plan, too."""
        return self.demonstrations[-1].example


class Planting:
    """Faults in what was right, of ever other kinds."""

    def __init__(self, wish: Wish, tryout: Tryout) -> None:
        self._wish, self._tryout = wish, tryout
        self._kinds: Counter[str] = Counter()
        self._taken: set[str] = set()

    def faults(self, solved: Sequence[Solved]) -> Iterator[Pooled]:
        """As many as are wished for, a sample each; where samples run out, further ones of them."""
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

    def _fault(self, one: Solved, part: Part) -> Pooled | None:
        """A fault of one part that makes the answer wrong and does not mislead when it is shown."""
        misleading = 0
        for kind, planted in self._harmful(one, part):
            if planted.id in self._taken:
                continue
            if self._tryout.shows_incorrect:
                outcome = self._tryout.with_demonstrations(one.sample, [planted])
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

    def _harmful(self, one: Solved, part: Part) -> Iterator[tuple[str, Pooled]]:
        """Faults that answer wrong, those of kinds that were planted less often first."""
        random = Random(f"{self._wish.seed}-{part}-{one.sample.sample_id}")
        return self._in_plan(one, random) if part == "plan" else self._in_program(one, random)

    def _in_program(self, one: Solved, random: Random) -> Iterator[tuple[str, Pooled]]:
        program = one.example.program
        wrong = edited_programs(program, Vocabulary(self._wish.families))
        for edited in self._in_turn(wrong, random)[:PROGRAMS_TRIED]:
            if self._tryout.of_program(one.sample, edited.program).verdict != "wrong":
                continue
            said = program_fault(edited.kind, program, edited.program)
            fault = Critique("program", None, said, program)
            yield edited.kind, _incorrect(one, "program", fault, program=edited.program)

    def _in_plan(self, one: Solved, random: Random) -> Iterator[tuple[str, Pooled]]:
        plan = one.example.plan
        if plan is None:
            return
        for edited in self._in_turn(edited_plans(plan, self._wish.families), random)[:PLANS_TRIED]:
            outcome = self._tryout.of_plan(one.sample, edited.plan)
            if outcome.verdict != "wrong":
                continue
            fault = Critique("plan", None, edited.said, plan)
            changed = {"plan": edited.plan, "program": outcome.program}
            yield edited.kind, _incorrect(one, "plan", fault, **changed)

    def _in_turn(self, edits: Sequence[_E], random: Random) -> list[_E]:
        """Kinds take turns, the ones planted less often first; within a kind at random."""
        shuffled = list(edits)
        random.shuffle(shuffled)
        kinds = list(dict.fromkeys(one.kind for one in shuffled))
        kinds.sort(key=lambda kind: self._kinds[kind])
        turns = [[one for one in shuffled if one.kind == kind] for kind in kinds]
        longest = max(map(len, turns), default=0)
        return [turn[n] for n in range(longest) for turn in turns if n < len(turn)]


def _incorrect(one: Solved, part: Part, fault: Critique, **changed: str) -> Pooled:
    example = replace(
        one.example,
        part=part,
        polarity="incorrect",
        score=0.0,
        critique=fault.reason,
        **changed,  # type: ignore[arg-type]
    )
    return pooled(example, fault_known=fault)
