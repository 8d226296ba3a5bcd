"""Progress on stderr: a spinner on a terminal, plain lines elsewhere, nothing on stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import click


class Advance(Protocol):
    """Tells a counter that steps are done, with a short remark."""

    def __call__(self, remark: str, steps: int = 1) -> None: ...


@contextmanager
def status(message: str) -> Iterator[None]:
    """Shows what is being done while the block runs."""
    if not sys.stderr.isatty():
        click.echo(f"{message} …", err=True)
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{message} …"):
        yield


@contextmanager
def counter(label: str, total: int) -> Iterator[Advance]:
    """A bar with rate and remaining time on a terminal, a line every tenth part elsewhere.

    Yields a function to call after each step with a short remark.
    """
    if not sys.stderr.isatty():
        yield _line_counter(label, total)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task(label, total=total)
        yield lambda remark, steps=1: progress.update(
            task, advance=steps, description=f"{label} {remark}"
        )


def _line_counter(label: str, total: int) -> Advance:
    done = 0
    every = max(1, total // 10)

    def advance(remark: str, steps: int = 1) -> None:
        nonlocal done
        before, done = done, done + steps
        if done // every > before // every or done == total:
            click.echo(f"{label}: {done}/{total} {remark}", err=True)

    return advance
