"""Answers visitors' questions, stores them as a run, and yields events, independent of any page.

:class:`RunOpener` loads the models and opens the run at the first question. :meth:`SessionManager.
ask` yields what happens until the answer, which :class:`DemoRun` keeps as an evaluation keeps its
samples.

Visitors ask at the same time. A stopped question ends its program and begins no further call,
program or trial. A model call that is under way cannot be interrupted and finishes first.
"""

from __future__ import annotations

import hashlib
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from viper.data.sample import Sample
from viper.errors import UsageError, ViperError
from viper.evaluate.engines.sample_runner import Item, ItemOutcome, SampleRunner
from viper.evaluate.evaluation import model_ids
from viper.evaluate.metrics import metric
from viper.evaluate.runs.feedback import give_feedback
from viper.evaluate.runs.manifest import Manifest, SetDescription, samples_hash
from viper.evaluate.runs.store import (
    KEPT_SET,
    MANIFEST,
    MEDIA,
    RunStore,
    check_free,
    kept_sample,
    read_manifest,
)
from viper.evaluate.sample_result import SampleResult
from viper.models.media import Media, media_from
from viper.reasoner import Reasoner, RunOptions
from viper.schema import Failure, PixelBox, Query, Trace, Trial
from viper.serve.jobs import Loading
from viper.storage.files import file_errors
from viper.strategies.tasks import resolve_task
from viper.web.demo.session import DemoMedia
from viper.web.trace_view import reason_of_trial

# Pictures and clips that stay decoded: those that a few visitors ask about again.
KEPT_MEDIA = 16

# Seconds between checks whether the models are loaded or the question was stopped: nobody notices
# the wait, and it costs no processor time.
_LOOK_S = 0.2


# Without labels, the score only says whether there was an answer.
METRIC = "answered"

# A question is asked once; to ask it again is another question.
SEED = 0


@dataclass(frozen=True)
class DemoQuestion:
    """Question of a visitor: media, query, the options of a choice, and boxes of examples."""

    about: DemoMedia
    text: str
    options: tuple[str, ...] = ()
    like: tuple[PixelBox, ...] = ()


class DemoRun:
    """Store of questions and answers. Threads may share it.

    Attributes:
        store: store of the run's results.
    """

    def __init__(self, store: RunStore) -> None:
        self.store = store
        names = (sample_id.removeprefix(f"{KEPT_SET}-") for sample_id, _ in store.done())
        self._last = max((int(name) for name in names if name.isdecimal()), default=0)
        self._turn = threading.Lock()

    @classmethod
    def open(
        cls, folder: Path, reasoner: Reasoner, document: Mapping[str, Any], strategy: str
    ) -> DemoRun:
        """Open the run of a folder, new or continued. This loads the models for their ids.

        Args:
            document: the profile as JSON values.

        Raises:
            UsageError: the folder holds other files, or a run with other settings.
            StoreError: the folder cannot be written, or another process writes to it.
        """
        check_folder(folder)
        components = reasoner.components
        settings = components.settings.flat()
        api = settings.pop("api")
        for name in ("seed", "strategy"):  # of the run, below
            del settings[name]
        manifest = Manifest(
            set=SetDescription(KEPT_SET, None, SEED, None, 0, samples_hash(())),
            metric=METRIC,
            seeds=(SEED,),
            strategy=strategy,
            api=api,
            settings=settings,
            profile=components.profile_name,
            document=document,
            models=model_ids(reasoner),
            routines=components.library.stored(),
        )
        return cls(RunStore.resume(folder, manifest))

    def numbered(self, question: DemoQuestion) -> tuple[int, Sample]:
        """Assign the next number to a question. Return the number and the question's sample."""
        with self._turn:
            self._last += 1
            number = self._last
        about = question.about
        with file_errors(about.path), about.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
        return number, Sample(
            f"{KEPT_SET}-{number}",
            question.text,
            task="auto",
            media=about.media.kind,
            target=None,
            load=lambda: about.media,
            options=question.options,
            like=question.like,
            files=(f"{MEDIA}/{digest}{about.path.suffix}",),
        )

    def keep(self, done: ItemOutcome, sample: Sample, question: DemoQuestion) -> SampleResult:
        """Store an answered question and a copy of its picture. Return the result.

        Raises:
            StoreError: a file cannot be written.
        """
        target = self.store.folder / sample.files[0]
        with file_errors(target):
            target.parent.mkdir(exist_ok=True)
            if not target.exists():
                part = target.with_name(f".{sample.sample_id}.part")
                shutil.copyfile(question.about.path, part)
                part.replace(target)
        query = Query(sample.text, "auto", sample.media, sample.options)
        task = done.trace.task if done.trace else resolve_task(query)[0]
        result = replace(done.row, task=task)
        self.store.add(done.position, result, done.trace)
        return result

    def note(self, sample_id: str, answer: str, comment: str) -> None:
        """Store the right answer or a comment, as ``viper learn feedback`` does.

        Raises:
            UsageError: both are empty, or the answer does not fit the question's task.
            StoreError: the file cannot be written.
        """
        give_feedback(self.store.folder, self.row(sample_id), answer.strip(), comment.strip())

    def row(self, sample_id: str) -> SampleResult:
        """Return the result of an answered question.

        Raises:
            UsageError: no answered question has this id.
        """
        result = self.store.row(sample_id, SEED)
        if result is None:
            raise UsageError(f"no question {sample_id!r} was answered here")
        return result

    def trace(self, sample_id: str) -> tuple[Trace, Media]:
        """Return the trace and the media of an answer.

        Raises:
            UsageError: there is no such answer.
            MediaError: its picture is missing.
        """
        result, trace = self.row(sample_id), self.store.read_trace(sample_id, SEED)
        if trace is None:
            raise UsageError(f"nothing ran for {sample_id!r}")
        return trace, media_from(kept_sample(self.store.folder, result).load())


def check_folder(folder: Path) -> None:
    """Check that the demo's run may begin or continue in a folder.

    Raises:
        UsageError: the folder holds other files, or the run of a data set.
        StoreError: the folder cannot be read.
    """
    if not (folder / MANIFEST).is_file():
        check_free(folder)
    elif read_manifest(folder).set.name != KEPT_SET:
        raise UsageError(f"{folder}: holds the run of a data set; choose another --out")


class RunOpener(Loading[DemoRun]):
    """Loads the models and opens the run."""

    def __init__(
        self,
        reasoner: Reasoner,
        folder: Path,
        document: Mapping[str, Any],
        strategy: str = "program",
    ) -> None:
        super().__init__(self._open)
        self.strategy, self.folder = strategy, folder
        self._reasoner, self._document = reasoner, document

    def close(self) -> None:
        """Close the run, so that another process can write to its folder."""
        if self.state == "ready" and (run := self.wait(0)):
            run.store.close()

    def _open(self) -> DemoRun:
        self._reasoner.components.load()
        return DemoRun.open(self.folder, self._reasoner, self._document, self.strategy)


@dataclass(frozen=True)
class Status:
    """Step that is under way."""

    text: str


@dataclass(frozen=True)
class TrialEvent:
    """Trial that has ended.

    Attributes:
        came: reason for the trial, in words.
        seconds: time since the question was asked.
    """

    trial: Trial
    came: str
    seconds: float

    @property
    def failure(self) -> Failure | None:
        """Return why it gave no answer, or None."""
        return None if self.trial.ok else self.trial.failure


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
                while run is None and not cancel.is_set():
                    run = self.opener.wait(_LOOK_S)
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
        events = [TrialEvent(t, reason_of_trial(t, before), t.seconds) for t, before in trials]
        answer = AnswerEvent(row, trace.seconds, tuple(each.text for each in trace.warnings))
        shown = DemoMedia(run.store.folder / row.files[0], name, media)
        return shown, [*events, answer]

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
            for cancel in self._running.values():
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
                    row = run.keep(outcome, sample, question)
                    warnings = outcome.trace.warnings if outcome.trace else ()
                    yield AnswerEvent(row, seconds, tuple(each.text for each in warnings))
                return
            yield TrialEvent(event, reason_of_trial(event, before), seconds)
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


def withheld(outcome: ItemOutcome) -> ItemOutcome:
    """Return an outcome without its answer if the profile withholds it."""
    trace = outcome.trace.withheld() if outcome.trace else None
    if trace is None or trace is outcome.trace or (failure := trace.failure) is None:
        return outcome
    row = replace(outcome.row, prediction=None, score=0.0)
    row = replace(row, failure=failure.kind, message=failure.explained)
    return replace(outcome, row=row, trace=trace)
