"""Terminal output of commands: tables and text on stdout, progress on stderr.

On a terminal, progress is a spinner or a bar; elsewhere it is plain lines. :func:`end_with` runs a
command line and turns every error into one line and an exit code.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import click

from viper.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXTRA_OF, MissingExtraError, ViperError
from viper.escape import for_terminal
from viper.steps import LOG

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from viper.evaluate.campaign import RunProgress

# Time between progress lines without a terminal; each tenth part also prints one. Logs of a day
# then hold some thousands of lines.
_LINE_EVERY_S = 30.0

# High enough to recognise the picture, a third of the usual 24 lines, so that the answer stays on
# screen.
_THUMBNAIL_LINES = 8

# Of long lines: between words alone.
_BREAKS: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}

Progress = Callable[["RunProgress"], None]


def echo_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a header and rows; the last column is not padded."""
    table = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    for row in table:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        click.echo("  ".join([*cells, row[-1]]).rstrip())


def note(text: object) -> None:
    """Print on stderr, which carries all that is not the result."""
    click.echo(text, err=True)


def warn(text: str) -> None:
    """Print what may be wrong, on stderr."""
    note(f"viper: warning: {text}")


def echo_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    click.echo(json.dumps(value, ensure_ascii=False))


def wrapped(text: str) -> str:
    """Return a line that a terminal does not break inside a number, with breaks at spaces."""
    if not sys.stderr.isatty() or "\x1b" in text:
        return text
    indent, columns = " " * (len(text) - len(text.lstrip()) + 2), shutil.get_terminal_size().columns
    return textwrap.fill(text, columns, subsequent_indent=indent, **_BREAKS)


def indented(text: str) -> Iterator[str]:
    """Yield the lines of a text, indented and safe for a terminal."""
    for line in text.strip("\n").split("\n"):
        inside = line.lstrip(" ")
        yield f"    {' ' * (len(line) - len(inside))}{for_terminal(inside)}".rstrip()


def echo_thumbnail(pixels: NDArray[np.uint8]) -> None:
    """Show a picture ``[H, W, 3]`` of a few lines on stderr, if this is a terminal.

    It takes the graphics of the terminal (sixel, kitty), or else colored half characters.
    """
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        return  # the terminal is asked what it can on stdout, and answers on stdin
    from PIL import Image
    from rich.console import Console

    with suppress(Exception):  # terminals differ, and a thumbnail must not cost the answer
        from textual_image.renderable import Image as Thumbnail

        Console(stderr=True).print(Thumbnail(Image.fromarray(pixels), height=_THUMBNAIL_LINES))


class Advance(Protocol):
    """Callable that advances a counter by some steps and shows a short remark."""

    def __call__(self, remark: str, steps: int = 1) -> None: ...


def is_quiet() -> bool:
    """Return True if the running command was called with ``-q``, so that it shows no progress."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.params.get("quiet"))


class _Steps(logging.Handler):
    """The latest step of :mod:`viper.steps` and its seconds, which rich reads for every frame."""

    def __init__(self, message: str) -> None:
        super().__init__()
        self._began = {message: time.monotonic()}

    def emit(self, record: logging.LogRecord) -> None:
        self._began.pop(text := record.getMessage(), None)
        if not hasattr(record, "ended"):
            self._began[text] = time.monotonic()

    def __rich__(self) -> Any:
        from rich.text import Text

        text, began = list(self._began.items())[-1]
        return Text(f"{text} … {time.monotonic() - began:.0f} s", no_wrap=True, overflow="ellipsis")


@contextmanager
def status(message: str) -> Iterator[None]:
    """Show a message, on a terminal the current step and its seconds, while the block runs."""
    if is_quiet() or not sys.stderr.isatty():
        if not is_quiet():
            note(f"{message} …")
        yield
        return
    from rich.console import Console

    steps = _Steps(message)
    LOG.setLevel(logging.DEBUG)
    LOG.addHandler(steps)
    try:
        with Console(stderr=True).status(steps):  # type: ignore[arg-type]  # any renderable
            yield
    finally:
        LOG.removeHandler(steps)
        LOG.setLevel(logging.NOTSET)


@contextmanager
def rich_bar(*columns: Any, **task: Any) -> Iterator[Callable[..., None]]:
    """Show a bar with these columns of rich on stderr; yield the function that updates it."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(*columns, console=Console(stderr=True)) as bar:
        yield partial(bar.update, bar.add_task(**task))


@contextmanager
def counter(label: str, total: int) -> Iterator[Advance]:
    """Show a bar with the remaining time, or without a terminal a line for every tenth part.

    Yields a function to call after each step with a short remark.
    """
    if not sys.stderr.isatty():
        done, every = 0, max(1, total // 10)

        def advance(remark: str, steps: int = 1) -> None:
            nonlocal done
            before, done = done, done + steps
            if done // every > before // every or done == total:
                note(f"{label}: {done}/{total} {remark}")

        yield advance
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with rich_bar(*columns, description=label, total=total) as update:
        yield lambda remark, steps=1: update(advance=steps, description=f"{label} {remark}")


@contextmanager
def hint_to_go_on() -> Iterator[None]:
    """After Ctrl-C, print how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        note("\nstopped; to go on: the same line again")
        raise


def clock(seconds: float) -> str:
    """Return ``3:48`` or ``1:03:48``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def describe(running: RunProgress, seconds: float, scored: bool = True) -> str:
    """Return ``120/600  score .853  2.1/s  3:48 left  failed 4 (timeout 3, model 1)``."""
    rate = running.fresh / seconds if seconds > 0 else 0.0
    score = [f"score {running.mean:.3f}"] if scored else []
    parts = [f"{running.done}/{running.total}", *score, f"{rate:.2f}/s"]
    if rate and running.done < running.total:
        parts.append(f"{clock((running.total - running.done) / rate)} left")
    if running.failed:
        kinds = ", ".join(f"{kind} {count}" for kind, count in running.failures.most_common(4))
        parts.append(f"failed {running.failed} ({kinds})")
    if running.cost_usd:
        parts.append(f"${running.cost_usd:.2f}")
    return "  ".join(parts)


@contextmanager
def evaluation_progress(total: int, done: int, *, scored: bool = True) -> Iterator[Progress]:
    """Yield a function to call after each row, which shows the progress.

    Args:
        scored: show the mean score.
    """
    started = time.monotonic()
    if is_quiet():
        yield lambda _: None
        return
    if done:
        note(f"{done} of {total} are there already")
    if sys.stderr.isatty():
        from rich.progress import BarColumn, TextColumn

        columns = (BarColumn(), TextColumn("{task.description}"))
        with rich_bar(*columns, description="", total=total, completed=done) as update:

            def show(running: RunProgress) -> None:
                text = describe(running, time.monotonic() - started, scored)
                update(completed=running.done, description=text.replace("[", r"\["))

            yield show
        return
    last = {"time": started, "tenth": done * 10 // max(1, total)}

    def line(running: RunProgress) -> None:
        now, tenth = time.monotonic(), running.done * 10 // running.total
        if tenth > last["tenth"] or now - last["time"] >= _LINE_EVERY_S:
            last.update(time=now, tenth=tenth)
            note(describe(running, now - started, scored))

    yield line


def end_with(
    command: click.Command, argv: list[str] | None = None, prog_name: str = "viper"
) -> None:
    """Run a command line, and end the process with its exit code.

    Args:
        argv: the arguments; those of the process if None.
        prog_name: name of the command in its help and errors.
    """
    stdout = sys.stdout
    try:
        code = command.main(args=argv, prog_name=prog_name, standalone_mode=False)
        if sys.stdout is not None:  # None if the caller closed it
            sys.stdout.flush()
    except (click.exceptions.Abort, KeyboardInterrupt):
        note("viper: interrupted")
        code = EXIT_INTERRUPTED
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except ViperError as error:
        note(f"viper: {error}")
        code = error.exit_code
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA_OF:
            raise
        missing = MissingExtraError(package, "this command")
        note(f"viper: {missing}")
        code = missing.exit_code
    except SystemExit as end:  # click ends so after a completion, and if a pipe is closed
        is_lost = sys.stdout is not stdout  # it then wraps the stream
        code = _output_lost(os.strerror(errno.EPIPE)) if is_lost else end.code
    except OSError as error:
        if error.filename is not None:
            note(f"viper: {error.filename}: {error.strerror}; give another place")
            code = EXIT_FAILED
        elif error.errno == errno.ENOSPC:
            code = _output_lost(os.strerror(error.errno))
        else:
            raise
    sys.exit(code)


def _output_lost(reason: str) -> int:
    with suppress(OSError):  # stderr may be lost as well
        note(f"viper: the output could not be written ({reason})")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
    return EXIT_FAILED
