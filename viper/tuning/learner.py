"""The closed loop for one task: reflect on a wrong answer, update the part at fault, answer again.

`Learner.learn` counts the outcome for the demonstrations that were shown. Of a right answer it
keeps demonstrations. Of a wrong one, `_TaskSession.learn_from_wrong` asks the reflectors, then
tries a demonstration (`demonstrations_of`, shown by `showing`) or an update of a tool, answers
again, and repeats.

Source: CLOVA (Gao et al. 2024), sec. 3.3 and 3.4, algorithm 1. Differs: reflection and update
repeat until the task is solved, the error is not attributed, or a limit is reached. If reflection
blames the plan or program and a demonstration does not help, the concepts that the calls name are
tried too: a right program looks wrong to a reflector that does not know that a tool has never seen
the concept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from viper.agreement import is_correct
from viper.errors import StoreError, UsageError, ViperError
from viper.evaluate.runs.learning_record import LearningRecord, Update
from viper.models.media import Media
from viper.schema import Example, Query, ToolCall, Trace
from viper.strategies.base import Components
from viper.strategies.critique import Critique, CritiqueError
from viper.strategies.demonstration_pool import (
    DemonstrationPool,
    LearnedExamples,
    PoolExample,
    pool_example,
    without_pool,
)
from viper.strategies.examples import (
    PARTS,
    Demonstration,
    ExampleRequest,
    ExampleStore,
    SelectedExamples,
)
from viper.strategies.prompts import query_for_prompt
from viper.tuning.case import Case
from viper.tuning.reflector import Reflector
from viper.tuning.tool_updates import CallSource, ToolUpdates, has_learned


@dataclass(frozen=True)
class ExampleOrigin:
    """Fields of :class:`viper.schema.Example` about the origin of an example."""

    llm: str
    api_hash: str
    kind: str = ""
    set: str = ""
    split: str = ""


def demonstrations_of(
    trace: Trace, origin: ExampleOrigin, wrong: Critique | None = None
) -> list[PoolExample]:
    """Return the demonstrations that a task adds to the pool, none of them validated yet.

    A solved task adds its program and, if it made one, its plan, as correct. The list is empty if
    no program ran.

    Args:
        wrong: critique of the plan or program of an unsolved task, which adds this part with it.

    Raises:
        UsageError: a text is too long for a demonstration.
    """
    trial, query = trace.answering, query_for_prompt(trace.query)
    if trial is None:
        return []
    base = Example(
        query=query.text,
        program=trial.program,
        task=query.task,
        api=trace.api,
        score=1.0,
        sample_id=trace.query.sample_id or "",
        seed=trace.seed,
        plan=trial.plan,
        options=query.options,
        **vars(origin),
    )
    if wrong is not None:
        base = replace(base, polarity="incorrect", critique=wrong.reason, score=0.0)
    parts = [part for part in PARTS if wrong is None or wrong.location == part]
    parts = [part for part in parts if part == "program" or trial.plan]
    return [pool_example(replace(base, part=part)) for part in parts]


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
        merged = []
        for polarity, others, count in (
            ("correct", rest.correct, request.correct),
            ("incorrect", rest.incorrect, request.incorrect),
        ):
            first = [
                Demonstration(item.id, item.example)
                for item in self._on_trial
                if (item.example.part, item.example.polarity) == (request.part, polarity)
                and item.example.task == request.task
            ]
            merged.append([*first, *(item for item in others if item.id not in trial_ids)][:count])
        return SelectedExamples(*merged)


def showing(components: Components, demonstrations: Sequence[PoolExample]) -> Components:
    """Return the same components with demonstrations that come before those of the pool."""
    trials = TrialPool(demonstrations, components.demonstrations)
    examples = LearnedExamples(trials, without_pool(components.examples))
    return replace(components, demonstrations=trials, examples=examples)


@dataclass(frozen=True)
class LearnSettings:
    """Settings for learning demonstrations from a task.

    Attributes:
        correct, incorrect: keep demonstrations of that polarity.
        validate: keep only demonstrations that solve their own task when they are shown.
    """

    correct: bool = True
    incorrect: bool = True
    validate: bool = True


@dataclass(frozen=True)
class ScoredAnswer:
    """One answer with its score.

    Attributes:
        media: media of the run with its edited pictures; None for an answer from a store.
    """

    trace: Trace
    score: float
    media: Media | None = None

    @property
    def solved(self) -> bool:
        return is_correct(self.score)


@dataclass(frozen=True)
class LearningTask:
    """A task that was answered, with the feedback on it.

    Attributes:
        media: media of the query.
        answered: the first answer.
        rerun: answers once more with the current tools and pools. Its arguments are a program, or
            None to write a new one, and demonstrations to show before those of the pool.
        desired: the desired answer; None if it is not known.
        comment: feedback in words.
        stale: whether tools may have learned since the first answer. The program is then tried
            again first.
    """

    media: Media
    answered: ScoredAnswer
    rerun: Callable[[str | None, Sequence[PoolExample]], ScoredAnswer]
    desired: Any = None
    comment: str = ""
    stale: bool = False


@dataclass
class Learner:
    """Learns from one task after another. Not for several threads at once.

    Args:
        updates: updates tools; None trains no tools.
        reflectors: reflectors in order. The next one is asked if a reflector attributes nothing, or
            if the resulting update did not help. CLOVA's order is global, then local.
        pool: pool of demonstrations.
        origin: origin that new demonstrations record.
        on_step: called with a description of each step.
    """

    updates: ToolUpdates | None
    reflectors: Sequence[Reflector]
    pool: DemonstrationPool
    settings: LearnSettings = LearnSettings()
    origin: ExampleOrigin = ExampleOrigin("", "")
    on_step: Callable[[str], None] = lambda text: None

    def note(self, record: LearningRecord) -> None:
        """Count the updates that an earlier process tried."""
        if self.updates is not None:
            for update in record.updates:
                self.updates.attempts[update.key] = self.updates.attempts.get(update.key, 0) + 1

    def learn(self, task: LearningTask) -> LearningRecord:
        """Learn from a task. The pools are updated when this returns.

        Raises:
            StoreError: a pool cannot be written.
            CancelledError: the training was cancelled; the pools are intact.
        """
        started = time.perf_counter()
        trials = task.answered.trace.trials
        shown_ids = [id_ for trial in trials for id_ in trial.demonstrations]
        self.pool.record_outcome(shown_ids, task.answered.solved)
        session = _TaskSession(self, task)
        if task.answered.solved:
            session.learn_from_right()
        elif task.answered.trace.answering and (task.desired is not None or task.comment):
            session.learn_from_wrong()
        return replace(session.record(), seconds=round(time.perf_counter() - started, 3))


class _TaskSession:
    """Learning from one task."""

    def __init__(self, learner: Learner, task: LearningTask) -> None:
        self._learner, self._task, self._settings = learner, task, learner.settings
        self._now = task.answered
        self._critiques: list[Critique] = []
        self._updates: list[Update] = []
        self._demonstrations: list[str] = []
        self._refused = 0
        self._problem = ""

    @property
    def _source(self) -> CallSource:
        query = self._task.answered.trace.query
        media = self._now.media or self._task.media
        return CallSource(media, query.sample_id or query.text[:200])

    def record(self) -> LearningRecord:
        """Return the learning record so far."""
        trace = self._task.answered.trace
        return LearningRecord(
            sample_id=trace.query.sample_id or "",
            seed=trace.seed,
            score=self._task.answered.score,
            score_after=self._now.score,
            desired=self._task.desired,
            comment=self._task.comment,
            critiques=tuple(self._critiques),
            updates=tuple(self._updates),
            demonstrations=tuple(self._demonstrations),
            refused=self._refused,
            problem=self._problem,
        )

    def learn_from_right(self) -> None:
        """Learn demonstrations and retention cases from a right answer.

        Demonstrations come from the plan and the program, retention cases from VQA answers.
        """
        if self._settings.correct:
            self._demonstrate()
        if self._learner.updates is not None:
            try:
                self._learner.updates.keep_right_answers(self._source, _calls(self._now.trace))
            except StoreError:
                raise
            except ViperError as error:
                self._problem = str(error)

    def learn_from_wrong(self) -> None:
        """Reflect, update and answer again, until the answer is right or nothing is learned."""
        if self._task.stale:
            self._now = self._task.rerun(_program(self._now.trace), ())
        updates, has_critique = self._learner.updates, False
        rounds = 1 if updates is None else 1 + updates.settings.updates
        for round_ in range(rounds):
            if self._now.solved:
                break
            critique = self._reflect(round_)
            if critique is not None and critique.location in ("plan", "program"):
                if self._settings.incorrect and not has_critique:
                    self._demonstrate(critique)
                if self._now.solved:
                    break
                has_critique, critique = True, None
            if updates is None or round_ == rounds - 1:
                break
            done = updates.update(self._source, critique, _calls(self._now.trace))
            self._updates += done
            if not has_learned(done):
                break
            self._now = self._task.rerun(_program(self._now.trace), ())
        if self._now.solved and self._settings.correct:
            self._demonstrate()

    def _reflect(self, round_: int) -> Critique | None:
        """Return the first critique of the current answer that attributes the error, or None."""
        task, reflectors = self._task, self._learner.reflectors
        case = Case.of(self._now.trace, self._source.media, task.desired, task.comment)
        if case is None:
            return None
        for reflector in reflectors[round_:] or reflectors[-1:]:
            self._learner.on_step("reflecting")
            try:
                critique = reflector.reflect(case)
            except CritiqueError as error:
                critique = Critique("none", None, f"the reflection says nothing: {error}"[:600])
            self._critiques.append(critique)
            if critique.speaks:
                return critique
        return None

    def _demonstrate(self, wrong: Critique | None = None) -> None:
        """Add the task's demonstrations if showing them solves their own query."""
        learner = self._learner
        try:
            made = demonstrations_of(self._now.trace, learner.origin, wrong)
        except UsageError as error:
            self._problem = str(error)
            return
        pool_ids = {item.id for item in learner.pool.items()}
        demonstrations = [item for item in made if item.id not in pool_ids]
        if demonstrations and self._settings.validate:
            learner.on_step("trying a demonstration")
            answered = self._task.rerun(None, demonstrations)
            if not answered.solved:
                self._refused += len(demonstrations)
                return
            if not self._now.solved:
                self._now = answered
            on = self._source.name
            demonstrations = [replace(item, validated_on=on) for item in demonstrations]
        self._demonstrations += learner.pool.add(demonstrations)


def _program(trace: Trace) -> str | None:
    trial = trace.answering
    return None if trial is None else trial.program


def _calls(trace: Trace) -> tuple[ToolCall, ...]:
    trial = trace.answering
    return () if trial is None else trial.tool_calls
