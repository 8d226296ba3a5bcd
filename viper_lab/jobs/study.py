"""Fits every job at every size under every seed, and judges it on pictures that it has not seen.

A job of a seed has one folder, whose labels grow from size to size, as a user's do. Each
measurement is a line of ``rows.jsonl``; what is there is not measured again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from PIL import Image

from viper.evaluate.intervals import Estimate, paired, proportion
from viper.jobs.candidates import Candidate, measures_of, measuring, normal_form
from viper.jobs.cases import Label
from viper.jobs.choice import baselines, upper_bound
from viper.jobs.evidence import embeddings, gather
from viper.jobs.fitting import Reply, fit
from viper.jobs.job import REPLIES, FitSettings, Job, JobRecord, for_jobs
from viper.jobs.outcomes import Outcomes, candidate_engine, run_candidates
from viper.profiles.wiring import Profile
from viper.storage.json_lines import append_line, read_lines
from viper.strategies.base import Components

ROWS = "rows.jsonl"

# Labels of a job; the data of some allow fewer.
SIZES = (20, 60, 120)

# Risk that is asked for, by the number of labels.
RISKS = {20: 0.10, 60: 0.10, 120: 0.05}

SILENT: Any = lambda total, done: nullcontext(lambda running: None)  # noqa: E731


@dataclass(frozen=True)
class StudyJob:
    """A job to measure.

    Attributes:
        draw: returns labelled cases of a part (``labels`` or ``test``) under a seed.
        profile: answers it.
    """

    name: str
    group: str
    profile: Profile
    draw: Callable[[str, int, int], list[Label]]


@dataclass(frozen=True)
class Row:
    """One job of one size and seed, judged on the test cases.

    Attributes:
        fitted, zero_shot, neighbours, majority: whether each test case is answered rightly.
        low, high: interval of the estimate.
        warned: whether the report named a simpler way as good.
        certified: whether the risk was promised.
        given: whether each test case gets an answer.
        seconds: time of the fit.
    """

    job: str
    group: str
    size: int
    seed: int
    fitted: tuple[bool, ...]
    zero_shot: tuple[bool, ...]
    neighbours: tuple[bool, ...]
    majority: tuple[bool, ...]
    estimate: float
    low: float
    high: float
    warned: bool
    risk: float
    certified: bool
    bound: float
    given: tuple[bool, ...]
    seconds: float
    requests: int
    program: str
    origin: str

    @property
    def key(self) -> tuple[str, int, int]:
        return self.job, self.size, self.seed


def part_of(every: list[Label], part: str, seed: int, count: int) -> list[Label]:
    """Return labelled cases of a fixed set: a third is the test under every seed."""
    Random(0).shuffle(every)
    third = len(every) // 3
    if part == "test":
        return every[:third][:count]
    labels = every[third:]
    Random(seed).shuffle(labels)
    return labels[:count]


def save_png(path: Path, picture: Image.Image) -> None:
    """Save a picture whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    picture.save(part, "PNG")
    part.replace(path)


def folder_of(job: StudyJob, seed: int, out: Path) -> Path:
    """Return the folder in which a job is fitted under a seed."""
    return out / "fitted" / f"{job.name.replace(' ', '-').replace(',', '')}-{seed}"


def measure_job(
    job: StudyJob, sizes: Sequence[int], seed: int, tests: int, out: Path, rows: dict[Any, Row]
) -> Iterator[Row]:
    """Yield the rows of a job under a seed; those that are there already are not made again."""
    folder = folder_of(job, seed, out)
    labels = job.draw("labels", seed, max(sizes))
    for size in sorted({min(size, len(labels)) for size in sizes}):
        if (job.name, size, seed) in rows:
            continue
        risk = RISKS.get(size, 0.10)
        started = time.monotonic()
        with Job(folder) as opened:
            opened.add(labels[:size])
            settings = FitSettings(risk=risk, seed=seed)
            record, _ = fit(opened, job.profile, settings, lambda text: None, SILENT)
            tried = opened.tried(for_jobs(job.profile))
        seconds = time.monotonic() - started
        test = job.draw("test", 0, tests)
        with closing(for_jobs(job.profile).components()) as components:
            row = judged(job, record, components, tried, labels[:size], test, seed, seconds)
        append_line(out / ROWS, row)
        yield row


def judged(
    job: StudyJob,
    record: JobRecord,
    components: Components,
    tried: Path,
    labels: Sequence[Label],
    test: Sequence[Label],
    seed: int,
    seconds: float,
) -> Row:
    """Judge a fitted job on test cases."""
    outcomes, promise = Outcomes(tried), record.promise
    assert promise is not None
    replies = read_lines(tried / REPLIES, Reply, "a reply")
    programs = [normal_form(reply.program) for reply in replies]
    first = Candidate(next((program for program in programs if program), ""))
    kept = record.kept
    run_candidates(candidate_engine(components), [*kept, first], test, outcomes, SILENT)

    def right(candidate: Candidate) -> tuple[bool, ...]:
        return tuple(map(Label.is_right, test, outcomes.answers(candidate.id, test)))

    given = []
    for found in zip(*(outcomes.answers(each.id, test) for each in kept), strict=True):
        confidence = record.confidence(record.agreement(found))
        given.append(found[0] is not None and confidence >= promise.limit)
    near, common = _baselines(components, outcomes, programs, labels, test)
    result = Row(
        job.name, job.group, len(labels), seed, right(kept[0]), right(first),
        near, common, record.estimate.value, record.estimate.low, record.estimate.high,
        any("would be" in remark for remark in record.remarks), record.settings.risk or 0.0,
        promise.certified, promise.bound, tuple(given), round(seconds, 1), record.requests,
        record.kept[0].program, record.kept[0].origin,
    )  # fmt: skip
    outcomes.close()
    return result


def _baselines(
    components: Components,
    outcomes: Outcomes,
    programs: Sequence[str],
    labels: Sequence[Label],
    test: Sequence[Label],
) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
    """Return whether nearest neighbours and the commonest answer are right on the test cases."""
    every = [*labels, *test]
    if labels[0].task == "ground":
        nothing = (False,) * len(test)
        return nothing, nothing
    measures = measures_of(components, labels, [program for program in programs if program])
    plain = measuring(measures, components)[:1]
    run_candidates(candidate_engine(components), plain, every, outcomes, SILENT)
    embedded = embeddings(components, every)
    evidence = gather(every, outcomes, [], measures, plain, embedded)
    train, asked = np.arange(len(labels)), np.arange(len(labels), len(every))
    near, common = (tuple(map(bool, each)) for each in baselines(evidence, train, asked))
    return near, common


def read_rows(out: Path) -> dict[Any, Row]:
    """Return the rows of earlier sessions."""
    return {row.key: row for row in read_lines(out / ROWS, Row, "a row")}


def share(flags: Sequence[bool]) -> Estimate:
    return proportion(sum(flags), len(flags))


def gain(before: Sequence[bool], after: Sequence[bool]) -> Estimate:
    return paired([float(x) for x in before], [float(x) for x in after]).difference


def realised(row: Row) -> tuple[float, bool]:
    """Return the risk of the given answers, and whether it is surely above the one asked for."""
    wrong = [not right for right, given in zip(row.fitted, row.given, strict=True) if given]
    if not wrong:
        return 0.0, False
    least = 1 - upper_bound(len(wrong) - sum(wrong), len(wrong), 0.05)
    return sum(wrong) / len(wrong), least > row.risk
