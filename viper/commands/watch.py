"""``viper watch``: rows for each time that a condition begins to hold in a video."""

from __future__ import annotations

import hashlib
import sys
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from viper.commands import options as cli
from viper.commands.terminal import clock, hint_to_go_on, note, rich_bar
from viper.errors import EXIT_FAILED, EXIT_OK, UsageError
from viper.escape import for_terminal
from viper.plugins import need_packages
from viper.storage.json_lines import dumps

if TYPE_CHECKING:
    from viper.run_result import RunResult
    from viper.watch.events import EventLog
    from viper.watch.live import Live
    from viper.watch.windows import Window

# Seconds of a window by default: a look each second for pictures; videos take margins as well.
_EVERY_PICTURE, _EVERY_VIDEO, _MARGIN = 1.0, 5.0, 2.0

# Seconds between two writings of the figures for Prometheus, which asks each 15 or more.
_METRICS_S = 10.0


@dataclass(frozen=True, kw_only=True)
class WatchOptions(cli.PageOptions, cli.ProfileChoice):
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
    hold: float | None = cli.option("--hold", type=click.FloatRange(0, 3600), metavar="SECONDS",
        help="Time for which the condition must hold before it begins. By default that of the "
             "profile if there is a look each second, or 0.")
    gap: float | None = cli.option("--gap", type=click.FloatRange(0, 3600), metavar="SECONDS",
        help="Time for which it must not hold before it ends: shorter gaps are mistakes of the "
             "models. By default that of the profile, as for --hold, or as --hold.")
    cooldown: float = cli.option("--cooldown", type=click.FloatRange(0), default=0.0,
        metavar="SECONDS", help="Least time between two events.")
    once: bool = cli.option("--once",
        help="End when all files of a folder were read, or the stream ends.")
    on_event: str | None = cli.option("--on-event", metavar="COMMAND|URL",
        help="Give each event as JSON to this command on standard input, without a shell, or send "
             "it to this address.")
    quiet: str | None = cli.option("--quiet", metavar="HH:MM-HH:MM",
        help="Hold back what --on-event tells between these times of this machine until they end.")
    per_hour: int | None = cli.option("--per-hour", type=click.IntRange(1), metavar="N",
        help="Tell at most N events in an hour; the others wait.")
    live: bool = cli.option("--live",
        help="Show the last frame and the events on a page, until the watch ends.")
    api: str | None = cli.given_by(cli.api_option)
    learned: bool = cli.learned_field()
    # fmt: on


@click.command()
@click.argument("source")
@click.argument("condition", default="")
@cli.options_as(WatchOptions)
def watch(options: WatchOptions, source: str, condition: str) -> int:
    """Print a row of JSON for each time that CONDITION begins to hold in SOURCE.

    SOURCE is a video file, a folder into which a recorder writes video files, read in the order of
    their names, the address of a stream (rtsp, http, HLS, rtmp), or a camera, /dev/video0.
    CONDITION is a statement; before it may stand "every 5 s", and "when" (told at its begin),
    "while" (also at its end) or "until" (the watch ends). The writer writes one program for it,
    DIR/program.py, which then runs on a frame of each second. --program gives another; its question
    is CONDITION. It returns True or False; about a video also the moments of events: True,
    {"moments": [seconds, ...]}.

    Events are also in DIR/events.jsonl, with pages of evidence, and at the end in DIR/events.csv.
    After Ctrl-C or a crash, the same command continues, and no event is lost or there twice.
    --on-event gets each at least once; repeated ones have the same id. An address gets
    VIPER_WATCH_SECRET in the header X-Viper-Secret.
    VIPER_WATCH_LOGIN may hold the USER:PASSWORD of a stream.
    The exit code is 1 if the program failed on a window.

    \b
    viper watch yard.mp4 "when a dog is on the table" --out dog
    viper watch recordings/ --program crossings.py --out gate --on-event https://example.org/hook
    viper watch rtsp://camera/stream "while the gate is open" --out gate --live
    """
    from viper.profiles.exported import deciding_facts
    from viper.reasoner import Reasoner, RunOptions
    from viper.schema import to_json
    from viper.storage.files import write_file
    from viper.watch.delivery import Pace, Receiver
    from viper.watch.events import PROGRAM, RECORDING, Event, EventLog
    from viper.watch.recording import SEGMENT_S, Recorder, is_stream
    from viper.watch.watching import TASK, Condition, Watch, takes_video, written_program

    if not condition and options.program is None:
        raise UsageError("expected a condition, or --program")
    streams = is_stream(source)
    if not streams and not Path(source).exists():
        raise UsageError(f"{source}: no such file or folder")
    asked = Condition.read(condition) if condition else Condition("")
    given = "" if options.program is None else cli.read_program(options.program)
    pace = Pace.read(options.quiet, options.per_hour)
    receiver = None if options.on_event is None else Receiver.read(options.on_event, pace)
    profile = cli.open_profile(options).for_watching()
    usual = profile.document.watch
    if (options.every or asked.every or _EVERY_PICTURE) > _EVERY_PICTURE:
        usual = replace(usual, hold=0.0, gap=None)  # two looks would be too long a time
    hold = usual.hold if options.hold is None else options.hold
    gap = next(each for each in (options.gap, usual.gap, hold) if each is not None)
    facts = [
        source if streams else str(Path(source).resolve()), condition, given, options.every,
        options.margin, hold, gap, options.cooldown, to_json(usual.confirm),
        deciding_facts(profile),
    ]  # fmt: skip
    fingerprint = hashlib.sha256(dumps(facts).encode()).hexdigest()[:16]
    with ExitStack() as stack:
        log = EventLog(options.out, fingerprint, is_told=receiver is not None)
        stack.callback(log.close)
        reasoner = stack.enter_context(cli.open_reasoner(profile))
        path, folder, recorder = options.out / PROGRAM, Path(source), None

        def say(text: str) -> None:
            note(f"viper: {for_terminal(text)}")

        if streams:
            # which of the two a program takes is not known before it is written
            wide = max(SEGMENT_S, min(options.every or asked.every or 0, 60), options.margin)
            folder = options.out / RECORDING
            recorder = Recorder(
                source, folder, log.state.file, lead=2 * options.margin, segment=wide,
                once=options.once, say=say,
            )  # fmt: skip
            stack.callback(recorder.close)
        if log.is_new or not path.exists():
            text = given or written_program(reasoner, folder, asked.text, recorder)
            write_file(path, text.rstrip("\n") + "\n")
        program = cli.read_program(path)
        video = takes_video(program)
        live = _live(stack, options, log, condition or path.name, program) if options.live else None

        def show(event: Event) -> None:
            click.echo(dumps(event))
            if live is not None:
                live.events.appendleft(event)

        def looked(window: Window, result: RunResult) -> None:
            if live is not None:
                live.look(window, result)
            if time.monotonic() - written[0] >= _METRICS_S:
                written[0] = time.monotonic()
                log.write_metrics()

        written = [0.0]

        # a look at a frame must be cheap, and tuning after nothing was found makes false alarms
        run_options = RunOptions(TASK, self_tune=False, checks=False)
        every = options.every or asked.every or (_EVERY_VIDEO if video else _EVERY_PICTURE)
        confirming = None
        if usual.confirm:
            parts = reasoner.components.with_thresholds(usual.confirm)
            confirming = Reasoner(parts, preload=False)
        running = Watch(
            reasoner, program, asked, run_options, log, video, every, options.margin,
            hold, gap, options.cooldown, options.once, recorder, receiver,
            stack.enter_context(_status()), looked, show, say, confirming,
        )  # fmt: skip
        stack.enter_context(hint_to_go_on())
        try:
            running.run(folder)
        finally:
            log.write_metrics()
            log.write_table()
            if failed := log.state.failed:
                note(f"viper: the program failed on {failed} windows")
        is_untold = log.waiting > 0
    if is_untold:
        note("viper: not all events were delivered; the same line again delivers them")
    return EXIT_FAILED if failed or is_untold else EXIT_OK


def _live(stack: ExitStack, options: WatchOptions, log: EventLog, title: str, program: str) -> Live:
    """Serve the page of a watch until the stack ends."""
    need_packages(("starlette", "uvicorn"), "viper watch --live")
    from viper.serve.gate import AccessRules
    from viper.serve.settings import address_of, listening_at
    from viper.watch.live import Live, create_live
    from viper.web.behind_token import served_beside

    live = Live(log, title, program)
    listening = stack.enter_context(listening_at(options.host, options.port))
    access = AccessRules.to_pages(options.host)
    address = address_of(listening, f"{access.prefix}/")
    stack.enter_context(served_beside(create_live(live, access), listening))
    note(address)  # standard output has the events
    if options.open_browser:
        webbrowser.open(address)
    return live


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
