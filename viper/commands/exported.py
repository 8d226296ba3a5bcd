"""``viper export``: an answer's program as a script of your own, and the script's command line.

`export` takes the trace of a run's sample, or of ``viper run --json``, and writes the script. The
script calls `main` with its literal, which runs the program on the pictures of the command line.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from viper.commands import options as cli
from viper.commands.present import answer_line
from viper.commands.terminal import echo_json, end_with, note, status, warn
from viper.errors import EXIT_FAILED, EXIT_OK, MediaError, UsageError
from viper.escape import for_terminal
from viper.evaluate.runs.store import RunStore
from viper.profiles.exported import ExportedProgram
from viper.profiles.wiring import Profile
from viper.reasoner import Reasoner, RunOptions
from viper.record import RecordError, record_from_json, result_record, trace_from_record
from viper.schema import to_json
from viper.storage.files import write_file


@dataclass(frozen=True, kw_only=True)
class ScriptOptions(cli.ProfileChoice):
    """Options of an exported script."""

    # fmt: off
    as_json: bool = cli.option("--json",
        help="Print one JSON object with the whole trace for each picture.")
    # fmt: on


def main(values: Mapping[str, Any]) -> None:
    """Run the script on the pictures of the command line, and end the process.

    Args:
        values: the literal of the script.
    """
    exported = record_from_json(ExportedProgram, values)

    @click.command(context_settings={"help_option_names": ["-h", "--help"]})
    @click.argument("pictures", nargs=-1, required=True, metavar="PICTURE...")
    @cli.options_as(ScriptOptions)
    def script(options: ScriptOptions, pictures: tuple[str, ...]) -> int:
        # Whoever runs the script as a program trusts what is in it.
        profile = profile_of(exported, options, trust=True)
        cli.fetch_models(profile)
        exit_code = EXIT_OK
        together = exported.media == "images"
        with Reasoner(profile, preload=False) as reasoner:
            of_query = RunOptions(task=exported.task, options=exported.options)
            for media in [list(pictures)] if together else [[each] for each in pictures]:
                single = together or len(pictures) == 1
                name = "" if single else f"{for_terminal(f'{Path(media[0]).name}:')} "
                try:
                    with status("answering"):
                        result = reasoner.execute(exported.program, media, exported.query, of_query)
                except MediaError as error:
                    note(f"viper: {error}")
                    exit_code = EXIT_FAILED
                    continue
                if options.as_json:
                    echo_json({"media": media, **result_record(result.trace)})
                else:
                    click.echo(f"{name}{answer_line(result)}")
                if result.answer is None:
                    exit_code = EXIT_FAILED
            warn_of_models(exported, reasoner)
        return exit_code

    about = f"Answer about each PICTURE (an image or a video): {for_terminal(exported.query, 200)}"
    script.help = f"{about}\n\nThe profile of the export answers unless --profile names another."
    end_with(script, prog_name="python SCRIPT")


def profile_of(exported: ExportedProgram, choice: cli.ProfileChoice, trust: bool) -> Profile:
    """Return the profile of an export, or the one that ``--profile`` names, with its thresholds.

    Args:
        trust: see :meth:`viper.profiles.exported.ExportedProgram.pinned_profile`.
    """
    if choice.profile != "auto":
        return exported.tuned(cli.open_profile(choice))
    cli.quiet_libraries(choice.offline)
    return exported.pinned_profile(
        sandbox=choice.sandbox,
        trust=trust,
        state=choice.state,
        max_memory_gb=choice.max_memory_gb,
        learned=choice.learned,
        api=choice.api,
    )


def warn_of_models(exported: ExportedProgram, reasoner: Reasoner) -> None:
    """Warn of loaded models that are not those which gave the exported answer."""
    for role, model in reasoner.components.toolbox.models.loaded().items():
        seen, pinned = str(getattr(model, "model_id", "")), exported.models.get(role)
        if pinned and seen and seen != pinned:
            warn(f"the {role} is {seen}; the export used {pinned}")


# Ids that differ in a digit are alike; more than three would not help to find the typing error.
_NEAR = 3


@dataclass(frozen=True, kw_only=True)
class ScriptExportOptions(cli.DataTrust, cli.ProfileChoice):
    """Options of ``viper export``."""

    # fmt: off
    out: Path = cli.option("-o", "--out", type=cli.OutPath(), required=True, metavar="FILE.py",
        help="The script to write.")
    force: bool = cli.option("--force",
        help="Replace an existing file, and export a program that gave no answer or a wrong one.")
    seed: int = cli.seed_field("Seed of the sample, in a run with several.")
    # fmt: on


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("sample", required=False)
@cli.options_as(ScriptExportOptions)
def export(options: ScriptExportOptions, run: Path, sample: str | None) -> None:
    """Write the program of SAMPLE in RUN (a folder that viper eval wrote) as a Python script.

    The script holds the program, its query, the thresholds of the trial that answered and the
    resolved profile, and runs the program in the sandbox of viper. RUN may also be a file with the
    output of viper run --json; its models are then those of --profile.

    \b
    viper export runs/first val-0-video-1 -o answer.py
    viper run table.png "what color is the left cube?" --json > run.json
    viper export run.json -o answer.py
    python answer.py other.png
    viper apply answer.py photos/ -o answers.csv
    """
    if options.out.suffix != ".py":
        raise UsageError(f"-o {options.out}: the name of a script ends in .py")
    if options.out.exists() and not options.force:
        raise UsageError(f"{options.out}: there already; choose another name or give --force")
    if run.is_file():
        if sample is not None:
            raise UsageError(f"{run}: holds one answer; leave out {sample!r}")
        exported = _of_record(run, options)
    elif sample is None:
        raise UsageError(f"{run}: which sample? give its id, as viper view shows it")
    else:
        exported = _of_run(run, sample, options)
    write_file(options.out, exported.script(options.out.name))
    note(f"{options.out}: python {options.out} PICTURE...")


def _of_run(folder: Path, sample: str, options: ScriptExportOptions) -> ExportedProgram:
    with RunStore.read(folder) as store:
        row = store.row(sample, options.seed)
        if row is None:
            keys = store.done()
            seeds = ", ".join(str(seed) for name, seed in sorted(keys) if name == sample)
            if seeds:
                raise UsageError(f"sample {sample!r} has no seed {options.seed}; known: {seeds}")
            names = sorted({name for name, _ in keys})
            near = ", ".join(difflib.get_close_matches(sample, names, _NEAR, cutoff=0.0))
            raise UsageError(
                f"unknown sample {sample!r} in {folder}; the nearest are: "
                f"{near or 'none, the run is empty'}"
            )
        if not options.force:
            _check_answered(sample, row.failure)
            if row.score <= 0:
                raise UsageError(
                    f"sample {sample!r}: its answer is wrong (score {row.score:g}); choose "
                    "another, or give --force"
                )
        trace = store.read_trace(sample, options.seed)
        if trace is None:
            raise UsageError(f"sample {sample!r}: no program ran ({row.failure}: {row.message})")
        manifest = store.manifest
    exported = ExportedProgram.of(trace, manifest.document, manifest.models, manifest.routines)
    exported.pinned_profile(trust=options.trust)  # for its checks
    return exported


def _of_record(file: Path, options: ScriptExportOptions) -> ExportedProgram:
    try:
        trace = trace_from_record(json.loads(file.read_text("utf-8")))
    except (RecordError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{file}: neither the folder of a run nor the output of viper run --json "
            f"({str(error)[:80]})"
        ) from None
    if trace.task == "choice":
        raise UsageError(f"{file}: does not hold the options of the choice; export from a run")
    if not options.force:
        _check_answered(trace.query.text[:60], trace.failure.kind if trace.failure else None)
    return ExportedProgram.of(trace, to_json(cli.open_profile(options).document), {})


def _check_answered(name: str, failure: str | None) -> None:
    if failure is not None:
        raise UsageError(f"{name!r} has no answer ({failure}); choose another, or give --force")
