"""``viper apply``: run one program on all pictures of a folder.

`apply` reads a program, or a script of ``viper export`` with its own profile and query.
`folder_samples` lists the pictures, and `AnswersFile` holds the answers of earlier calls whose
fingerprint is the same. `_answer` runs the program on the others, on threads.
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
from viper.commands.run_options import GIVEN_PROGRAMS, run_changes, run_settings
from viper.commands.terminal import evaluation_progress, hint_to_go_on, note
from viper.data.own import folder_samples
from viper.errors import EXIT_FAILED, EXIT_OK, UsageError
from viper.evaluate.answers_file import SUFFIXES, AnswersFile
from viper.evaluate.campaign import bound_arenas, run
from viper.evaluate.engines.local import Bounds, LocalEngine
from viper.evaluate.engines.sample_runner import SHARED_MEDIA_BYTES, ItemRunner, SampleRunner, items
from viper.evaluate.metrics import metric
from viper.evaluate.runs.manifest import PACKAGES, decisive_tables
from viper.jobs.answering import DOUBTFUL, JobRunner
from viper.jobs.job import PROGRAM as JOB_PROGRAM
from viper.jobs.job import read_job
from viper.profiles.exported import ExportedProgram
from viper.reasoner import Reasoner, RunOptions
from viper.schema import Query, to_json
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
class ApplyOptions(cli.DataTrust, cli.ProfileChoice):
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
    workers: int = cli.workers_field("Number of pictures at the same time.")
    quiet: bool = cli.given_by(cli.quiet_option)
    settings: Mapping[str, object] = run_settings(*GIVEN_PROGRAMS)
    api: str | None = cli.given_by(cli.api_option)
    learned: bool = cli.learned_field(by_default=False)
    # fmt: on


@click.command()
@click.argument("program", type=click.Path(path_type=Path, allow_dash=True))
@click.argument("folder", type=click.Path(path_type=Path))
@cli.options_as(ApplyOptions)
def apply(options: ApplyOptions, program: Path, folder: Path) -> int:
    """Run PROGRAM on every picture and video below FOLDER, many at a time.

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
    viper apply - photos/ -o answers.csv --query "cube" < find.py
    """
    out = options.out
    if out.suffix.lower() not in SUFFIXES or out.is_dir():
        raise UsageError(f"-o {out}: expected the name of a file that ends in .csv or .jsonl")
    record = read_job(program) if program.is_dir() else None
    if record is not None:
        program /= JOB_PROGRAM
    is_shipped = str(program) == "extract" and not program.exists()
    if is_shipped and not options.fields:
        raise UsageError("extract reads fields; name them, as --schema total:money,date:date")
    source = shipped_program() if is_shipped else cli.read_program(program, MAX_SCRIPT_BYTES)
    exported = ExportedProgram.read(source)
    if exported is not None and exported.media == "images":
        raise UsageError(
            f"{program}: its query is about several pictures together; run the script itself"
        )
    code, query = source, Query("", "auto")
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
    if is_shipped:
        profile = profile.with_ocr_alone()
    run_options = RunOptions(**run_changes(options.settings))
    bound_arenas()
    with ExitStack() as stack:
        components = profile.components()
        toolbox, entries = components.toolbox, _RESULTS * (options.workers + _READ_AHEAD)
        toolbox = toolbox.with_caches(entries, toolbox.settings.cache_mb)
        reasoner = Reasoner(replace(components, toolbox=toolbox), preload=False)
        stack.callback(reasoner.close)
        facts = [  # everything but the files that decides the answers
            version(PACKAGES["viper"]),
            code,
            query,
            str(folder.resolve()),
            components.settings.api,
            [source.text for source in components.library.prelude().sources],
            decisive_tables(to_json(profile.document)),
            getattr(toolbox.soft_prompts, "fingerprint", ""),
            *run_options.changes.items(),
            *([] if record is None else [record.kept, record.weights, record.promise]),
        ]
        fingerprint = hashlib.sha256(dumps(facts).encode()).hexdigest()[:16]
        listed = folder_samples(folder, query, fingerprint)
        table = stack.enter_context(
            AnswersFile(out, listed.samples, fingerprint, anew=options.force, retry=options.retry)
        )
        for remark in listed.notes() if not options.quiet else ():
            note(f"viper: {remark}")
        if table.dropped:
            note(f"viper: removed {table.dropped} rows of files that changed or are gone")
        cli.fetch_models(profile)
        stack.enter_context(hint_to_go_on())
        media_cache = ComputeCache(options.workers + _READ_AHEAD, SHARED_MEDIA_BYTES)
        runner: ItemRunner = SampleRunner(
            reasoner, metric("answered"), run_options, media_cache, {"": code}
        )
        if record is not None:
            runner = JobRunner.of(record, reasoner.components, run_options, media_cache)
        engine = LocalEngine(runner, Bounds(options.workers))
        total, done = len(listed.samples), len(table.done())
        with evaluation_progress(total, done, scored=False) as progress:
            todo = items(listed.samples, (0,))
            running = run(engine, todo, table, on_done=lambda _, now: progress(now)).running
        table.finish()
        if exported is not None:
            warn_of_models(exported, reasoner)
    doubtful = running.failures.pop(DOUBTFUL, 0)
    if doubtful:
        note(f"viper: {doubtful} of {running.total} answers are doubtful and withheld")
    for warning in runner.warnings() if isinstance(runner, JobRunner) else ():
        note(f"viper: warning: {warning}")
    if running.failed:
        kinds = ", ".join(f"{kind} {count}" for kind, count in running.failures.most_common())
        note(f"viper: {running.failed} of {running.total} failed ({kinds}); {out} has the reasons")
    return EXIT_FAILED if running.failed else EXIT_OK
