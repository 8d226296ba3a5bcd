"""Chooses which cases of a folder a person labels next, and fits again with the labels.

`Review` runs the kept programs on the folder once. Cases on which they disagree come first, then
those of low confidence. Each label is stored at once. `refit` fits in the background, and replaces
the job's program only by one that is surely better.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from viper.data.own import folder_samples
from viper.errors import UsageError, ViperError
from viper.evaluate.campaign import ProgressBar
from viper.evaluate.intervals import Estimate, proportion
from viper.evaluate.runs.feedback import answer_from
from viper.evaluate.sample_result import Prediction
from viper.jobs.cases import Label, with_answer, words_of
from viper.jobs.choice import calibrated, signs
from viper.jobs.fitting import fit
from viper.jobs.job import Job, JobRecord, for_jobs
from viper.jobs.outcomes import Outcomes, candidate_engine, run_candidates
from viper.profiles.wiring import Profile
from viper.schema import Query
from viper.strategies.confidence import probability


@dataclass(frozen=True)
class Case:
    """A case of the folder with the answer of the job.

    Attributes:
        given: the answer; None if there is none.
        agreeing: how far the kept programs agree, in [0, 1].
    """

    label: Label
    given: Prediction | None
    agreeing: float
    confidence: float

    @property
    def answer(self) -> str:
        """Return the answer in words, "" if there is none; a box is ``x0,y0,x1,y1``."""
        return "" if self.given is None else words_of(self.given, self.label)


@dataclass
class Review:
    """A review under way; safe to call from several threads.

    Attributes:
        cases: all cases of the folder, those to label first first.
        said: what the last refit came to.
    """

    job: Job
    record: JobRecord
    profile: Profile
    cases: list[Case]
    said: str = ""
    fitting: threading.Thread | None = None
    _given: list[str] = field(default_factory=list)
    _skipped: list[str] = field(default_factory=list)
    _lock: Any = field(default_factory=threading.RLock, repr=False)

    @property
    def is_fitting(self) -> bool:
        """Return whether a refit is under way."""
        return self.fitting is not None and self.fitting.is_alive()

    @property
    def classes(self) -> list[str]:
        """Return the options of a choice, or the answers that labels had, the first one first.

        A new one comes last, so that the keys of the others stay.
        """
        if self.record.options:
            return list(self.record.options)
        words = [label.words for label in self.job.labels() if label.task != "ground"]
        return list(dict.fromkeys(words))

    def known(self) -> dict[str, Label]:
        return {label.case: label for label in self.job.labels()}

    def next(self) -> Case | None:
        """Return the case to label next, or None."""
        done = {*self.known(), *self._skipped}
        return next((case for case in self.cases if case.label.case not in done), None)

    def give(self, case_id: str, text: str) -> None:
        """Store the right answer of a case; an empty text skips the case.

        Raises:
            UsageError: no such case, or the text is no answer to its task.
        """
        case = next((each for each in self.cases if each.label.case == case_id), None)
        if case is None:
            raise UsageError("this case is not in the folder")
        with self._lock:
            if text.strip():
                answer = answer_from(text.strip(), case.label.task, case.label.options)
                self.job.add([with_answer(case.label, answer, "review")])
                self._given.append(case_id)
            else:
                self._skipped.append(case_id)

    def undo(self) -> None:
        """Withdraw the last label, so that its case comes again."""
        with self._lock:
            if self._given:
                case_id = self._given.pop()
                label = next(c.label for c in self.cases if c.label.case == case_id)
                self.job.add([with_answer(label, None, "review")])

    def estimate(self) -> Estimate:
        """Return the share of the folder's cases that the job answers rightly, as labels tell.

        Labelled cases count as they are, others by a confidence that learned from them.
        """
        known = self.known()
        here = known.keys() & {case.label.case for case in self.cases}
        judged = [
            (signs(each.agreeing), each.right)
            for each in self.record.judged
            if each.case not in here
        ]
        sure, open_cases = 0, []
        for case in self.cases:
            if (label := known.get(case.label.case)) is None:
                open_cases.append(case)
                continue
            right = label.is_right(case.given)
            judged.append((signs(case.agreeing), right))
            sure += right
        weights = calibrated([features for features, _ in judged], [right for _, right in judged])
        guessed = sum(probability(weights, signs(case.agreeing)) for case in open_cases)
        value = (sure + guessed) / len(self.cases)
        around = proportion(round(value * len(judged)), len(judged))
        return replace(around, value=value)

    def refit(self, progress: ProgressBar) -> None:
        """Begin a fit with all labels in the background, unless one is under way."""
        with self._lock:
            if not self.is_fitting:
                self.said = "fitting"
                self.fitting = threading.Thread(target=self._refit, args=(progress,), daemon=True)
                self.fitting.start()

    def _refit(self, progress: ProgressBar) -> None:
        def say(text: str) -> None:
            self.said = f"fitting: {text}"

        cases = self.cases
        try:
            record, comparison = fit(
                self.job, self.profile, self.record.settings, say, progress, self.record
            )
            assert comparison is not None  # there is a program to compare with
            if comparison.adopted:
                cases = answered(self.job, record, self.profile, [c.label for c in cases], progress)
        except Exception as error:  # noqa: BLE001 - boundary: one refit, told on the page
            known = isinstance(error, ViperError)
            self.said = str(error) if known else f"the fit went wrong: {type(error).__name__}"
            return
        with self._lock:
            self.record, self.cases, self.said = record, cases, comparison.words


def review_of(
    job: Job, record: JobRecord, profile: Profile, folder: Path, progress: ProgressBar
) -> Review:
    """Run the kept programs on a folder and return its review.

    Raises:
        UsageError: no such folder, nothing in it, or a job that asks more than one question.
    """
    if record.kind == "images" or len({label.query for label in job.labels()}) > 1:
        raise UsageError(
            f"{job.folder}: a review asks one question about one picture or clip at a time, and "
            "this job asks several, or about several pictures"
        )
    query = Query(record.query, record.task, options=record.options)
    labels = [
        Label.of(sample)
        for sample in folder_samples(folder, query, "").samples
        if (sample.media == "video") == (record.kind == "video")
    ]
    if not labels:
        raise UsageError(f"{folder}: holds no {record.kind} to label")
    return Review(job, record, profile, answered(job, record, profile, labels, progress))


def answered(
    job: Job, record: JobRecord, profile: Profile, labels: Sequence[Label], progress: ProgressBar
) -> list[Case]:
    """Return cases with the answers of the job, those worth a label first."""
    profile = for_jobs(profile)
    components, outcomes = profile.components(), Outcomes(job.tried(profile))
    try:
        for each in record.kept:
            components.with_thresholds(each.thresholds)  # says which one a profile lacks
        run_candidates(candidate_engine(components), record.kept, labels, outcomes, progress)
        cases = []
        for label in labels:
            found = [outcomes.answers(each.id, [label])[0] for each in record.kept]
            share = record.agreement(found)
            cases.append(Case(label, found[0], round(share, 4), record.confidence(share)))
    finally:
        outcomes.close()
        components.close()
    return sorted(cases, key=lambda case: (case.agreeing, case.confidence))
