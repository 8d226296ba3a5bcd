"""``viper env``: environments for training, and runs as training data."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import click

from viper.commands.lazy_group import LazyGroup
from viper.commands.options import (
    OutPath,
    ProfileChoice,
    given_by,
    open_profile,
    option,
    options_as,
    root_option,
)
from viper.commands.terminal import status
from viper.env.export import TrainingData
from viper.errors import EXIT_FAILED, EXIT_OK, UsageError
from viper.evaluate.runs.samples import samples_of_run
from viper.evaluate.runs.store import RunStore
from viper.reasoner import Reasoner
from viper.storage.files import write_file

_COMMANDS = {
    "export": ("viper.commands.env:export", "Write the right programs of a run as training data.")
}


@click.group(cls=LazyGroup, paths=_COMMANDS, below=("env",))
def env() -> None:
    """Train agents on tasks with exact rewards.

    \b
    viper env export runs/first --format sft -o sft.jsonl
    """


@dataclass(frozen=True, kw_only=True)
class ExportOptions(ProfileChoice):
    """Options of ``viper env export``."""

    # fmt: off
    format: str = option("--format", type=click.Choice(["sft", "preference"]), required=True,
        help="sft: prompt and completion. preference: prompt, chosen and rejected.")
    out: Path | None = option("-o", "--out", type=OutPath(), metavar="FILE.jsonl",
        help="Write to this file instead of stdout.")
    unverified: bool = option("--unverified",
        help="Take right programs that no other scene and no check confirms, too.")
    force: bool = option("--force", help="Replace an existing file.")
    root: Path | None = given_by(root_option)
    # fmt: on


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@options_as(ExportOptions)
def export(options: ExportOptions, run: Path) -> int:
    """Write the right programs of RUN (a folder that viper eval wrote) as lines of JSON.

    Each line has a prompt, as `viper env` gives it at the start of an episode, and a program as
    the answer. Programs are verified: where the data set knows its scenes (world-everyday), they
    answer rightly about other scenes as well; else they passed the checks of viper eval --verify.

    \b
    viper eval world-everyday --split train:2 --limit 500 --out runs/first
    viper env export runs/first --format sft -o sft.jsonl
    viper env export runs/first --format preference -o pairs.jsonl
    """
    if options.out is not None and options.out.exists() and not options.force:
        raise UsageError(f"{options.out}: there already; choose another name or give --force")
    with RunStore.read(run) as store, Reasoner(open_profile(options), preload=False) as reasoner:
        samples = samples_of_run(store, options.root, {name for name, _ in store.done()})
        data = TrainingData(store, samples, reasoner.components, options.unverified)
        with status("verifying"):
            records = list(data.sft() if options.format == "sft" else data.preference())
    lines = "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)
    if options.out is None:
        click.echo(lines, nl=False)
    else:
        write_file(options.out, lines)
    left_out = ", ".join(f"{count} {reason}" for reason, count in data.left_out.most_common())
    click.echo(f"{len(records)} records; left out: {left_out or 'nothing'}", err=True)
    return EXIT_OK if records else EXIT_FAILED
