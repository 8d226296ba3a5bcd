"""``viper exec``: run a program of one's own against pictures or a video."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from viper.commands.options import (
    api_option,
    learned_option,
    open_reasoner,
    profile_options,
    split_options,
)
from viper.commands.out_path import OutPath
from viper.commands.run import _print
from viper.errors import MediaError, UsageError

MAX_PROGRAM_BYTES = 64 * 1024


@click.command("exec")
@click.argument("program", type=click.Path(path_type=Path))
@click.argument("media", nargs=-1, required=True)
@click.option("--query", default="", help="What the program gets as `question`.")
@click.option("--task", default="auto", show_default=True, help="What must come out.")
@click.option("--options", "choices", multiple=True, help='Candidate answers: "a; b; c".')
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with the whole trace.")
@click.option("--save", type=OutPath(), default=None, help="Draw the answer.")
@api_option
@learned_option()
@profile_options
def execute(program: Path, media: tuple[str, ...], **given: Any) -> int:
    """Run PROGRAM (Python against the API) on MEDIA, in the sandbox, with the profile's models.

    \b
    viper exec leftmost.py table.png --task ground
    """
    if not program.is_file():
        raise MediaError(f"{program}: no such program file")
    if program.stat().st_size > MAX_PROGRAM_BYTES:
        raise UsageError(f"{program}: over {MAX_PROGRAM_BYTES} bytes; programs are short")
    from viper.models.media import media_from
    from viper.reasoner import RunOptions

    try:
        source = program.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{program}: not UTF-8 text; expected a Python program") from None
    loaded = media_from(list(media))
    options = RunOptions(task=given["task"], options=split_options(given["choices"]))
    with open_reasoner(given) as reasoner:
        result = reasoner.execute(source, loaded, given["query"], options)
    return _print(result, given)
