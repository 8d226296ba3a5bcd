"""How far a reproduction is: a line for each cell, a bar where stderr is a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from viper.commands.progress import Advance, counter
from viper.evaluate.reports.escape import for_terminal

if TYPE_CHECKING:
    from viper.evaluate.engines.runner import Running
    from viper.evaluate.row import Row
    from viper_lab.papers.lab import Step
    from viper_lab.papers.plan import Plan


@contextmanager
def watching(plan: Plan) -> Iterator[Progress]:
    """Says what is planned, then how far it is while the block runs."""
    click.echo(plan.said(), err=True)
    if not sys.stderr.isatty() or not plan.missing:
        yield Progress(plan)
        return
    with counter("answers", plan.missing) as advance:
        yield Progress(plan, advance)


class Progress:
    """A line on stderr for each step that something was answered of; threads may tell it.

    Args:
        advance: moves the bar of a terminal.
        clock: seconds.
    """

    def __init__(
        self,
        plan: Plan,
        advance: Advance | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plan, self._advance, self._clock = plan, advance, clock
        self._began = clock()
        self._fresh = 0
        self._finished = {
            (step.name, step.part, step.seed)
            for step, stored in zip(plan.steps, plan.stored, strict=True)
            if stored >= step.answers
        }
        self._news: set[tuple[str, str, int]] = set()
        self._lock = threading.Lock()

    def answered(self, step: Step, running: Running) -> None:
        """Counts an answer."""
        self._news.add((step.name, step.part, step.seed))
        self.more(1, f"{step.name}, {step.part}, seed {step.seed}")

    def more(self, count: int, remark: str) -> None:
        """Counts answers, of this process or another."""
        with self._lock:
            self._fresh += count
            if self._advance is not None:
                self._advance(remark, count)

    def finished(self, step: Step, rows: Sequence[Row]) -> None:
        """Says what a step came to; of one that was stored already nothing is said."""
        key = (step.name, step.part, step.seed)
        if key in self._news:
            self.done(*key, sum(row.score for row in rows) / max(1, len(rows)))
        else:
            self._finished.add(key)

    def done(self, name: str, part: str, seed: int, mean: float) -> None:
        """Says what a step came to, of this process or another."""
        with self._lock:
            self._finished.add((name, part, seed))
            line = (
                f"[{len(self._finished)}/{len(self._plan.steps)}] {name}: {part}, "
                f"seed {seed}, mean {mean:.3f}; {self._left()}"
            )
            # not click.echo, which writes past what rich puts in place of stderr: into the bar
            print(for_terminal(line), file=sys.stderr, flush=True)

    def _left(self) -> str:
        """The time for what is missing, at the pace of this session."""
        missing = max(0, self._plan.missing - self._fresh)
        minutes = (self._clock() - self._began) / self._fresh * missing / 60
        if not missing:
            return "nothing left to answer"
        if minutes < 1:
            return "less than a minute left"
        hours, rest = divmod(round(minutes), 60)
        return f"about {hours} h {rest} min left" if hours else f"about {rest} min left"
