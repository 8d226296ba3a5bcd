"""What a reproduction will answer, counted before it begins, and how far it is.

A line for each step, and a bar where stderr is a terminal.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click

from viper.commands.terminal import Advance, counter
from viper.escape import for_terminal
from viper_lab.papers.cell_runner import Cell, CellRunner, StoredRun
from viper_lab.papers.parts import Part


@dataclass(frozen=True)
class Plan:
    """The runs of a reproduction, each once, and how much of each is stored.

    Attributes:
        steps: cells by part and seed, and the mining that they need.
        stored: answers of each step that are there already.
    """

    steps: tuple[StoredRun, ...]
    stored: tuple[int, ...]

    @property
    def cells(self) -> int:
        """Return the number of steps that give figures of a table, so without mining."""
        return sum(not step.mines for step in self.steps)

    @property
    def answers(self) -> int:
        """Return the number of answers of all steps."""
        return sum(step.answers for step in self.steps)

    @property
    def missing(self) -> int:
        """Return the number of answers that are not stored yet."""
        return self.answers - sum(self.stored)

    @property
    def finished(self) -> set[StoredRun]:
        """Return the steps whose answers are all stored."""
        pairs = zip(self.steps, self.stored, strict=True)
        return {step for step, stored in pairs if stored >= step.answers}

    def summary(self) -> str:
        """Return the plan in one line for the terminal."""
        return (
            f"{self.cells:,} cells and {len(self.steps) - self.cells:,} mining runs, "
            f"{self.answers:,} answers; stored already: {len(self.finished):,} of these runs, "
            f"{self.answers - self.missing:,} answers"
        )


def plan_of(runner: CellRunner, cells: Iterable[tuple[Cell, Part]]) -> Plan:
    """Return the plan for cells under all seeds. Nothing is answered.

    Raises:
        DataError: the files of a data set are missing.
        UsageError: samples would be asked and mined from.
    """
    steps: dict[StoredRun, None] = {}
    for cell, part in cells:
        for seed in runner.scale.seeds:
            if cell.mining is not None:
                steps.setdefault(runner.mining_step(cell.mining, part, seed, cell.writer))
            steps.setdefault(runner.step(cell, part, seed))
    return Plan(tuple(steps), tuple(step.stored() for step in steps))


@contextmanager
def watching(plan: Plan) -> Iterator[Progress]:
    """Print the plan, then the progress while the block runs."""
    click.echo(plan.summary(), err=True)
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
        self.plan, self._advance, self._clock = plan, advance, clock
        self._began = clock()
        self._fresh = 0
        self._finished = plan.finished
        self._lock = threading.Lock()

    def tell(self, step: StoredRun, mean: float | None) -> None:
        """Count an answer, or say what a step came to; see ``Tell``."""
        with self._lock:
            if mean is None:
                self._fresh += 1
                if self._advance is not None:
                    self._advance(f"{step.name}, {step.part}, seed {step.seed}", 1)
                return
            self._finished.add(step)
            line = (
                f"[{len(self._finished)}/{len(self.plan.steps)}] {step.name}: {step.part}, "
                f"seed {step.seed}, mean {mean:.3f}; {self._left()}"
            )
            # not click.echo, which writes past what rich puts in place of stderr: into the bar
            print(for_terminal(line), file=sys.stderr, flush=True)

    def _left(self) -> str:
        """Return the estimated time for the missing answers at the pace of this session."""
        missing = max(0, self.plan.missing - self._fresh)
        minutes = (self._clock() - self._began) / self._fresh * missing / 60
        if not missing:
            return "nothing left to answer"
        if minutes < 1:
            return "less than a minute left"
        hours, rest = divmod(round(minutes), 60)
        return f"about {hours} h {rest} min left" if hours else f"about {rest} min left"
