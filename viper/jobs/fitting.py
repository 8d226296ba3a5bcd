"""Fits a job: writes and edits programs, runs them on the labelled cases, chooses, and promises.

`fit` is the path of a job. `Fitting` gathers the evidence (:class:`viper.jobs.choice.Evidence`)
from the outcomes of candidates, and turns what is chosen into programs.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any

import numpy as np

from viper.agreement import is_correct
from viper.errors import UsageError
from viper.evaluate.campaign import ProgressBar
from viper.evaluate.intervals import Estimate, paired, proportion
from viper.evaluate.metrics import metric
from viper.evaluate.sample_result import Prediction
from viper.jobs import candidates as making
from viper.jobs.candidates import Candidate
from viper.jobs.cases import Label, check_labels, words_of
from viper.jobs.choice import Evidence, OutOfFold, Risk, certify, kept_of, out_of_fold, votes_of
from viper.jobs.job import (
    EXAMPLE,
    JOB,
    PROFILE,
    PROGRAM,
    REPLIES,
    REPORT,
    FitSettings,
    Job,
    JobRecord,
    JudgedCase,
    KeptProgram,
    Likeness,
    pixel_features,
)
from viper.jobs.outcomes import Outcomes, run_candidates
from viper.jobs.report import report_page
from viper.jobs.rules import Measure, rule_program, written_measure
from viper.models.media import media_from
from viper.profiles.exported import ExportedProgram, public_document
from viper.profiles.files import with_values
from viper.profiles.wiring import Profile
from viper.reasoner import Reasoner, RunOptions
from viper.schema import to_json
from viper.storage.files import write_file
from viper.storage.json_lines import append_line, dumps, read_lines
from viper.strategies.base import Components

# Fixed programs that are also run at other thresholds: those that few labels do not rule out.
_AT_LEVELS = 6

# Labelled pictures as far from all others as the farthest 5 % of them are not yet unusual.
_FAR = 0.95


@dataclass(frozen=True)
class Reply:
    """The program of a request; "" if the reply held none."""

    request: str
    program: str


Say = Callable[[str], None]


@dataclass(frozen=True)
class Comparison:
    """A new program beside the one that the job had.

    Attributes:
        adopted: whether the job has the new one now.
        words: why, and the lines that changed.
    """

    adopted: bool
    words: str


def fit(
    job: Job,
    profile: Profile,
    settings: FitSettings,
    say: Say,
    progress: ProgressBar,
    before: JobRecord | None = None,
) -> tuple[JobRecord, Comparison | None]:
    """Fit a program to the labels of a job, and write its folder.

    Args:
        say: told of each step.
        progress: shows the runs of candidates.
        before: a record whose program stays unless the new one is surely better.

    Returns:
        What the job has now, and what came of the comparison, if there was one.

    Raises:
        UsageError: the labels cannot be fitted.
        ViperError: the writer cannot be asked.
    """
    labels = job.labels()
    check_labels(labels)
    comparison = None
    with ExitStack() as stack:
        components = profile.components()
        stack.callback(components.close)
        outcomes = Outcomes(job.folder)
        stack.callback(outcomes.close)
        until = time.monotonic() + 60 * (settings.minutes or math.inf)
        fitting = Fitting(job, components, labels, settings, outcomes, say, progress, until)
        record, exported = fitting.fit(public_document(to_json(profile.document)))
        if before is not None:
            comparison = fitting.compare(before, record)
            if not comparison.adopted:
                return before, comparison
        example = Reasoner(components.with_thresholds(record.kept[0].thresholds), preload=False)
        of_query = RunOptions(task=labels[0].task, options=labels[0].options)
        media = labels[0].sample().load()
        result = example.execute(exported.program, media, labels[0].query, of_query)
        result.html(job.folder / EXAMPLE)
    write_file(job.folder / PROGRAM, exported.script(PROGRAM))
    if profile.document.path is not None:
        tools = profile.with_thresholds(exported.thresholds).document.tools
        path, name = profile.document.path, job.folder.name
        write_file(job.folder / PROFILE, with_values(path, name, sensitivities=tools.sensitivities))
    write_file(job.folder / REPORT, report_page(record))
    write_file(job.folder / JOB, json.dumps(json.loads(dumps(record)), indent=1) + "\n")
    return record, comparison


@dataclass
class Fitting:
    """One fit under way."""

    job: Job
    components: Components
    labels: Sequence[Label]
    settings: FitSettings
    outcomes: Outcomes
    say: Say
    progress: ProgressBar
    until: float = math.inf

    def fit(self, document: Mapping[str, Any]) -> tuple[JobRecord, ExportedProgram]:
        written = self._written()
        edited = [
            edit
            for each in written[: making.MOST_EDITED]
            for edit in making.edits_of(each, self.components)
        ]
        candidates = _distinct([*written, *edited])
        measures = self._measures([each.program for each in written])
        measuring = []
        if measures:
            plain = making.measuring(measures)
            measuring = [plain, *self._near(plain)]
        self.say(f"running {len(candidates)} programs on {len(self.labels)} cases")
        ran = self._run([*measuring, *candidates])
        measuring = [each for each in ran if each.origin == making.MEASURES]
        candidates = [each for each in ran if each.origin != making.MEASURES]
        if not candidates and not measuring:
            raise UsageError("no program ran; give --minutes more time, or more --requests")
        evidence = self._evidence(candidates, measures, measuring)
        for number in range(self.settings.rounds if self._converses else 0):
            better = self._improved(evidence, number)
            if better is None:
                break
            candidates = _distinct([*candidates, *self._run([better])])
            evidence = self._evidence(candidates, measures, measuring)
        best = [h.candidate for h in evidence.hypotheses(self._all) if h.candidate is not None]
        levels = [
            level
            for number in best[:_AT_LEVELS]
            for level in making.at_levels(candidates[number], self.components)
        ]
        self.say(f"running {len(best[:_AT_LEVELS])} of them at other thresholds")
        candidates = _distinct([*candidates, *self._run(levels)])
        evidence = self._evidence(candidates, measures, measuring)
        judged = out_of_fold(evidence, self.settings.seed)
        kept = self._kept(evidence)
        self._run([kept[0].candidate], math.inf)  # a rule has not run as a program yet
        promise = None
        if self.settings.risk is not None:
            promise = certify(judged.confidence, judged.right, self.settings.risk)
        first = self.labels[0]
        record = JobRecord(
            query=first.query,
            task=first.task,
            kind=first.kind,
            options=first.options,
            kept=kept,
            weights=judged.weights,
            estimate=proportion(int(judged.right.sum()), len(self.labels)),
            baselines=self._baselines(judged),
            labelled=len(self.labels),
            remarks=self._remarks(judged, promise),
            promise=promise,
            likeness=_likeness(evidence.pixels),
            judged=self._judged(judged),
            tried=len(candidates),
            requests=len(self._replies()),
            settings=self.settings,
        )
        exported = ExportedProgram(
            query=first.query,
            task=first.task,
            program=kept[0].program,
            api=self.components.settings.api,
            profile=document,
            options=first.options,
            media=first.kind,
            thresholds=kept[0].thresholds
            or self.components.toolbox.settings.start_thresholds(self_tune=False),
            models={
                role: str(getattr(model, "model_id", ""))
                for role, model in self.components.toolbox.models.loaded().items()
            },
            routines=tuple(file.stored() for file in self.components.library.files),
        )
        return record, exported

    @property
    def _converses(self) -> bool:
        """Return whether the writer can be told what went wrong."""
        return bool(self.settings.requests) and self.components.settings.prompt_style != "compact"

    def _improved(self, evidence: Evidence, number: int) -> Candidate | None:
        """Ask for a better program than the best one; a third of the cases may be shown for it."""
        shown = np.random.default_rng(self.settings.seed).permutation(len(self.labels))[::3]
        best = next(h for h in evidence.hypotheses(self._all) if h.candidate is not None)
        candidate = evidence.candidates[best.candidate or 0]
        said = self._said(candidate)
        wrong = [(self.labels[i], str(said[i])) for i in shown if not best.right[i]]
        request = f"{self.settings.seed}-round-{number}-{candidate.id}"
        program = self._replies().get(request)
        if not wrong or time.monotonic() > self.until:
            return None
        if program is None:
            self.say(f"rewriting the best program, round {number + 1}")
            reasoner = Reasoner(self.components, preload=False)
            program = making.improved(reasoner, candidate, wrong, number, self.settings.seed)
            append_line(self.job.folder / REPLIES, Reply(request, program))
        bits = candidate.bits + making.REWRITTEN_BITS
        seen = tuple(self.labels[i].case for i in shown)
        origin = f"rewritten from {len(wrong)} wrong cases"
        return Candidate(program, {}, bits, origin, seen) if program else None

    def compare(self, before: JobRecord, after: JobRecord) -> Comparison:
        """Compare the program of an earlier fit with a new one that did not see the labels.

        The earlier one saw some of them, which is to its advantage.
        """
        old, new = before.kept[0], after.kept[0]
        if (old.program, old.thresholds) == (new.program, new.thresholds):
            return Comparison(True, f"the same program, fitted to {len(self.labels)} labels")
        self._run([old.candidate], math.inf)
        _, right = self._judged_rows([old.candidate])
        was = right[0].astype(float).tolist()
        gain = paired(was, [float(case.right) for case in after.judged]).difference
        points = f"{100 * gain.value:+.1f} points [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]"
        lines = unified_diff(old.program.splitlines(), new.program.splitlines(), lineterm="", n=1)
        changed = "\n".join(list(lines)[2:])
        done = "replaced" if gain.low > 0 else "kept"
        words = (
            f"{done} the program: a new one gains {points} on {len(self.labels)} labels\n{changed}"
        )
        return Comparison(gain.low > 0, words)

    def _judged_rows(
        self, candidates: Sequence[Candidate]
    ) -> tuple[list[list[Prediction | None]], Any]:
        """Return what each candidate answers, and whether that is right, bool [C, N]."""
        judge, samples = metric("mixed"), [label.sample() for label in self.labels]
        predicted = [
            [self.outcomes.get(each.id, label.case).answer for label in self.labels]
            for each in candidates
        ]
        right = [
            is_correct(judge.score(sample, answer).value)
            for row in predicted
            for sample, answer in zip(samples, row, strict=True)
        ]
        return predicted, np.array(right, dtype=bool).reshape(len(candidates), len(samples))

    def _run(self, candidates: Sequence[Candidate], until: float | None = None) -> list[Candidate]:
        """Return the candidates that ran, by default those begun within the time of the fit."""
        last = self.until if until is None else until
        return run_candidates(
            self.components, candidates, self.labels, self.outcomes, self.progress, last
        )

    @property
    def _all(self) -> Any:
        return np.arange(len(self.labels))

    def _replies(self) -> dict[str, str]:
        read = read_lines(self.job.folder / REPLIES, Reply, "a reply")
        return {reply.request: reply.program for reply in read}

    def _written(self) -> list[Candidate]:
        replies, path = self._replies(), self.job.folder / REPLIES
        if self.settings.requests:
            self.say(f"writing programs, {self.settings.requests} requests")
        reasoner = Reasoner(self.components, preload=False)

        def keep(request: str, program: str) -> None:
            append_line(path, Reply(request, program))

        count, seed = self.settings.requests, self.settings.seed
        return making.write_programs(reasoner, self.labels, count, seed, replies, keep)

    def _measures(self, programs: Sequence[str]) -> list[Measure]:
        if any(label.kind != "image" or label.task == "ground" for label in self.labels):
            return []
        families = self.components.toolbox.settings.attribute_families
        return making.measures_of(making.nouns_of(self.components, programs), families)

    def _near(self, candidate: Candidate) -> list[Candidate]:
        """Return a candidate at thresholds one step lower and higher."""
        return making.at_levels(candidate, self.components)[1:3]

    def _evidence(
        self,
        candidates: Sequence[Candidate],
        measures: Sequence[Measure],
        measuring: Sequence[Candidate],
    ) -> Evidence:
        predicted, right = self._judged_rows(candidates)
        is_box = self.labels[0].task == "ground"
        words = [label.words for label in self.labels]
        names = list(dict.fromkeys(words))
        classes = None if is_box else np.array([names.index(word) for word in words])
        answers = np.full(right.shape, -1)
        for index, label in enumerate(self.labels):
            column = [row[index] for row in predicted]
            answers[:, index] = _groups(column, right[:, index], label, names)
        numbers = None
        if not is_box and all(word.isdecimal() for word in names):
            numbers = np.array([float(word) for word in words])
        known, values = self._values(candidates, measures, measuring)
        return Evidence(
            cases=[label.case for label in self.labels],
            candidates=candidates,
            answers=answers,
            right=right,
            classes=classes,
            kinds=max(2, len(names)),
            numbers=numbers,
            measures=known,
            values=values,
            pixels=np.array(
                [pixel_features(media_from(label.sample().load())) for label in self.labels]
            ),
        )

    def _values(
        self,
        candidates: Sequence[Candidate],
        measures: Sequence[Measure],
        measuring: Sequence[Candidate],
    ) -> tuple[list[Measure], Any]:
        """Return measures that differ between cases, and their values, float64 [L, N, F].

        The answers of written programs that are numbers are measures, too.
        """
        if not measuring:
            return [], np.zeros((1, len(self.labels), 0))
        known, values = list(measures), np.zeros((len(measuring), len(self.labels), len(measures)))
        for level, candidate in enumerate(measuring):
            for index, text in enumerate(self._said(candidate)):
                numbers = [float(word) for word in str(text or "").split()]
                if len(numbers) == len(measures):
                    values[level, index] = numbers
        for candidate in candidates:
            column = self._said(candidate)
            is_written = not candidate.thresholds and candidate.origin.startswith("written ")
            if is_written and all(type(value) in (int, float) for value in column):
                measure = written_measure(candidate.program, f"the program {candidate.origin}")
                if measure is not None:
                    known.append(measure)
                    added = np.broadcast_to(
                        np.array(column, float)[:, None], (*values.shape[:2], 1)
                    )
                    values = np.concatenate([values, added], 2)
        differs = np.flatnonzero(values[0].std(0) > 0)
        return [known[i] for i in differs], values[:, :, differs]

    def _said(self, candidate: Candidate) -> list[Any]:
        """Return what a candidate answers about each case; None for no answer."""
        found = [self.outcomes.get(candidate.id, label.case).answer for label in self.labels]
        return [answer and answer.value for answer in found]

    def _kept(self, evidence: Evidence) -> tuple[KeptProgram, ...]:
        """Return the programs of the hypotheses that are kept, the best one first."""
        levels = [{}, *(each.thresholds for each in self._near(Candidate("")))]
        returned = self._returned()
        kept, chosen = [], kept_of(evidence.hypotheses(self._all))
        for hypothesis, votes in zip(chosen, votes_of(chosen), strict=True):
            program: str | None
            if hypothesis.candidate is not None:
                candidate = evidence.candidates[hypothesis.candidate]
                program, origin = candidate.program, candidate.origin
                thresholds: Mapping[str, float] = candidate.thresholds
            else:
                assert hypothesis.rule is not None
                program = rule_program(hypothesis.rule, evidence.measures, returned)
                origin, thresholds = "rule found from labels", levels[hypothesis.level]
            if program is None:
                continue
            kept.append(KeptProgram(program, dict(thresholds), round(float(votes), 4), origin))
        return tuple(kept)

    def _returned(self) -> list[Any]:
        """Return what a program returns for each class, in the order of the classes."""
        found: dict[str, Any] = {}
        for label in self.labels:
            value = label.target[0] if isinstance(label.target, tuple) else label.target
            found.setdefault(
                label.words, label.options[label.answer] if label.task == "choice" else value
            )
        return list(found.values())

    def _judged(self, judged: OutOfFold) -> tuple[JudgedCase, ...]:
        names = list(dict.fromkeys(label.words for label in self.labels))
        columns = judged.answers, judged.right, judged.confidence, judged.agreeing
        found = []
        for label, answer, right, *shares in zip(self.labels, *columns, strict=True):
            known = label.task != "ground" and 0 <= answer < len(names)
            words = names[answer] if known else "none" if answer == -1 else "another"
            confidence, agreeing = (round(float(share), 4) for share in shares)
            found.append(
                JudgedCase(label.name, label.words, words, bool(right), confidence, agreeing)
            )
        return tuple(found)

    def _baselines(self, judged: OutOfFold) -> dict[str, Estimate]:
        n = len(self.labels)
        found = {"zero-shot program": judged.zero_shot} if self.settings.requests else {}
        if self.labels[0].task != "ground":
            found |= {"nearest neighbours": judged.neighbours, "commonest answer": judged.majority}
        return {name: proportion(int(right.sum()), n) for name, right in found.items()}

    def _remarks(self, judged: OutOfFold, promise: Risk | None) -> tuple[str, ...]:
        remarks = []
        baselines = {"the commonest answer": judged.majority}
        baselines["nearest neighbours"] = judged.neighbours
        if self.labels[0].task == "ground":
            baselines = {}
        for name, right in baselines.items():
            lead = int(right.sum()) - int(judged.right.sum())
            if lead >= 0:
                than = "better than" if lead else "as good as"
                remarks.append(f"{name} would be {than} the program on these labels")
        if promise is not None and not promise.certified:
            remarks.append(
                f"a risk of {self.settings.risk:g} is not certifiable and needs at least "
                f"{promise.more} more labels; with 90 % confidence at most {promise.bound:.0%} of "
                f"the surest {promise.answered:.0%} of answers are wrong"
            )
        return tuple(remarks)


def _distinct(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return each program once, with the fewest bits, in the order of the first ones."""
    best: dict[str, Candidate] = {}
    for candidate in candidates:
        known = best.get(candidate.id)
        if candidate.program and (known is None or candidate.bits < known.bits):
            best[candidate.id] = candidate
    return list(best.values())


def _groups(
    column: Sequence[Prediction | None], right: Any, label: Label, names: Sequence[str]
) -> list[int]:
    """Return a number for each answer to one case: equal answers have the same; -1 is none.

    Answers that are classes have the number of the class.
    """
    others: list[Prediction] = []
    numbers = []
    for answer, is_right in zip(column, right, strict=True):
        if answer is None:
            numbers.append(-1)
            continue
        word = label.words if is_right else words_of(answer, label)
        if label.task != "ground" and word in names:
            numbers.append(names.index(word))
            continue
        same = (index for index, other in enumerate(others) if label.agree(other, answer))
        place = next(same, len(others))
        if place == len(others):
            others.append(answer)
        numbers.append(-2 - place)
    return numbers


def _likeness(features: Any) -> Likeness:
    distances = np.abs(features[:, None] - features[None]).mean(2)
    np.fill_diagonal(distances, np.inf)
    limit = float(np.quantile(distances.min(1), _FAR))
    return Likeness(tuple(map(tuple, features.tolist())), round(limit, 4))
