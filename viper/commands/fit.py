"""``viper fit``: fit a program to a few labels, or name the pictures to label first."""

from __future__ import annotations

import csv
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from viper.commands import options as cli
from viper.commands.exported import profile_of
from viper.commands.on_ray import choice_of, opened_engine
from viper.commands.run_options import RayOptions
from viper.commands.terminal import evaluation_progress, hint_to_go_on, note, status
from viper.errors import UsageError
from viper.profiles.exported import ExportedProgram

if TYPE_CHECKING:
    from viper.evaluate.engines.sample_runner import Work
    from viper.jobs.job import JobRecord
    from viper.profiles.wiring import Profile


# Shows how many runs of programs are done.
show_runs = partial(evaluation_progress, scored=False)


@dataclass(frozen=True, kw_only=True)
class JobChoice(cli.DataTrust, cli.ProfileChoice):
    """Options of commands that continue a job."""


@dataclass(frozen=True, kw_only=True)
class FitChoice(RayOptions, JobChoice):
    """Options of commands that fit a table."""

    # fmt: off
    query: str | None = cli.option("--query", default=None,
        help="Question of all rows that have none of their own.")
    root: Path | None = cli.given_by(cli.root_option)
    requests: int = cli.option("--requests", type=click.IntRange(0, 1_000), default=24,
        help="Number of requests to the program writer; 0 asks none.")
    rounds: int = cli.option("--rounds", type=click.IntRange(0, 20), default=2,
        help="Number of times a chat model may rewrite the best program, told of wrong cases.")
    minutes: float | None = cli.option("--minutes", type=click.FloatRange(min=0, min_open=True),
        help="Begin no further programs after this time; what is known by then is fitted.")
    workers: int = cli.workers_field(
        "Number of cases at the same time; with --engine ray, in each actor.")
    seed: int = cli.seed_field()
    api: str | None = cli.given_by(cli.api_option)
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class FitOptions(FitChoice):
    """Options of ``viper fit``."""

    # fmt: off
    out: Path | None = cli.option("-o", "--out", type=cli.OutPath(), metavar="JOB",
        help="Folder of the job. A job that exists gets the labels of TABLE and is fitted again.")
    risk: float | None = cli.option("--risk", metavar="SHARE",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        help="Give only answers of which, with 90 % confidence, at most this share is wrong; with "
             "too few labels for that, those that keep it as likely as not.")
    suggest: int | None = cli.option("--suggest", type=click.IntRange(1), metavar="N",
        help="Print N pictures of the folder TABLE that are worth labelling first, as a table.")
    as_json: bool = cli.option("--json", help="Print the record of the job.")
    # fmt: on


@click.command()
@click.argument("table", required=False, type=click.Path(path_type=Path))
@cli.options_as(FitOptions)
def fit(options: FitOptions, table: Path | None) -> None:
    """Fit a program to the labels in TABLE, and write it as a job.

    TABLE is a CSV or JSON-lines file with the columns media and answer, from 8 rows on, and query
    if the rows do not share the one of --query. The writer of the profile proposes programs. They
    are edited, run at several thresholds, and compared with rules about what the models see; what
    explains most labels in the fewest words is kept. The report estimates by cross-validation how
    good the job is on other pictures, and says so if a simpler way to answer is as good.

    After Ctrl-C the same command continues. Without TABLE it fits the labels of JOB again, with
    those that viper review added.

    \b
    viper fit --suggest 20 photos/ > labels.csv      # then fill in the answers
    viper fit labels.csv --query "is the shelf empty?" --out shelf --risk 0.1
    viper apply shelf photos/ -o answers.csv
    viper fit labels.csv --out /shared/shelf --engine ray --ray-address auto
    """
    from viper.jobs.report import told

    if options.suggest is not None:
        if table is None:
            raise UsageError("--suggest needs the folder with the pictures")
        suggest(table, options.suggest, options.seed)
        return
    if options.out is None:
        raise UsageError("give the folder of the job, as --out JOB")
    record = fit_table(options, table, options.out, options.risk)
    if options.as_json:
        click.echo((options.out / "job.json").read_text("utf-8"))
        return
    for line in told(record):
        click.echo(line)
    click.echo(f"viper apply {options.out} FOLDER -o answers.csv")


def fit_table(
    options: FitChoice, table: Path | None, out: Path, risk: float | None = None
) -> JobRecord:
    """Fit the labels of a table, and those that a job has, and return the record of the job."""
    from viper.jobs.cases import check_labels, contradictions, latest, read_table
    from viper.jobs.fitting import fit as fitted
    from viper.jobs.job import JOB, FitSettings, Job, read_job

    labels = [] if table is None else read_table(table, options.query, options.root)
    contradictions(labels)
    if table is None and risk is None and (out / JOB).is_file():
        risk = read_job(out).settings.risk
    settings = FitSettings(options.requests, risk, options.seed, options.minutes, options.rounds)
    with Job(out) as job, hint_to_go_on():
        check_labels(latest([*job.labels(), *labels]))
        added = job.add(labels)
        note(f"{len(job.labels())} labels, {added} of them new")
        profile = job_profile(out, options)
        cli.fetch_models(profile)
        there = partial(_work_there, out, choice_of(JobChoice, options), options.workers)
        opened = partial(opened_engine, there, options, profile.document.threads)
        return fitted(
            job, profile, settings, note, show_runs, workers=options.workers, opened=opened
        )[0]


def _work_there(folder: Path, choice: JobChoice, workers: int) -> Work:
    """Return what an actor runs."""
    from viper.jobs.fitting import fit_work
    from viper.jobs.job import for_jobs

    profile = for_jobs(job_profile(folder, choice))
    return fit_work(profile, profile.components(), workers)


def job_profile(folder: Path, options: JobChoice) -> Profile:
    """Return the profile that the options name, else that of a job that was fitted before."""
    script = folder / "program.py"
    if options.profile == "auto" and script.is_file():
        exported = ExportedProgram.read(cli.read_program(script, 1 << 22))
        if exported is not None:
            # each of a job's programs has thresholds of its own
            return profile_of(replace(exported, thresholds={}), options, options.trust)
    return cli.open_profile(options)


def suggest(folder: Path, count: int, seed: int) -> None:
    """Print pictures of a folder that differ from each other and stand for the others."""
    from viper.data.own import folder_samples
    from viper.jobs.likeness import representatives
    from viper.schema import Query

    paths = [
        folder / each.files[0] for each in folder_samples(folder, Query("", "auto"), "").samples
    ]
    with status("looking at pictures"):
        chosen = representatives(paths, count, seed)
    is_below = not folder.is_absolute() and ".." not in folder.parts
    if not is_below:
        note(f"names are below {folder}: fit the table with --root {folder}")
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("media", "answer"))
    writer.writerows((path if is_below else path.relative_to(folder), "") for path in chosen)
