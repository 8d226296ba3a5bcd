"""How an evaluation shows its progress: score so far, failures by kind, rate, time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from viper.evaluate.engines.runner import Running

_LINE_EVERY_S = 30.0
"""Where there is no terminal, a line this often, and one for every tenth part."""

Progress = Callable[["Running"], None]


def describe(running: Running, seconds: float) -> str:
    """One line: ``120/600  score .853  2.1/s  3:48 left  failed 4 (timeout 3, model 1)``."""
    rate = running.fresh / seconds if seconds > 0 else 0.0
    parts = [f"{running.done}/{running.total}", f"score {running.mean:.3f}", f"{rate:.2f}/s"]
    if rate and running.done < running.total:
        parts.append(f"{_clock((running.total - running.done) / rate)} left")
    if running.failed:
        kinds = ", ".join(f"{kind} {count}" for kind, count in running.failures.most_common(4))
        parts.append(f"failed {running.failed} ({kinds})")
    if running.cost_usd:
        parts.append(f"${running.cost_usd:.2f}")
    return "  ".join(parts)


@contextmanager
def shown(total: int, done: int) -> Iterator[Progress]:
    """Gives a function to call after each row."""
    started = time.monotonic()
    if done:
        click.echo(f"{done} of {total} are there already", err=True)
    if sys.stderr.isatty():
        with _bar(total, done, started) as progress:
            yield progress
        return
    last = {"time": started, "tenth": done * 10 // max(1, total)}

    def line(running: Running) -> None:
        now, tenth = time.monotonic(), running.done * 10 // running.total
        if tenth > last["tenth"] or now - last["time"] >= _LINE_EVERY_S:
            last.update(time=now, tenth=tenth)
            click.echo(describe(running, now - started), err=True)

    yield line


@contextmanager
def _bar(total: int, done: int, started: float) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total, completed=done)

        def update(running: Running) -> None:
            text = describe(running, time.monotonic() - started)
            bar.update(task, completed=running.done, description=text.replace("[", r"\["))

        yield update


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
