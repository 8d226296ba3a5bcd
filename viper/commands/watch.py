"""``viper watch``: rows for each time that a condition begins to hold in a video."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from viper.commands import options as cli
from viper.commands.terminal import clock, hint_to_go_on, note, rich_bar
from viper.errors import EXIT_FAILED, EXIT_OK, UsageError
from viper.escape import for_terminal
from viper.storage.json_lines import dumps

if TYPE_CHECKING:
    from viper.watch.windows import Window

# Seconds of a window by default: a look each second for pictures; videos take margins as well.
_EVERY_PICTURE, _EVERY_VIDEO, _MARGIN = 1.0, 5.0, 2.0


@dataclass(frozen=True, kw_only=True)
class WatchOptions(cli.ProfileChoice):
    """Options of ``viper watch``."""

    # fmt: off
    out: Path = cli.out_field("DIR", "Folder for events, evidence and progress.")
    program: Path | None = cli.option("--program", type=click.Path(path_type=Path),
        metavar="FILE.py",
        help="Python file as viper exec takes it, instead of one written for CONDITION.")
    every: float | None = cli.option("--every", type=click.FloatRange(0.04, 3600),
        metavar="SECONDS",
        help="Time between two looks. By default what CONDITION says, else 1; 5 if the program "
             "takes a video.")
    margin: float = cli.option("--margin", type=click.FloatRange(0, 60), default=_MARGIN,
        metavar="SECONDS", help="A program that takes a video sees so much more before and after.")
    hold: float = cli.option("--hold", type=click.FloatRange(0, 3600), default=0.0,
        metavar="SECONDS", help="Time for which the condition must hold, or not, before it counts.")
    cooldown: float = cli.option("--cooldown", type=click.FloatRange(0), default=0.0,
        metavar="SECONDS", help="Least time between two events.")
    once: bool = cli.option("--once", help="End when all files of a folder were read.")
    on_event: str | None = cli.option("--on-event", metavar="COMMAND|URL",
        help="Give each event as JSON to this command on standard input, without a shell, or send "
             "it to this address.")
    api: str | None = cli.given_by(cli.api_option)
    learned: bool = cli.learned_field()
    # fmt: on


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("condition", default="")
@cli.options_as(WatchOptions)
def watch(options: WatchOptions, source: Path, condition: str) -> int:
    """Print a row of JSON for each time that CONDITION begins to hold in SOURCE.

    SOURCE is a video file, or a folder into which a recorder writes video files, read in the order
    of their names. CONDITION is a statement; before it may stand "every 5 s", and "when" (told at
    its begin), "while" (also at its end) or "until" (the watch ends). The writer writes one program
    for it, DIR/program.py, which then runs on a frame of each second. --program gives another; its
    question is CONDITION. It returns True or False; about a video also the moments of events: True,
    {"moments": [seconds, ...]}.

    Events are also in DIR/events.jsonl, with pages of evidence. After Ctrl-C or a crash, the same
    command continues, and no event is lost or there twice. --on-event gets each at least once;
    repeated ones have the same id. An address gets VIPER_WATCH_SECRET in the header X-Viper-Secret.
    The exit code is 1 if the program failed on a window.

    \b
    viper watch yard.mp4 "when a dog is on the table" --out dog
    viper watch recordings/ --program crossings.py --out gate --on-event https://example.org/hook
    """
    from viper.evaluate.runs.manifest import decisive_tables
    from viper.reasoner import RunOptions
    from viper.schema import to_json
    from viper.watch.delivery import Receiver
    from viper.watch.events import PROGRAM, Event, EventLog
    from viper.watch.watching import TASK, Condition, Watch, takes_video, written_program

    if not condition and options.program is None:
        raise UsageError("expected a condition, or --program")
    if not source.exists():
        raise UsageError(f"{source}: no such file or folder")
    asked = Condition.read(condition) if condition else Condition("")
    given = "" if options.program is None else cli.read_program(options.program)
    receiver = None if options.on_event is None else Receiver.read(options.on_event)
    profile = cli.open_profile(options)
    facts = [
        str(source.resolve()), condition, given, options.every, options.margin, options.hold,
        options.cooldown, options.api, options.learned, decisive_tables(to_json(profile.document)),
    ]  # fmt: skip
    fingerprint = hashlib.sha256(dumps(facts).encode()).hexdigest()[:16]
    with ExitStack() as stack:
        log = EventLog(options.out, fingerprint)
        stack.callback(log.close)
        reasoner = stack.enter_context(cli.open_reasoner(profile))
        path = options.out / PROGRAM
        if log.is_new or not path.exists():
            _write(path, given or written_program(reasoner, source, asked.text))
        program = cli.read_program(path)
        video = takes_video(program)

        def show(event: Event) -> None:
            click.echo(dumps(event))

        # a look at a frame must be cheap, and tuning after nothing was found makes false alarms
        run_options = RunOptions(TASK, self_tune=False, checks=False)
        every = options.every or asked.every or (_EVERY_VIDEO if video else _EVERY_PICTURE)
        running = Watch(
            reasoner, program, asked, run_options, log, video, every, options.margin,
            options.hold, options.cooldown, options.once, receiver,
            stack.enter_context(_status()), show, lambda text: note(f"viper: {for_terminal(text)}"),
        )  # fmt: skip
        stack.enter_context(hint_to_go_on())
        try:
            running.run(source)
        finally:
            if failed := log.state.failed:
                note(f"viper: the program failed on {failed} windows")
        is_untold = receiver is not None and log.state.told < log.state.rows
    if is_untold:
        note("viper: not all events were delivered; the same line again delivers them")
    return EXIT_FAILED if failed or is_untold else EXIT_OK


@contextmanager
def _status() -> Iterator[Callable[[Window], None]]:
    """Show file and time of the window on a terminal; yield what is called with each."""
    if not sys.stderr.isatty():
        yield lambda window: None
        return
    from rich.progress import SpinnerColumn, TextColumn

    text = TextColumn("{task.description}", markup=False)
    with rich_bar(SpinnerColumn(), text, description="") as update:
        yield lambda window: update(
            description=f"{for_terminal(window.path.name)} {clock(window.start)}"
        )


def _write(path: Path, program: str) -> None:
    from viper.storage.files import write_file

    write_file(path, program.rstrip("\n") + "\n")
