"""``viper exec``: run your own program on images or a video."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import click

from viper.commands import options as cli
from viper.commands.present import print_result, trial_line
from viper.commands.terminal import note
from viper.errors import MediaError, UsageError
from viper.reasoner import RunOptions
from viper.storage.files import file_errors

# The sandbox refuses longer programs; this says so before anything is loaded.
MAX_PROGRAM_BYTES = 64 * 1024


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
    source = read_program(program)
    loaded = cli.read_media(media, execution.page)
    choices = ";".join(execution.choices)
    options = RunOptions(execution.task, choices, fields=execution.fields)
    with cli.open_reasoner(execution) as reasoner:
        result = reasoner.execute(source, loaded, execution.query, options)
    for trial in result.trace.trials if execution.verbose else ():
        note(trial_line(trial))
    as_json = execution.as_json and execution.json_schema
    return print_result(result, execution.save, as_json=as_json, quiet=execution.quiet)


def read_program(path: Path, max_bytes: int = MAX_PROGRAM_BYTES) -> str:
    """Return the text of a program's file.

    Raises:
        UsageError: it is missing, too large or no text.
    """
    if str(path) == "-":
        content = sys.stdin.buffer.read(max_bytes + 1)
    elif not path.is_file():
        raise MediaError(f"{path}: no such program file")
    else:
        with file_errors(path), path.open("rb") as file:
            content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise UsageError(f"{path}: more than {max_bytes:,} bytes; expected a program")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8 text; expected a Python program") from None
