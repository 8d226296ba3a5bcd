"""What a reproduction will answer, counted before it begins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from viper_lab.papers.lab import Cell, Lab, Step
from viper_lab.papers.parts import Part


@dataclass(frozen=True)
class Plan:
    """The runs of a reproduction, each once, and how much of each is stored.

    Attributes:
        steps: cells by part and seed, and the mining that they need.
        stored: answers of each step that are there already.
    """

    steps: tuple[Step, ...]
    stored: tuple[int, ...]

    @property
    def cells(self) -> int:
        """Steps that are figures of a table: all but mining."""
        return sum(not step.mines for step in self.steps)

    @property
    def answers(self) -> int:
        """Answers of all steps together."""
        return sum(step.answers for step in self.steps)

    @property
    def missing(self) -> int:
        """Answers that are not stored yet."""
        return self.answers - sum(self.stored)

    @property
    def complete(self) -> int:
        """Steps that lack nothing."""
        return sum(
            stored >= step.answers for step, stored in zip(self.steps, self.stored, strict=True)
        )

    def said(self) -> str:
        """In one line, for whoever waits."""
        return (
            f"{self.cells:,} cells and {len(self.steps) - self.cells:,} mining runs, "
            f"{self.answers:,} answers; stored already: {self.complete:,} of these runs, "
            f"{self.answers - self.missing:,} answers"
        )


def plan_of(lab: Lab, cells: Iterable[tuple[Cell, Part]]) -> Plan:
    """The plan for some cells under all seeds; nothing is answered.

    Raises:
        DataError: the files of a data set are missing.
        UsageError: samples would be asked and mined from.
    """
    steps: dict[Step, None] = {}
    for cell, part in cells:
        for seed in lab.scale.seeds:
            if cell.mining is not None:
                steps.setdefault(lab.mining_step(cell.mining, part, seed, cell.writer))
            steps.setdefault(lab.step(cell, part, seed))
    return Plan(tuple(steps), tuple(step.stored() for step in steps))
