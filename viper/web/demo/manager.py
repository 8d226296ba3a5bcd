"""Answers visitors' questions and yields events as plain data, independent of any page.

Visitors ask at the same time. A stopped question ends its program and begins no further call,
program or trial. A model call that is under way cannot be interrupted and finishes first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from viper.errors import UsageError, ViperError
from viper.evaluate.engines.sample_runner import Item, ItemOutcome, SampleRunner
from viper.evaluate.metrics import metric
from viper.evaluate.sample_result import SampleResult
from viper.reasoner import Reasoner, RunOptions
from viper.schema import Failure, Trial
from viper.web.demo.demo_run import METRIC, SEED, DemoQuestion, DemoRun, RunOpener
from viper.web.demo.session import DemoMedia
from viper.web.trace_view import reason_of_trial

# Pictures and clips that stay decoded.
KEPT_MEDIA = 16

# Seconds between checks whether the models are loaded or the question was stopped.
_LOOK_S = 0.2


@dataclass(frozen=True)
class Status:
    """Step that is under way."""

    text: str


@dataclass(frozen=True)
class TrialEvent:
    """Trial that has ended.

    Attributes:
        number: number of the trial, from 1.
        came: reason for the trial, in words.
        failure: None if it gave an answer.
        seconds: time since the question was asked.
    """

    number: int
    came: str
    program: str
    failure: Failure | None
    calls: int
    seconds: float


@dataclass(frozen=True)
class AnswerEvent:
    """End of a question, with or without an answer. It is stored."""

    row: SampleResult
    seconds: float
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class StopEvent:
    """End of a question that the visitor stopped. Nothing is stored."""

    seconds: float


@dataclass(frozen=True)
class ErrorEvent:
    """End of a question that could not be asked, with the reason."""

    message: str


AskEvent = Status | TrialEvent | AnswerEvent | StopEvent | ErrorEvent


class SessionManager:
    """Answers the questions of all visitors with one profile and one strategy.

    Args:
        opener: loads the models and opens the run, at the latest with the first question.

    Attributes:
        name: names of the profile and the strategy.
    """

    def __init__(self, reasoner: Reasoner, opener: RunOpener, *, force: bool = False) -> None:
        self.reasoner, self.opener, self._force = reasoner, opener, force
        self.name = (reasoner.components.profile_name, opener.strategy)
        self._runner = SampleRunner.with_cache(
            reasoner, metric(METRIC), RunOptions(strategy=opener.strategy), size=KEPT_MEDIA
        )
        self._running: dict[str, threading.Event] = {}
        self._turn = threading.Lock()

    def ask(self, visitor: str, question: DemoQuestion) -> Iterator[AskEvent]:
        """Yield the events of a question. The last one is AnswerEvent, StopEvent or ErrorEvent.

        Args:
            visitor: the visitor, who may have one question at a time.
        """
        started = time.monotonic()
        try:
            with self._one_at_a_time(visitor) as cancel:
                self.opener.start()
                run = self.opener.wait(0)
                if run is None:
                    yield Status("loading models")
                    run = self._await_run(cancel)
                if run is not None:
                    yield Status("writing a program")
                    yield from self._answer(run, question, cancel, started)
                if cancel.is_set():
                    yield StopEvent(time.monotonic() - started)
        except ViperError as error:
            yield ErrorEvent(str(error))

    def again(self, sample_id: str, name: str) -> tuple[DemoMedia, list[AskEvent]]:
        """Return the media of an answered question under a display name, and its events.

        Raises:
            UsageError: no such question ran.
            MediaError: its picture is missing.
        """
        run = self.run()
        row, (trace, media) = run.row(sample_id), run.trace(sample_id)
        trials = zip(trace.trials, (None, *trace.trials), strict=False)
        return DemoMedia(run.store.folder / row.files[0], name, media), [
            *(_trial_event(trial, before, trial.seconds) for trial, before in trials),
            AnswerEvent(row, trace.seconds, tuple(each.text for each in trace.warnings)),
        ]

    def stop(self, visitor: str) -> bool:
        """Stop the visitor's question. Return False if none is being answered."""
        with self._turn:
            cancel = self._running.get(visitor)
        if cancel is not None:
            cancel.set()
        return cancel is not None

    def stop_all(self) -> None:
        """Stop the questions of all visitors."""
        with self._turn:
            running = list(self._running.values())
        for cancel in running:
            cancel.set()

    def run(self) -> DemoRun:
        """Return the run that stores the questions.

        Raises:
            UsageError: the run is not open yet.
        """
        run = self.opener.wait(0)
        if run is None:
            raise UsageError("models are still being loaded; nothing was answered yet")
        return run

    def _await_run(self, cancel: threading.Event) -> DemoRun | None:
        """Return the run once it is open, or None if the question is stopped first."""
        while not cancel.is_set():
            run = self.opener.wait(_LOOK_S)
            if run is not None:
                return run
        return None

    def _answer(
        self, run: DemoRun, question: DemoQuestion, cancel: threading.Event, started: float
    ) -> Iterator[AskEvent]:
        number, sample = run.numbered(question)
        before: Trial | None = None
        for event in self._runner.stream(Item(number, sample, SEED), cancel):
            seconds = time.monotonic() - started
            if isinstance(event, ItemOutcome):
                if event.row.failure == UsageError.code:
                    yield ErrorEvent(event.row.message or "the question cannot be asked")
                elif not cancel.is_set():
                    outcome = event if self._force else withheld(event)
                    warnings = outcome.trace.warnings if outcome.trace else ()
                    texts = tuple(each.text for each in warnings)
                    yield AnswerEvent(run.keep(outcome, sample, question), seconds, texts)
                return
            yield _trial_event(event, before, seconds)
            before = event

    @contextmanager
    def _one_at_a_time(self, visitor: str) -> Iterator[threading.Event]:
        cancel = threading.Event()
        with self._turn:
            if visitor in self._running:
                raise UsageError("a question of yours is still being answered; stop it first")
            self._running[visitor] = cancel
        try:
            yield cancel
        finally:
            with self._turn:
                del self._running[visitor]


def _trial_event(trial: Trial, before: Trial | None, seconds: float) -> TrialEvent:
    return TrialEvent(
        trial.index + 1,
        reason_of_trial(trial, before),
        trial.program,
        trial.failure if not trial.ok else None,
        len(trial.tool_calls),
        seconds,
    )


def withheld(outcome: ItemOutcome) -> ItemOutcome:
    """Return an outcome without its answer if the profile withholds it."""
    if outcome.trace is None:
        return outcome
    trace = outcome.trace.withheld()
    if trace is outcome.trace or trace.failure is None:
        return outcome
    failure = trace.failure
    row = replace(
        outcome.row, prediction=None, score=0.0, failure=failure.kind, message=failure.message
    )
    return replace(outcome, row=row, trace=trace)
