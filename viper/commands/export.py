"""``viper export``: write the program of an answer as a script of your own."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from viper.commands.options import (
    OutPath,
    ProfileChoice,
    given_by,
    open_profile,
    option,
    options_as,
    seed_option,
)
from viper.errors import UsageError
from viper.evaluate.runs.store import RunStore
from viper.profiles.exported import ExportedProgram
from viper.record import RecordError, record_from_json, trace_from_record
from viper.schema import Trace, to_json
from viper.storage.files import write_file

# Ids that differ in a digit are alike; more than three would not help to find the typing error.
_NEAR = 3


@dataclass(frozen=True, kw_only=True)
class ExportOptions(ProfileChoice):
    """Options of ``viper export``."""

    # fmt: off
    out: Path = option("-o", "--out", type=OutPath(), required=True, metavar="FILE.py",
        help="The script to write.")
    force: bool = option("--force",
        help="Replace an existing file, and export a program that gave no answer or a wrong one.")
    seed: int = given_by(seed_option("Seed of the sample, in a run with several."))
    # fmt: on


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("sample", required=False)
@options_as(ExportOptions)
def export(options: ExportOptions, run: Path, sample: str | None) -> None:
    """Write the program of SAMPLE in RUN (a folder that viper eval wrote) as a Python script.

    The script holds the program, its query, the thresholds of the trial that answered and the
    resolved profile, and runs the program in the sandbox of viper. RUN may also be a file with the
    output of viper run --json; its models are then those of --profile.

    \b
    viper export runs/first world-val-12 -o answer.py
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
        trace, document, models = _of_record(run, options)
    elif sample is None:
        raise UsageError(f"{run}: which sample? give its id, as viper view shows it")
    else:
        trace, document, models = _of_run(run, sample, options)
    exported = ExportedProgram.of(trace, document, models)
    write_file(options.out, exported.script(options.out.name))
    click.echo(f"{options.out}: python {options.out} PICTURE...", err=True)


def _of_run(
    folder: Path, sample: str, options: ExportOptions
) -> tuple[Trace, Mapping[str, Any], Mapping[str, str]]:
    with RunStore.read(folder) as store:
        row = store.row(sample, options.seed)
        if row is None:
            raise UsageError(_unknown(store, sample, options.seed))
        if not options.force:
            _check_answered(sample, row.failure)
            if row.score <= 0:
                raise UsageError(
                    f"sample {sample!r}: its answer is wrong (score {row.score:g}); choose "
                    "another, or give --force"
                )
        values = store.trace(sample, options.seed)
        if values is None:
            raise UsageError(f"sample {sample!r}: no program ran ({row.failure}: {row.message})")
        manifest = store.manifest
    return record_from_json(Trace, values), manifest.document, manifest.models


def _unknown(store: RunStore, sample: str, seed: int) -> str:
    """Return the message about a sample that a run does not hold."""
    keys = store.done()
    seeds = sorted(other for name, other in keys if name == sample)
    if seeds:
        return f"sample {sample!r} has no seed {seed}; known: {', '.join(map(str, seeds))}"
    near = difflib.get_close_matches(sample, sorted({name for name, _ in keys}), _NEAR, cutoff=0.0)
    names = ", ".join(near) or "none, the run is empty"
    return f"unknown sample {sample!r} in {store.folder}; the nearest are: {names}"


def _of_record(
    file: Path, options: ExportOptions
) -> tuple[Trace, Mapping[str, Any], Mapping[str, str]]:
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
    return trace, to_json(open_profile(options).document), {}


def _check_answered(name: str, failure: str | None) -> None:
    if failure is not None:
        raise UsageError(f"{name!r} has no answer ({failure}); choose another, or give --force")
