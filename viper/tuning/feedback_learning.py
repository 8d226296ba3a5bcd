"""Learning from feedback on a run's answers, once or continuously.

`FeedbackLearning.run` makes a case of all unused remarks about an answer (`feedback_cases`), gives
it to the learner, writes the record, and marks the remarks as used.

This is the deployment that CLOVA proposes. One process answers and collects remarks (``viper
demo``, ``viper view``), another process learns from them. Pools switch from one whole version to
the next, so the first process uses what the second has learned.

Source: CLOVA (Gao et al. 2024), sec. 3.3 (human feedback).
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from viper.errors import CancelledError, UsageError, ViperError
from viper.evaluate.runs.feedback import COMMENT_ALONE, FEEDBACK, Feedback, read_feedback
from viper.evaluate.runs.learning_record import Journal
from viper.evaluate.runs.store import RunStore, samples_of_run
from viper.models.media import media_from
from viper.reasoner import Reasoner, RunOptions
from viper.run_result import RunResult
from viper.schema import Trace
from viper.storage.json_lines import append_line, dumps, read_lines
from viper.strategies.answers import is_desired
from viper.tuning.case import Case
from viper.tuning.language_reflector import LanguageReflector
from viper.tuning.learner import Learner, LearningTask, ScoredAnswer
from viper.tuning.loop import LearningProgress, Reevaluator

# Seconds between two checks for new remarks: a check is one `stat`, and learning takes far longer.
POLL_S = 1.0

# Comment for the reflector where a person only said no.
NO = "this is not right"


@dataclass
class FeedbackLearning:
    """Learns from the remarks in a run's folder and writes records to the run's journal.

    Args:
        reasoner: answers again with the updated tools and pools.
        options: settings of those answers.
        learned: ids of the remarks, of any run, that were already used.
        root: folder of the set's official files.
        on_change: called with the progress after each learning record.
        on_unreadable: called once for each answer with remarks that cannot be used.

    Attributes:
        standing: the progress.
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
    _reported: set[Unreadable] = field(default_factory=set)

    def run(self, cancel: threading.Event, *, follow: bool = False) -> None:
        """Learn from the remarks that were not used yet, oldest first.

        Args:
            cancel: set it to end; the next call repeats unfinished work.
            follow: wait for more remarks until ``cancel`` is set, then end without an error.

        Raises:
            CancelledError: ``cancel`` was set while there were remarks to learn from.
            StoreError: a store or a pool cannot be read or written.
            DataError: files of the set are missing or broken.
        """
        journal = Journal(self.folder)
        for record in journal.records():
            self.learner.note(record)
        seen = self._state()
        self._learn_all(journal, cancel)
        while follow and not cancel.wait(POLL_S):
            before, seen = seen, self._state()
            if seen != before:
                self._learn_all(journal, cancel)

    @property
    def _reader(self) -> LanguageReflector | None:
        """Return the reflector that reads comments, if there is one."""
        readers = (each for each in self.learner.reflectors if isinstance(each, LanguageReflector))
        return next(readers, None)

    def _state(self) -> tuple[int, int] | None:
        """Return size and time of the feedback file, which change with every new remark."""
        try:
            stat = (self.folder / FEEDBACK).stat()
        except FileNotFoundError:
            return None
        return stat.st_size, stat.st_mtime_ns

    def _learn_all(self, journal: Journal, cancel: threading.Event) -> None:
        with RunStore.read(self.folder) as store:
            has_reader = self._reader is not None
            for entry in feedback_cases(store, self.learned, root=self.root, words=has_reader):
                if cancel.is_set():
                    raise CancelledError("learning was cancelled")
                if isinstance(entry, Unreadable):
                    if entry not in self._reported:
                        self._reported.add(entry)
                        self.on_unreadable(entry)
                    continue
                self._learn_from(entry, journal)
                self.on_change(self.standing)

    def _learn_from(self, feedback: FeedbackCase, journal: Journal) -> None:
        """Learn from the remarks about one answer. Write the record, then mark them as used."""
        case, answered = feedback.case, ScoredAnswer(feedback.trace, float(feedback.right))
        first = feedback.trace.answer

        def judge(run: RunResult) -> float:
            answer = run.answer
            if case.desired is not None:
                return float(is_desired(answer, case.desired, case.query.task))
            # equal pictures have equal names
            is_same = bool(first and answer and first.value == answer.value)
            now = Case.of(run.trace, run.media, None, case.comment)
            if feedback.right or is_same or now is None or self._reader is None:
                return float(feedback.right and is_same)
            return float(self._reader.accepts(now, case))

        rerun = Reevaluator(self.reasoner, self.options, case.media, feedback.trace, judge)
        media = case.media.for_run()
        task = LearningTask(media, answered, rerun, case.desired, case.comment, stale=True)
        self.standing.total += 1
        self.standing.answered += 1
        self.standing.score += answered.score
        learned = self.learner.learn(task)
        record = replace(learned, sample_id=feedback.sample_id, seed=feedback.seed)
        journal.add(record)
        self.learned.add(feedback.remarks)
        self.standing.count(record)


# File in the state's folder with the ids of the remarks that were used.
LEARNED = "learned-feedback.jsonl"


@dataclass(frozen=True)
class _Learned:
    remark: str


class LearnedRemarks:
    """Ids of the remarks that were used. Several processes may add at once.

    Args:
        path: file of the ids; need not exist.

    Raises:
        StoreError: the file cannot be read, or has another format.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ids = {line.remark for line in read_lines(path, _Learned, "the id of a remark")}

    def __contains__(self, remark: str) -> bool:
        return remark in self._ids

    def add(self, remarks: Sequence[str]) -> None:
        """Mark these remarks as used. The mark is on disk when this returns.

        Raises:
            StoreError: the file cannot be written.
        """
        for remark in remarks:
            if remark not in self._ids:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                append_line(self._path, _Learned(remark))
                self._ids.add(remark)


@dataclass(frozen=True)
class FeedbackCase:
    """One answer with all feedback on it.

    Attributes:
        trace: trace of the run that answered.
        case: the case to reflect on, with the last right answer that a person gave, if any, and
            all comments.
        remarks: ids of the remarks, for :meth:`LearnedRemarks.add`.
        right: whether the run's answer was the desired one, or a person said yes to it.
    """

    sample_id: str
    seed: int
    trace: Trace
    case: Case
    remarks: tuple[str, ...]
    right: bool


@dataclass(frozen=True)
class Unreadable:
    """An answer whose remarks cannot be used, and why."""

    sample_id: str
    seed: int
    why: str


def feedback_cases(
    store: RunStore, learned: LearnedRemarks, *, root: Path | None = None, words: bool = False
) -> Iterator[FeedbackCase | Unreadable]:
    """Yield the answers of a run that have unused remarks, ordered by their first remark.

    All remarks about an answer form one case, and the last right answer counts. A comment alone
    says that the answer is wrong, as ``no`` does of an edit or tags. Media are read one case at a
    time.

    Source: CLOVA (Gao et al. 2024), sec. 3.3: human feedback is the desired answer or a comment.
    Differs: where people judge again whether learning helped, the language model compares the new
    result with the comment (:meth:`LanguageReflector.accepts`), because nobody waits for it.

    Args:
        root: folder of the set's official files.
        words: whether a reflector reads comments; else cases without a right answer are unreadable.

    Raises:
        StoreError: the remarks or the run cannot be read.
        DataError: files of the set are missing or broken.
    """
    remarks_by_answer: dict[tuple[str, int], list[Feedback]] = {}
    for remark in read_feedback(store.folder):
        remarks_by_answer.setdefault((remark.sample_id, remark.seed), []).append(remark)
    new = {
        key: remarks
        for key, remarks in remarks_by_answer.items()
        if any(remark_id(store, remark) not in learned for remark in remarks)
    }
    samples = samples_of_run(store, root, [name for name, _ in new]) if new else {}
    for (name, seed), remarks in new.items():
        answers = [remark.answer for remark in remarks if remark.answer is not None]
        comments = dict.fromkeys(filter(None, (remark.comment.strip() for remark in remarks)))
        try:
            answer = answers[-1] if answers else None
            trace = store.read_trace(name, seed)
            if trace is None or name not in samples:
                raise UsageError("its trace or its picture is not there")
            is_verdict, comment = trace.query.task in ("edit", "tag"), "\n".join(comments)
            if is_verdict and isinstance(answer, str):  # stored before verdicts
                comment = f"{answer}\n{comment}".strip()
            right, desired = is_verdict and answer is True, None if is_verdict else answer
            if desired is None and not right:
                if not words:
                    raise UsageError(COMMENT_ALONE)
                comment = comment or NO
            media = media_from(samples[name].load())
            case = Case.of(trace, media, desired, comment)
            if case is None:
                raise UsageError("no program was written for it")
        except (ViperError, OSError, TypeError) as error:
            yield Unreadable(name, seed, str(error))
            continue
        ids = tuple(remark_id(store, remark) for remark in remarks)
        right = right or is_desired(case.answer, case.desired, case.query.task)
        yield FeedbackCase(name, seed, trace, case, ids, right)


def remark_id(store: RunStore, remark: Feedback) -> str:
    """Return the id of a remark. The same words about another run get another id."""
    run = (store.manifest.created, store.manifest.fingerprint)
    content = (remark.sample_id, remark.seed, remark.answer, remark.comment, remark.given)
    return hashlib.sha256(dumps([*run, *content]).encode("utf-8", "replace")).hexdigest()[:16]
