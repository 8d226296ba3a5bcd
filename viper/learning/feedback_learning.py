"""Learning from what people said of a run's answers, once or as they say it.

The deployment that CLOVA proposes: answers are given and remarked on in one process (``viper
demo``, ``viper view``), another one learns from the remarks; pools switch from one whole version
to the next, and the first process uses what the second has learned.

Source: CLOVA (Gao et al. 2024), sec. 3.3 (human feedback).
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from viper.errors import CancelledError, UsageError, ViperError
from viper.evaluate.runs.samples import samples_of_run
from viper.evaluate.runs.store import RunStore
from viper.learning.feedback import COMMENT_ALONE, FEEDBACK, Feedback, read_feedback
from viper.learning.loop import LearningProgress, Reevaluator
from viper.models.media import media_from
from viper.reasoner import Reasoner, RunOptions
from viper.record import record_from_json
from viper.schema import Answer, Trace
from viper.storage.json_lines import append_line, dumps, read_lines
from viper.tuning.case import Case, is_desired
from viper.tuning.learner import Learner, ScoredAnswer, Task
from viper.tuning.learning_record import Journal

POLL_S = 1.0
"""Between two looks whether somebody said something."""


@dataclass
class FeedbackLearning:
    """Learns from the remarks in a run's folder; lessons go into the run's journal.

    Args:
        reasoner: answers again, with what was learned.
        options: settings of those answers.
        learned: which remarks were learned from, in any run.
        root: folder of the set's official files.
        on_change: told how far it is, after each lesson.
        on_unreadable: told of remarks that no case can be made of, once each.

    Attributes:
        standing: how far it is.
    """

    folder: Path
    reasoner: Reasoner
    options: RunOptions
    learner: Learner
    learned: LearnedRemarks
    root: Path | None = None
    on_change: Callable[[LearningProgress], None] = lambda standing: None
    on_unreadable: Callable[[Unreadable], None] = lambda unreadable: None
    standing: LearningProgress = field(default_factory=lambda: LearningProgress(0))
    _told: set[Unreadable] = field(default_factory=set)

    def run(self, cancel: threading.Event, *, follow: bool = False) -> None:
        """Learn from the remarks that were not learned from, the oldest first.

        Args:
            cancel: set it to end; what was begun is done again next time.
            follow: wait for more remarks until ``cancel`` is set, and end without an error then.

        Raises:
            CancelledError: ``cancel`` was set while there was something to learn.
            StoreError: a store or a pool cannot be read or written.
            DataError: files of the set are missing or broken.
        """
        journal = Journal(self.folder)
        for lesson in journal.lessons():
            self.learner.note(lesson)
        seen = self._state()
        self._once(journal, cancel)
        while follow and not cancel.wait(POLL_S):
            now = self._state()
            if now != seen:
                seen = now
                self._once(journal, cancel)

    def _state(self) -> tuple[int, int] | None:
        """Return a value that changes with every new remark."""
        try:
            stat = (self.folder / FEEDBACK).stat()
        except FileNotFoundError:
            return None
        return stat.st_size, stat.st_mtime_ns

    def _once(self, journal: Journal, cancel: threading.Event) -> None:
        with RunStore.read(self.folder) as store:
            for one in feedback_cases(store, self.learned, root=self.root):
                if cancel.is_set():
                    raise CancelledError("learning was cancelled")
                if isinstance(one, Unreadable):
                    if one not in self._told:
                        self._told.add(one)
                        self.on_unreadable(one)
                    continue
                self._learn_from(one, journal)
                self.on_change(self.standing)

    def _learn_from(self, one: FeedbackCase, journal: Journal) -> None:
        case, score = one.case, float(one.right)

        def judge(answer: Answer | None) -> float:
            return float(is_desired(answer, case.desired, case.query.task))

        again = Reevaluator(self.reasoner, self.options, case.media, one.trace, judge)
        answered = ScoredAnswer(one.trace, score)
        task = Task(case.media.for_run(), answered, again, case.desired, case.comment, stale=True)
        self.standing.total += 1
        self.standing.answered += 1
        self.standing.score += score
        lesson = replace(self.learner.learn(task), sample_id=one.sample_id, seed=one.seed)
        journal.add(lesson)
        self.learned.add(one.remarks)
        self.standing.count(lesson)


LEARNED = "learned-feedback.jsonl"
"""Name of the file, in the state's folder, that notes which remarks were learned from."""


@dataclass(frozen=True)
class _Learned:
    remark: str


class LearnedRemarks:
    """Ids of the remarks that were learned from; several processes may add at once.

    Args:
        path: of the file; need not exist.

    Raises:
        StoreError: the file cannot be read, or is something else.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ids = {one.remark for one in read_lines(path, _Learned, "the id of a remark")}

    def __contains__(self, remark: str) -> bool:
        return remark in self._ids

    def add(self, remarks: Sequence[str]) -> None:
        """Mark these remarks as learned from. The mark is on disk when this returns.

        Raises:
            StoreError: it cannot be written.
        """
        for one in remarks:
            if one not in self._ids:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                append_line(self._path, _Learned(one))
                self._ids.add(one)


@dataclass(frozen=True)
class FeedbackCase:
    """One answer with all that was said of it.

    Attributes:
        trace: of the run that answered.
        case: with the last right answer that somebody gave, and all comments.
        remarks: ids, for :meth:`LearnedRemarks.add`.
        right: whether the desired answer is the one that was given.
    """

    sample_id: str
    seed: int
    trace: Trace
    case: Case
    remarks: tuple[str, ...]
    right: bool


@dataclass(frozen=True)
class Unreadable:
    """An answer with remarks from which no case can be made, and why."""

    sample_id: str
    seed: int
    why: str


def feedback_cases(
    store: RunStore, learned: LearnedRemarks, *, root: Path | None = None
) -> Iterator[FeedbackCase | Unreadable]:
    """Return the answers of a run with remarks that were not learned from, ordered by their first
    remark.

    All remarks about an answer are one case: who corrects a remark is believed in the end. Comments
    without a right answer are no case. Media are read one case at a time.

    Source: CLOVA (Gao et al. 2024), sec. 3.3: human feedback is the desired answer or a comment.
    Differs: a comment is read beside a desired answer only, since nothing else can tell whether
    what was learned helped.

    Args:
        root: folder of the set's official files.

    Raises:
        StoreError: the remarks or the run cannot be read.
        DataError: files of the set are missing or broken.
    """
    remarks_by_answer: dict[tuple[str, int], list[Feedback]] = {}
    for one in read_feedback(store.folder):
        remarks_by_answer.setdefault((one.sample_id, one.seed), []).append(one)
    new = {
        key: remarks
        for key, remarks in remarks_by_answer.items()
        if any(remark_id(store, one) not in learned for one in remarks)
    }
    samples = samples_of_run(store, root, [name for name, _ in new]) if new else {}
    for (name, seed), remarks in new.items():
        answers = [one.answer for one in remarks if one.answer is not None]
        comments = dict.fromkeys(filter(None, (one.comment.strip() for one in remarks)))
        try:
            if not answers:
                raise UsageError(COMMENT_ALONE)
            values = store.trace(name, seed)
            if values is None or name not in samples:
                raise UsageError("its trace or its picture is not there")
            media = media_from(samples[name].load())
            trace = record_from_json(Trace, values)
            case = Case.of(trace, media, answers[-1], "\n".join(comments), trace.plan or "")
            if case is None:
                raise UsageError("no program was written for it")
        except (ViperError, OSError, TypeError) as error:
            yield Unreadable(name, seed, str(error))
            continue
        ids = tuple(remark_id(store, one) for one in remarks)
        right = is_desired(case.answer, case.desired, case.query.task)
        yield FeedbackCase(name, seed, trace, case, ids, right)


def remark_id(store: RunStore, remark: Feedback) -> str:
    """Return the id of a remark. The same words about another run get another id."""
    run = (store.manifest.created, store.manifest.fingerprint)
    content: list[Any] = [
        remark.sample_id,
        remark.seed,
        remark.answer,
        remark.comment,
        remark.given,
    ]
    return hashlib.sha256(dumps([*run, *content]).encode("utf-8", "replace")).hexdigest()[:16]
