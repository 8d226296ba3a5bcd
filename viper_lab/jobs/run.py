"""Runs the study of jobs from beginning to end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from viper.commands.terminal import hint_to_go_on, note
from viper.evaluate.campaign import bound_arenas
from viper.jobs.cases import Label
from viper.profiles import load_profile
from viper_lab.jobs.nlvr_jobs import nlvr_jobs
from viper_lab.jobs.real_jobs import real_jobs
from viper_lab.jobs.receipt_jobs import receipt_jobs
from viper_lab.jobs.report import reproduction
from viper_lab.jobs.simulated import LEAST_LABELS, read_simulated, simulate
from viper_lab.jobs.study import StudyJob, measure_job, read_rows
from viper_lab.jobs.world_jobs import JOBS, WorldJob, draw
from viper_lab.papers.job import print_report
from viper_lab.photographs.job import PhotographJob

# One of each sort, and four whose words do not tell what is meant.
QUICK = ("red", "ball", "more cubes", "leftmost color", "dangerous", "ours", "line", "tidy")

TESTS, QUICK_TESTS = 200, 100

# Numbers of scenes apart: labels of a seed, and test cases.
_A_SEED, _TESTS_FROM = 10_000, 500_000


def measure(
    out: Path,
    split: str,
    data: Path | None,
    quick: bool,
    seeds: int,
    sizes: Sequence[int],
    *,
    as_json: bool,
) -> int:
    """Measure what is missing, print the reproduction and return the exit code."""
    began = time.monotonic()
    bound_arenas()
    out.mkdir(parents=True, exist_ok=True)
    profile = load_profile("embedded")
    jobs = [
        StudyJob(job.name, "vague" if job.vague else "clips" if job.clip else "plain", profile,
                 partial(_drawn, job, split, out / "pictures"))
        for job in JOBS
        if not quick or job.name in QUICK
    ]  # fmt: skip
    if data is not None:
        real = PhotographJob(data, out / "real")
        jobs += [*real_jobs(real), *receipt_jobs(real), *nlvr_jobs(real)]
    sizes, seeds, tests = (sizes[:1], 1, QUICK_TESTS) if quick else (sizes, seeds, TESTS)
    rows, simulated = read_rows(out), read_simulated(out)
    with hint_to_go_on():
        for seed in range(seeds):
            for job in jobs:
                for row in measure_job(job, sizes, seed, tests, out, rows):
                    rows[row.key] = row
                    right = f"{100 * sum(row.fitted) / len(row.fitted):.1f} %"
                    note(
                        f"{job.name}, {row.size} labels, seed {seed}: {right} right, zero-shot "
                        f"{100 * sum(row.zero_shot) / len(row.zero_shot):.1f} %, estimated "
                        f"{100 * row.estimate:.0f} %, {row.seconds:.0f} s"
                    )
                if max(sizes) >= LEAST_LABELS:
                    simulate(job, seed, out, simulated)
    facts = {"split": split, "profile": profile.name, "tests": tests, "seeds": seeds}
    chosen = [row for row in rows.values() if row.seed < seeds and row.size <= max(sizes)]
    names = {job.name for job in jobs}
    chosen = [row for row in chosen if row.job in names]
    if not chosen:
        raise click.UsageError("nothing was measured")
    found = reproduction(chosen, [*simulated.values()], facts)
    return print_report(found, out, began, as_json=as_json)


def _drawn(
    job: WorldJob, split: str, folder: Path, part: str, seed: int, count: int
) -> list[Label]:
    first = _TESTS_FROM if part == "test" else (seed + 1) * _A_SEED
    return draw(job, split, first, count, folder)
