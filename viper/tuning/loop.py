"""Learning from a set's samples: answer, judge, learn, continue.

`LearningLoop.run` takes item by item: the stored or a new answer (`_answered`), then the learner
(`_learn_from`), at once or in a thread (`_Worker`). `Reevaluator` answers a task again for the
learner.

The offline stage of CLOVA learns from labelled samples. The stream setting of its supplement
(sec. 9.2) does the same and counts the first answers. Answers are stored in a run's folder and
learning records in its journal. Both stay intact if the process is killed, and learning then
resumes. A worker thread can learn while further samples are answered: pools switch from one whole
version to the next, and every call of a tool sees one of them.

Source: CLOVA (Gao et al. 2024), algorithm 1.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import Any

from viper.data.sample import EditTarget, Sample
from viper.errors import CancelledError
from viper.evaluate.engines.sample_runner import Item, SampleRunner
from viper.evaluate.runs.learning_record import Journal, LearningRecord
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import Prediction, SampleResult
from viper.models.media import Media, media_from
from viper.reasoner import Reasoner, RunOptions
from viper.run_result import RunResult
from viper.schema import Trace
from viper.strategies.demonstration_pool import PoolExample
from viper.tuning.learner import Learner, LearningTask, ScoredAnswer, showing

# Tasks whose targets a reflector can compare answers with.
_REFLECTED = frozenset({"ground", "question", "choice", "statement", "tag"})

# Problem of an edit without an EditTarget: a metric only sees whether there is a picture.
UNJUDGED = (
    "nothing says what the edit must be; judge it yourself with: "
    "viper learn feedback RUN SAMPLE --answer yes (or no)"
)


@dataclass
class LearningProgress:
    """Progress of learning.

    Attributes:
        total: number of samples.
        answered: number of samples that were answered.
        learned: number of tasks with a learning record.
        score: sum of the first answers' scores.
        score_after: sum of the scores of the answers after learning from each task.
        updates: number of tool updates that added prompts to the pool.
        demonstrations: number of demonstrations added to the pool.
        concepts: number of prompts by tool and concept.
    """

    total: int
    answered: int = 0
    learned: int = 0
    score: float = 0.0
    score_after: float = 0.0
    updates: int = 0
    demonstrations: int = 0
    concepts: dict[str, int] = field(default_factory=dict)

    def count(self, record: LearningRecord) -> None:
        """Add a learning record to the sums."""
        self.learned += 1
        self.score_after += record.score_after
        self.demonstrations += len(record.demonstrations)
        for update in record.updates:
            if update.ids:
                self.updates += 1
                name = f"{update.tool}: {update.concept}" if update.concept else update.tool
                self.concepts[name] = self.concepts.get(name, 0) + len(update.ids)


@dataclass
class LearningLoop:
    """Answers items one after the other and learns from each.

    Args:
        runner: answers samples with the current tools and pools.
        learner: learns from the answers.
        store: store of the answers.
        journal: journal of the learning records.
        on_change: called with the progress after each answer and each learning record.
        on_record: called by the learning thread when the journal holds a new record.
    """

    runner: SampleRunner
    learner: Learner
    store: RunStore
    journal: Journal
    on_change: Callable[[LearningProgress], None] = lambda standing: None
    on_record: Callable[[], None] = lambda: None

    def run(
        self, items: Sequence[Item], cancel: threading.Event, *, background: bool = False
    ) -> LearningProgress:
        """Process the items in their order. Finished items are not repeated.

        Args:
            cancel: set it to end early; the next call repeats unfinished work.
            background: learn in a separate thread while the next items are answered.

        Raises:
            CancelledError: ``cancel`` was set.
            StoreError: a store or a pool cannot be written.
        """
        standing = LearningProgress(len(items))
        earlier_records = {record.key: record for record in self.journal.records()}
        for record in earlier_records.values():
            self.learner.note(record)
        worker = _Worker(self._learn_from, standing) if background else None
        try:
            for item in items:
                if cancel.is_set():
                    raise CancelledError("learning was cancelled")
                begun = self.store.row(*item.key) is not None
                result, trace = self._answered(item, cancel)
                standing.answered += 1
                standing.score += result.score
                earlier = earlier_records.get(item.key)
                if earlier is not None:
                    standing.count(earlier)
                elif worker is not None:
                    worker.give(item, result, trace)
                else:
                    # An interrupted process may already have changed the pools.
                    standing.count(self._learn_from(item, result, trace, stale=begun))
                self.on_change(standing)
            if worker is not None:
                worker.finish(cancel, lambda: self.on_change(standing))
        except BaseException:
            if worker is not None:
                # the thread stops after its current task
                worker.pool.shutdown(cancel_futures=True)
            raise
        return standing

    def _answered(self, item: Item, cancel: threading.Event) -> tuple[SampleResult, Trace | None]:
        """Return the item's result and trace from the store, or compute them."""
        result = self.store.row(*item.key)
        if result is not None:
            return result, self.store.read_trace(*item.key)
        done = self.runner.answer(item, cancel)
        if done is None:
            raise CancelledError("learning was cancelled")
        self.store.add(item.position, done.row, done.trace)
        return done.row, done.trace

    def _learn_from(
        self, item: Item, result: SampleResult, trace: Trace | None, stale: bool = False
    ) -> LearningRecord:
        """Learn from an answered item. The record is in the journal when this returns."""
        sample, runner = item.sample, self.runner

        def judge(run: RunResult) -> float:
            prediction = None
            if run.answer is not None:
                prediction = replace(Prediction.of(run.answer), picture=run.picture)
            return runner.metric.score(sample, prediction).value

        record = LearningRecord(sample.sample_id, item.seed, result.score, result.score)
        is_edit, desired = sample.task == "edit", desired_of(sample)
        if is_edit and desired is None:
            record = replace(record, problem=UNJUDGED)
        elif trace is not None:
            media, answered = media_from(sample.load()), ScoredAnswer(trace, result.score)
            rerun = Reevaluator(runner.reasoner, runner.options, media, trace, judge)
            # the pictures of an edit are not stored, so it runs again first
            stale = stale or is_edit
            task = LearningTask(media.for_run(), answered, rerun, desired, stale=stale)
            record = self.learner.learn(task)
        record = replace(record, sample_id=sample.sample_id, seed=item.seed)
        self.journal.add(record)
        self.on_record()
        return record


def desired_of(sample: Sample) -> Any:
    """Return the sample's label if a reflector can use it, else None."""
    if isinstance(sample.target, EditTarget):
        return sample.target.words
    return sample.target if sample.task in _REFLECTED else None


class _Worker:
    """Learns from one task after the other in a separate thread."""

    def __init__(self, learn: Callable[..., LearningRecord], standing: LearningProgress) -> None:
        self._learn, self._standing = learn, standing
        self.pool = ThreadPoolExecutor(1, "viper-learn")
        self._waiting: list[Future[None]] = []
        self._failed = False

    def give(self, item: Item, result: SampleResult, trace: Trace | None) -> None:
        """Queue another task to learn from. If an earlier one failed, raise its error."""
        self._settle()
        self._waiting.append(self.pool.submit(self._work, item, result, trace))

    def finish(self, cancel: threading.Event, on_change: Callable[[], None]) -> None:
        """Wait until every queued task is done. Raise the error that ended the thread, if any."""
        while self._waiting:
            wait(self._waiting[:1], timeout=0.2)  # short, so that Ctrl-C and progress are seen
            if cancel.is_set():
                raise CancelledError("learning was cancelled")
            self._settle()
            on_change()
        self.pool.shutdown()

    def _settle(self) -> None:
        """Forget the finished tasks. Raise the error of one that failed."""
        while self._waiting and self._waiting[0].done():
            self._waiting.pop(0).result()

    def _work(self, item: Item, result: SampleResult, trace: Trace | None) -> None:
        if self._failed:  # the error is raised in the queueing thread; nothing more is learned
            return
        try:
            self._standing.count(self._learn(item, result, trace, stale=True))
        except BaseException:
            self._failed = True
            raise


@dataclass(frozen=True)
class Reevaluator:
    """Answers the query of a trace; the ``rerun`` of a :class:`viper.tuning.learner.LearningTask`.

    Attributes:
        options: settings of every run; task, options, seed and sample id come from the trace.
        first: the trace.
        judge: returns the score of a run, in [0, 1].
    """

    reasoner: Reasoner
    options: RunOptions
    media: Media
    first: Trace
    judge: Callable[[RunResult], float]

    def __call__(self, program: str | None, demonstrations: Sequence[PoolExample]) -> ScoredAnswer:
        """Answer by this program, or by a newly written one.

        Args:
            program: the program to run; None writes a new one.
            demonstrations: examples for the prompt, placed before those of the pool.
        """
        reasoner, query = self.reasoner, self.first.query
        if demonstrations:
            reasoner = Reasoner(showing(reasoner.components, demonstrations), preload=False)
        options = self.options.changed(
            task=query.task, options=query.options, seed=self.first.seed, sample_id=query.sample_id
        )
        if program is None:
            result = reasoner.run(self.media, query.text, options)
            trace = result.trace
        else:
            result = reasoner.execute(program, self.media, query.text, options)
            # with the plan that the program was written from
            plan = next((trial.plan for trial in self.first.trials[::-1] if trial.plan), None)
            trials = tuple(replace(trial, plan=plan) for trial in result.trace.trials)
            trace = replace(result.trace, trials=trials)
        return ScoredAnswer(trace, self.judge(result), result.media)
