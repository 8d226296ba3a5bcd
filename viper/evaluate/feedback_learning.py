"""Learning from what people said of a run's answers, once or as they say it.

The deployment that CLOVA proposes: answers are given and remarked on in one process (``viper
demo``, ``viper view``), another one learns from the remarks; pools switch from one whole version
to the next, and the first process uses what the second has learned.

Source: CLOVA (Gao et al. 2024), sec. 3.3 (human feedback).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from viper.errors import CancelledError
from viper.evaluate.again import Again
from viper.evaluate.feedback import FEEDBACK
from viper.evaluate.feedback_cases import (
    FeedbackCase,
    LearnedRemarks,
    Unreadable,
    feedback_cases,
)
from viper.evaluate.learning import Standing
from viper.evaluate.runs.store import RunStore
from viper.reasoner import Reasoner, RunOptions
from viper.schema import Answer
from viper.tuning.case import is_desired
from viper.tuning.learner import Answered, Learner, Task
from viper.tuning.lesson import Journal

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
    on_change: Callable[[Standing], None] = lambda standing: None
    on_unreadable: Callable[[Unreadable], None] = lambda unreadable: None
    standing: Standing = field(default_factory=lambda: Standing(0))
    _told: set[Unreadable] = field(default_factory=set)

    def run(self, cancel: threading.Event, *, follow: bool = False) -> None:
        """Goes through the remarks that were not learned from, the oldest first.

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
        """Another value whenever somebody said something."""
        try:
            found = (self.folder / FEEDBACK).stat()
        except FileNotFoundError:
            return None
        return found.st_size, found.st_mtime_ns

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

        again = Again(self.reasoner, self.options, case.media, one.trace, judge)
        answered = Answered(one.trace, score)
        task = Task(case.media.for_run(), answered, again, case.desired, case.comment, stale=True)
        self.standing.total += 1
        self.standing.answered += 1
        self.standing.score += score
        lesson = replace(self.learner.learn(task), sample_id=one.sample_id, seed=one.seed)
        journal.add(lesson)
        self.learned.add(one.remarks)
        self.standing.count(lesson)
