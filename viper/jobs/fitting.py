"""Fits a job: writes and edits programs, runs them on the labelled cases, chooses, and promises.

`fit` is the path of a job, and `Fitting` the fit under way. What candidates answered becomes
evidence (:mod:`viper.jobs.evidence`), from which :mod:`viper.jobs.choice` estimates and promises.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from difflib import unified_diff
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from viper.errors import UsageError
from viper.evaluate.campaign import IN_FLIGHT, ProgressBar
from viper.evaluate.engines.sample_runner import Engine, Work
from viper.evaluate.intervals import paired, proportion
from viper.jobs import candidates as making
from viper.jobs.candidates import Candidate
from viper.jobs.cases import Label, check_labels, words_of
from viper.jobs.choice import OutOfFold, Risk, certify, kept_of, out_of_fold, votes_of
from viper.jobs.evidence import Evidence, embeddings, gather
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
    for_jobs,
    mark_of,
)
from viper.jobs.likeness import Likeness
from viper.jobs.outcomes import Outcomes, candidate_engine, run_candidates
from viper.jobs.report import report_page
from viper.jobs.rules import Measure, rule_program
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
    workers: int = IN_FLIGHT,
    opened: Callable[[Work], AbstractContextManager[Engine]] = lambda work: nullcontext(
        work.engine
    ),
) -> tuple[JobRecord, Comparison | None]:
    """Fit a program to the labels of a job, and write its folder.

    Args:
        say: told of each step.
        progress: shows the runs of candidates.
        before: a record whose program stays unless the new one is surely better.
        workers: cases at once.
        opened: opens an engine that runs the candidates, by default threads of this process.

    Returns:
        What the job has now, and what came of the comparison, if there was one.

    Raises:
        UsageError: the labels cannot be fitted.
        ViperError: the writer cannot be asked.
    """
    labels, profile, folder = job.labels(), for_jobs(profile), job.folder
    check_labels(labels)
    comparison = None
    with ExitStack() as stack:
        components = profile.components()
        stack.callback(components.close)
        engine = stack.enter_context(opened(fit_work(profile, components, workers)))
        tried = job.tried(profile)
        outcomes = Outcomes(tried)
        stack.callback(outcomes.close)
        until = time.monotonic() + 60 * (settings.minutes or math.inf)
        fitting = Fitting(
            tried, components, engine, labels, settings, outcomes, say, progress, until
        )
        record, exported = fitting.fit(public_document(to_json(profile.document)))
        if before is not None:
            comparison = fitting.compare(before, record)
            if not comparison.adopted:
                return before, comparison
        example = Reasoner(components.with_thresholds(record.kept[0].thresholds), preload=False)
        of_query = RunOptions(task=labels[0].task, options=labels[0].options)
        media = labels[0].sample().load()
        result = example.execute(exported.program, media, labels[0].query, of_query)
        result.html(folder / EXAMPLE)
        loaded = components.toolbox.models.loaded().items()  # at least those of the example
        models = {role: str(getattr(model, "model_id", "")) for role, model in loaded}
        exported = replace(exported, models=models)
    files = {PROGRAM: exported.script(PROGRAM), REPORT: report_page(record)}
    path = profile.document.path
    if path is not None and Path(path).is_file():
        tools = profile.with_thresholds(exported.thresholds).document.tools
        files[PROFILE] = with_values(path, folder.name, sensitivities=tools.sensitivities)
    files[JOB] = json.dumps(json.loads(dumps(record)), indent=1) + "\n"  # the last one
    for name, content in files.items():
        write_file(folder / name, content)
    return record, comparison


def fit_work(profile: Profile, components: Components, in_flight: int) -> Work:
    """Return what runs candidates of a fit, which are sent as they arise.

    Args:
        profile: that of the components, see :func:`viper.jobs.job.for_jobs`.
    """
    engine, facts = candidate_engine(components, in_flight), {"profile": mark_of(profile)}
    return Work((), engine, facts, components.close)


@dataclass
class Fitting:
    """One fit under way.

    Attributes:
        tried: folder of replies.
        engine: runs candidates.
        measures, measuring: what is measured in the pictures, and the programs that do so.
    """

    tried: Path
    components: Components
    engine: Engine
    labels: Sequence[Label]
    settings: FitSettings
    outcomes: Outcomes
    say: Say
    progress: ProgressBar
    until: float = math.inf
    measures: list[Measure] = field(default_factory=list)
    measuring: list[Candidate] = field(default_factory=list)

    def fit(self, document: Mapping[str, Any]) -> tuple[JobRecord, ExportedProgram]:
        evidence = self.evidence()
        judged = out_of_fold(evidence, self.settings.seed)
        kept = self._kept(evidence)
        self._run(kept[:1], math.inf)  # a rule has not run as a program yet
        promise = None
        if self.settings.risk is not None:
            promise = certify(judged.confidence, judged.right, self.settings.risk)
        first, n = self.labels[0], len(self.labels)
        baselines = {"zero-shot program": judged.zero_shot} if self.settings.requests else {}
        if evidence.kinds:
            baselines |= {
                f"nearest neighbours by {' or '.join(evidence.spaces)}": judged.neighbours,
                "commonest answer": judged.majority,
            }  # fmt: skip
        record = JobRecord(
            query=first.query,
            task=first.task,
            kind=first.kind,
            options=first.options,
            kept=kept,
            weights=judged.weights,
            estimate=proportion(int(judged.right.sum()), n),
            baselines={k: proportion(int(right.sum()), n) for k, right in baselines.items()},
            labelled=n,
            remarks=self._remarks(baselines, judged, promise),
            promise=promise,
            likeness=Likeness.of(evidence.pixels),
            judged=self._judged(evidence, judged),
            tried=len(evidence.candidates),
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
            routines=self.components.library.stored(),
        )
        return record, exported

    def evidence(self) -> Evidence:
        """Return what all candidates answered, once they are written and run.

        Raises:
            UsageError: there was no time for any.
        """
        return self._at_levels(self._rewritten(self._written()))

    def _written(self) -> Evidence:
        """Return the evidence of programs that are written and edited, and of what is measured."""
        replies, path = self._replies(), self.tried / REPLIES
        if self.settings.requests:
            self.say(f"writing programs, {self.settings.requests} requests")

        def keep(request: str, program: str) -> None:
            append_line(path, Reply(request, program))

        count, seed = self.settings.requests, self.settings.seed
        reasoner = Reasoner(self.components, preload=False)
        written = making.write_programs(reasoner, self.labels, count, seed, replies, keep)
        programs = [each.program for each in written]
        self.measures = making.measures_of(self.components, self.labels, programs)
        measuring = making.measuring(self.measures, self.components)
        most = written[: making.MOST_EDITED]
        edited = [edit for each in most for edit in making.edits_of(each, self.components)]
        candidates = _distinct([*written, *edited])
        self.say(f"running {len(candidates)} programs on {len(self.labels)} cases")
        ran = self._run([*measuring, *candidates])
        self.measuring = [each for each in ran if each in measuring]
        if not ran:
            raise UsageError("no program ran; give --minutes more time, or more --requests")
        return self._gather([each for each in ran if each not in measuring])

    def _rewritten(self, evidence: Evidence) -> Evidence:
        """Let a writer that can be told what went wrong rewrite the best program, round by round.

        A third of the cases may be shown for it.
        """
        if not self.settings.requests or self.components.settings.prompt_style == "compact":
            return evidence
        shown = np.random.default_rng(self.settings.seed).permutation(len(self.labels))[::3]
        for number in range(self.settings.rounds):
            best = next((h for h in evidence.hypotheses() if h.candidate is not None), None)
            if best is None:
                break
            candidate = evidence.candidates[best.candidate or 0]
            said = self.outcomes.answers(candidate.id, self.labels)
            wrong = [
                (self.labels[i], str(said[i] and said[i].value)) for i in shown if not best.right[i]
            ]
            told = dumps([(self.labels[i].case, self.labels[i].answer) for i in shown])
            mark = hashlib.blake2b(told.encode(), digest_size=4).hexdigest()
            request = f"{self.settings.seed}-round-{number}-{candidate.id}-{mark}"
            program = self._replies().get(request)
            if not wrong or time.monotonic() > self.until:
                break
            if program is None:
                self.say(f"rewriting the best program, round {number + 1}")
                reasoner = Reasoner(self.components, preload=False)
                program = making.improved(reasoner, candidate, wrong, number, self.settings.seed)
                append_line(self.tried / REPLIES, Reply(request, program))
            if not program:
                break
            bits = candidate.bits + making.REWRITTEN_BITS
            seen = tuple(self.labels[i].case for i in shown)
            origin = f"rewritten from {len(wrong)} wrong cases"
            evidence = self._more(evidence, [Candidate(program, {}, bits, origin, seen)])
        return evidence

    def _at_levels(self, evidence: Evidence) -> Evidence:
        """Return the evidence with the best programs at other thresholds, too."""
        best = [h.candidate for h in evidence.hypotheses() if h.candidate is not None]
        self.say(f"running {len(best[:_AT_LEVELS])} of them at other thresholds")
        levels = [
            level
            for number in best[:_AT_LEVELS]
            for level in making.at_levels(evidence.candidates[number], self.components)
        ]
        return self._more(evidence, levels)

    def compare(self, before: JobRecord, after: JobRecord) -> Comparison:
        """Compare the program of an earlier fit with a new one that did not see the labels.

        The earlier one saw some of them, which is to its advantage.
        """
        old, new = before.kept[0], after.kept[0]
        if (old.program, old.thresholds) == (new.program, new.thresholds):
            return Comparison(True, f"the same program, fitted to {len(self.labels)} labels")
        self._run([old], math.inf)
        answers = self.outcomes.answers(old.id, self.labels)
        was = [float(one.is_right(said)) for one, said in zip(self.labels, answers, strict=True)]
        gain = paired(was, [float(case.right) for case in after.judged]).difference
        points = f"{100 * gain.value:+.1f} points [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]"
        lines = unified_diff(old.program.splitlines(), new.program.splitlines(), lineterm="", n=1)
        changed = "\n".join(list(lines)[2:])
        done = "replaced" if gain.low > 0 else "kept"
        words = (
            f"{done} the program: a new one gains {points} on {len(self.labels)} labels\n{changed}"
        )
        return Comparison(gain.low > 0, words)

    def _run(self, candidates: Sequence[Candidate], until: float | None = None) -> list[Candidate]:
        """Return the candidates that ran, by default those begun within the time of the fit."""
        last = self.until if until is None else until
        for each in candidates:
            self.components.with_thresholds(each.thresholds)  # says which one a profile lacks
        return run_candidates(
            self.engine, candidates, self.labels, self.outcomes, self.progress, last
        )

    def _gather(self, candidates: Sequence[Candidate]) -> Evidence:
        return gather(
            self.labels, self.outcomes, candidates, self.measures, self.measuring, self._embedded
        )

    @cached_property
    def _embedded(self) -> Any:
        return embeddings(self.components, self.labels)

    def _more(self, evidence: Evidence, candidates: Sequence[Candidate]) -> Evidence:
        return self._gather(_distinct([*evidence.candidates, *self._run(candidates)]))

    def _replies(self) -> dict[str, str]:
        read = read_lines(self.tried / REPLIES, Reply, "a reply")
        return {reply.request: reply.program for reply in read}

    def _kept(self, evidence: Evidence) -> tuple[KeptProgram, ...]:
        """Return the programs of the hypotheses that are kept, the best one first."""
        returned: dict[str, Any] = {}
        for label in self.labels:
            value = label.target[0] if isinstance(label.target, tuple) else label.target
            returned.setdefault(label.words, label.words if label.task == "choice" else value)
        kept, chosen = [], kept_of(evidence.hypotheses())
        for hypothesis, votes in zip(chosen, votes_of(chosen), strict=True):
            if hypothesis.candidate is not None:
                candidate = evidence.candidates[hypothesis.candidate]
            else:
                assert hypothesis.rule is not None
                program = rule_program(hypothesis.rule, evidence.measures, [*returned.values()])
                level = hypothesis.level
                thresholds = self.measuring[level].thresholds if level else {}
                candidate = Candidate(program, thresholds, origin="rule found from labels")
            kept.append(KeptProgram(**vars(candidate), votes=round(float(votes), 4)))
        return tuple(kept)

    def _judged(self, evidence: Evidence, judged: OutOfFold) -> tuple[JudgedCase, ...]:
        columns = judged.answers, judged.chosen, judged.right, judged.confidence, judged.agreeing
        found = []
        for label, number, chosen, right, *shares in zip(self.labels, *columns, strict=True):
            known = 0 <= number < len(evidence.words)
            words = evidence.words[number] if known else "none" if number == -1 else "another"
            if chosen >= 0 and number != -1:
                (answer,) = self.outcomes.answers(evidence.candidates[chosen].id, [label])
                words = words_of(answer, label) if answer else "none"
            case = JudgedCase(
                label.case, label.name, label.words, words, bool(right),
                *(round(float(share), 4) for share in shares),
            )  # fmt: skip
            found.append(case)
        return tuple(found)

    def _remarks(
        self, baselines: Mapping[str, Any], judged: OutOfFold, promise: Risk | None
    ) -> tuple[str, ...]:
        remarks = []
        for name, right in baselines.items():
            lead = int(right.sum() - judged.right.sum())
            if lead >= 0 and name != "zero-shot program":
                than = "better than" if lead else "as good as"
                remarks.append(f"the {name} would be {than} the program on these labels")
        if promise is not None and not promise.certified:
            given = f"{promise.answered:.0%} of cases get one, which keep it as likely as not"
            remarks.append(
                f"a risk of {self.settings.risk:g} is not certifiable and needs at least "
                f"{promise.more} more labels; with 90 % confidence at most {promise.bound:.0%} of "
                f"all answers are wrong; {given if promise.answered else 'all are withheld'}"
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
