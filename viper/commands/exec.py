"""``viper exec``: run your own program on images or a video."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from viper.commands import options as cli
from viper.commands.present import print_result, trial_line
from viper.commands.run_options import GIVEN_PROGRAMS, run_changes, run_settings
from viper.commands.terminal import note
from viper.reasoner import RunOptions


@dataclass(frozen=True, kw_only=True)
class ExecOptions(cli.ProfileChoice):
    """Options of ``viper exec``."""

    # fmt: off
    query: str = cli.option("--query", default="",
        help="Text that the program receives as `question`.")
    task: str = cli.option("--task", default="auto",
        help="Task, which determines the type of the answer.")
    choices: tuple[str, ...] = cli.option("--options", help='Candidate answers: "a; b; c".')
    fields: str = cli.given_by(cli.fields_option, "")
    as_json: bool = cli.option("--json", help="Print one JSON object with the whole trace.")
    save: Path | None = cli.option("--save", type=cli.OutFile("picture"),
        help="Draw the answer on the image and write the image to this file.")
    json_schema: int = cli.given_by(cli.schema_option)
    page: int | None = cli.given_by(cli.page_option)
    verbose: bool = cli.given_by(cli.verbose_option)
    quiet: bool = cli.given_by(cli.quiet_option)
    settings: Mapping[str, object] = run_settings(*GIVEN_PROGRAMS)
    api: str | None = cli.given_by(cli.api_option)
    learned: bool = cli.learned_field()
    # fmt: on


@click.command("exec")
@click.argument("program", type=click.Path(path_type=Path, allow_dash=True))
@click.argument("media", nargs=-1, required=True, type=cli.MEDIA)
@cli.options_as(ExecOptions)
def execute(execution: ExecOptions, program: Path, media: tuple[str, ...]) -> int:
    """Run PROGRAM, a Python file that calls the API, on MEDIA in the sandbox.

    PROGRAM - is standard input.

    Related: viper apply runs a program on all pictures of a folder; viper export writes the program
    of an answer as a script.

    \b
    viper exec leftmost.py table.png --task ground
    """
    source = cli.read_program(program)
    loaded = cli.read_media(media, execution.page)
    choices, changes = ";".join(execution.choices), run_changes(execution.settings)
    options = RunOptions(execution.task, choices, fields=execution.fields, **changes)
    with cli.open_reasoner(execution) as reasoner:
        result = reasoner.execute(source, loaded, execution.query, options)
    for trial in result.trace.trials if execution.verbose else ():
        note(trial_line(trial))
    as_json = execution.as_json and execution.json_schema
    return print_result(result, execution.save, as_json=as_json, quiet=execution.quiet)
