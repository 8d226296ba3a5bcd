"""``viper apply``: run one program on all pictures of a folder.

`apply` reads a program, or a script of ``viper export`` with its own profile and query. A `_Plan`
lists the pictures and builds what runs the program, here or in the actors of a cluster, and
`AnswersFile` holds the answers of earlier calls whose fingerprint is the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import click

from viper.commands import options as cli
from viper.commands.exported import profile_of, warn_of_models
from viper.commands.on_ray import opened_engine
from viper.commands.run_options import GIVEN_PROGRAMS, RayOptions, run_changes, run_settings
from viper.commands.terminal import evaluation_progress, hint_to_go_on, note, warn
from viper.data.own import FolderSamples, folder_samples
from viper.data.remote import remote_folder
from viper.errors import EXIT_FAILED, EXIT_OK, UsageError
from viper.evaluate.answers_file import SUFFIXES, AnswersFile
from viper.evaluate.campaign import bound_arenas, run
from viper.evaluate.engines.local import Bounds, LocalEngine
from viper.evaluate.engines.ray import Facts
from viper.evaluate.engines.sample_runner import (
    SHARED_MEDIA_BYTES,
    ItemRunner,
    SampleRunner,
    Work,
    items,
)
from viper.evaluate.metrics import metric
from viper.evaluate.runs.manifest import PACKAGES
from viper.jobs.answering import DOUBTFUL, JobRunner
from viper.jobs.job import PROGRAM as JOB_PROGRAM
from viper.jobs.job import read_job
from viper.plugins import need_packages
from viper.profiles import Profile
from viper.profiles.exported import ExportedProgram, deciding_facts
from viper.reasoner import Reasoner, RunOptions
from viper.schema import Query
from viper.storage.cache import ComputeCache
from viper.storage.json_lines import dumps
from viper.strategies.extract import shipped_program

# An exported script holds a profile beside its program.
MAX_SCRIPT_BYTES = 4 * cli.MAX_PROGRAM_BYTES

# Pictures in memory beside those of the workers, so that no worker waits for a disk; each takes
# some tens of megabytes.
_READ_AHEAD = 16

# Cached results, and again encodings, for each of these pictures: a program asks some eight
# questions about one. A picture that is done is never asked about again.
_RESULTS = 8


@dataclass(frozen=True, kw_only=True)
class ApplyOptions(RayOptions, cli.DataTrust, cli.ProfileChoice):
    """Options of ``viper apply``."""

    # fmt: off
    out: Path = cli.option("-o", "--out", type=cli.OutPath(), required=True,
        metavar="FILE.csv|FILE.jsonl",
        help="Table with a row for each picture or video; continued if it exists.")
    query: str | None = cli.option("--query", default=None,
        help="Text that the program receives as `question`. By default that of the export.")
    task: str | None = cli.option("--task", default=None,
        help="Task, which determines the type of the answer. By default that of the export, or "
             "auto.")
    choices: tuple[str, ...] = cli.option("--options", help='Candidate answers: "a; b; c".')
    fields: str = cli.given_by(cli.fields_option, "")
    retry: bool = cli.option("--retry-failed", help="Run again on pictures that failed before.")
    force: bool = cli.option("--force", help="Replace an existing table, whatever it holds.")
    workers: int = cli.workers_field(
        "Number of pictures at the same time; with --engine ray, in each actor.")
    quiet: bool = cli.given_by(cli.quiet_option)
    settings: Mapping[str, object] = run_settings(*GIVEN_PROGRAMS)
    api: str | None = cli.given_by(cli.api_option)
    learned: bool = cli.learned_field(by_default=False)
    # fmt: on


@dataclass(frozen=True)
class _Plan:
    """What a call of ``viper apply`` does, the same here and in the actors of a cluster."""

    options: ApplyOptions
    program: Path
    folder: str
    source: str
    is_shipped: bool

    def work(self) -> Work:
        """Return what an actor answers."""
        stack = ExitStack()
        opened = self.open(stack)
        todo = items(opened.listed.samples, (0,))
        return Work(todo, opened.engine, opened.facts, stack.close)

    def open(self, stack: ExitStack) -> _Opened:
        """List the files, and build what runs the program; ``stack`` ends it."""
        options, code, query = self.options, self.source, Query("", "auto")
        record = read_job(self.program) if self.program.is_dir() else None
        exported = ExportedProgram.read(self.source)
        if exported is not None and exported.media == "images":
            raise UsageError(
                f"{self.program}: its query is about several pictures together; run the script "
                "itself"
            )
        if exported is not None:
            code = exported.program
            query = Query(exported.query, exported.task, options=exported.options)
        asked = RunOptions(options=";".join(options.choices), fields=options.fields)
        query = Query(
            options.query or query.text,
            options.task or ("extract" if asked.fields else query.task),
            options=asked.options or query.options,
            fields=asked.fields,
        )
        if exported is not None and record is not None:
            exported = replace(exported, thresholds={})  # each program of a job has its own
        profile = (
            profile_of(exported, options, options.trust) if exported else cli.open_profile(options)
        )
        if self.is_shipped:
            profile = profile.with_ocr_alone()
        run_options = RunOptions(**run_changes(options.settings))
        bound_arenas()
        components = profile.components()
        toolbox, entries = components.toolbox, _RESULTS * (options.workers + _READ_AHEAD)
        toolbox = toolbox.with_caches(entries, toolbox.settings.cache_mb)
        reasoner = Reasoner(replace(components, toolbox=toolbox), preload=False)
        stack.callback(reasoner.close)
        deciding = [  # everything but the files that decides the answers
            version(PACKAGES["viper"]),
            code,
            query,
            remote_folder(self.folder) or str(Path(self.folder).resolve()),
            deciding_facts(profile),
            *run_options.changes.items(),
            *([] if record is None else [record.kept, record.weights, record.promise]),
        ]
        fingerprint = hashlib.sha256(dumps(deciding).encode()).hexdigest()[:16]
        listed = folder_samples(self.folder, query, fingerprint)
        media_cache = ComputeCache(options.workers + _READ_AHEAD, SHARED_MEDIA_BYTES)
        runner: ItemRunner = SampleRunner(
            reasoner, metric("answered"), run_options, media_cache, {"": code}
        )
        if record is not None:
            runner = JobRunner.of(record, reasoner.components, run_options, media_cache)
        engine = LocalEngine(runner, Bounds(options.workers))
        files = hashlib.sha256("".join(one.sample_id for one in listed.samples).encode())
        facts = {"program, query and profile": fingerprint, "files": files.hexdigest()[:16]}
        return _Opened(profile, reasoner, runner, engine, listed, exported, fingerprint, facts)


@dataclass(frozen=True)
class _Opened:
    """What a :class:`_Plan` opened."""

    profile: Profile
    reasoner: Reasoner
    runner: ItemRunner
    engine: LocalEngine
    listed: FolderSamples
    exported: ExportedProgram | None
    fingerprint: str
    facts: Facts


@click.command()
@click.argument("program", type=click.Path(path_type=Path, allow_dash=True))
@click.argument("folder")
@cli.options_as(ApplyOptions)
def apply(options: ApplyOptions, program: Path, folder: str) -> int:
    """Run PROGRAM on every picture and video below FOLDER, many at a time.

    FOLDER may be in a bucket: s3://bucket/photos or gs://bucket/photos.

    PROGRAM is a Python file as viper exec takes it, a script that viper export wrote, a job of
    viper fit, or - for standard input. A script brings its profile and thresholds along, a job also
    a confidence, and withholds what is doubtful. The name extract stands for the shipped program
    that reads the fields of --schema, each of which becomes a column.

    Each answer becomes a row of the table at once. After Ctrl-C or a crash, the same command
    continues: it answers about pictures that are new or changed, and removes the rows of those that
    are gone. A picture that fails, or cannot be read, gets a row with its failure. Hidden files,
    other files and links out of the folder are skipped. The exit code is 1 if a picture failed.

    \b
    viper apply leftmost.py photos/ -o answers.csv
    viper apply answer.py photos/ -o answers.jsonl --workers 32
    viper apply shelf-job photos/ -o answers.csv
    viper apply extract receipts/ -o receipts.csv --schema total:money,date:date
    viper apply shelf-job /shared/photos -o answers.csv --engine ray --ray-address auto --actors 8
    viper apply - photos/ -o answers.csv --query "cube" < find.py
    """
    out = options.out
    if out.suffix.lower() not in SUFFIXES or out.is_dir():
        raise UsageError(f"-o {out}: expected the name of a file that ends in .csv or .jsonl")
    on_ray = options.engine == "ray"
    if on_ray:
        need_packages(("ray",), "--engine ray")
    is_shipped = str(program) == "extract" and not program.exists()
    if is_shipped and not options.fields:
        raise UsageError("extract reads fields; name them, as --schema total:money,date:date")
    path = program / JOB_PROGRAM if program.is_dir() else program
    source = shipped_program() if is_shipped else cli.read_program(path, MAX_SCRIPT_BYTES)
    plan = _Plan(options, program, folder, source, is_shipped)
    with ExitStack() as stack:
        opened = plan.open(stack)
        samples = opened.listed.samples
        table = stack.enter_context(
            AnswersFile(out, samples, opened.fingerprint, anew=options.force, retry=options.retry)
        )
        for remark in opened.listed.notes() if not options.quiet else ():
            note(f"viper: {remark}")
        if table.dropped:
            note(f"viper: removed {table.dropped} rows of files that changed or are gone")
        cli.fetch_models(opened.profile)
        stack.enter_context(hint_to_go_on())
        todo = items(samples, (0,))
        here = Work(todo, opened.engine, opened.facts, stack.close)
        threads = opened.profile.document.threads
        engine = stack.enter_context(opened_engine(plan.work, options, threads, here))
        with evaluation_progress(len(samples), len(table.done()), scored=False) as progress:
            running = run(engine, todo, table, on_done=lambda _, now: progress(now)).running
        table.finish()
        if opened.exported is not None and not on_ray:
            warn_of_models(opened.exported, opened.reasoner)
    runner = opened.runner
    doubtful = running.failures.pop(DOUBTFUL, 0)
    if doubtful:
        note(f"viper: {doubtful} of {running.total} answers are doubtful and withheld")
    # with Ray the actors see the pictures, and drift is not judged
    for warning in runner.warnings() if isinstance(runner, JobRunner) and not on_ray else ():
        warn(warning)
    if running.failed:
        kinds = ", ".join(f"{kind} {count}" for kind, count in running.failures.most_common())
        note(f"viper: {running.failed} of {running.total} failed ({kinds}); {out} has the reasons")
    return EXIT_FAILED if running.failed else EXIT_OK
