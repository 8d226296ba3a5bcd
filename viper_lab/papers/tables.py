"""Tables of a reproduction: cells that are answered under every seed, and the gains between them.

A bench answers cells on parts of the data; what a cell and a part are is its own matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Generic, Protocol, TypeVar

from viper.errors import DataError
from viper.evaluate.intervals import paired
from viper.evaluate.sample_result import SampleResult
from viper_lab.papers.result import Claim, Gain, Reproduction, TableCell

LEFT_OUT = "left out by --quick; run without it"


class SeededScale(Protocol):
    """A scale, as far as tables ask for it."""

    @property
    def seeds(self) -> Sequence[int]: ...


class Named(Protocol):
    """A cell, or a part of the data."""

    @property
    def name(self) -> str: ...


C = TypeVar("C")
C_in = TypeVar("C_in", contravariant=True)
N = TypeVar("N", bound="Named")
P = TypeVar("P", bound="Named")
P_in = TypeVar("P_in", bound="Named", contravariant=True)


class Bench(Protocol[C_in, P_in]):
    """Answers cells, each once; what is stored is not answered again."""

    @property
    def scale(self) -> SeededScale: ...

    def results(self, cell: C_in, part: P_in, seed: int) -> Sequence[SampleResult]:
        """Return one result per sample of a cell."""
        ...

    def note(self, cell: C_in, part: P_in) -> str:
        """Return what a reader of the cell must know, "" for nothing."""
        ...


@dataclass(frozen=True)
class Table(Generic[C]):
    """Cells that are compared.

    Attributes:
        name: ``table 2``.
        cells: name of the row to the cell, in order.
        families: names of the parts it is about; empty means all.
        steps: pairs of row names whose gain is given.
        trials: figure 4 instead gives each cell after 1, 2, … programs.
    """

    name: str
    cells: Mapping[str, C]
    families: tuple[str, ...] = ()
    steps: Sequence[tuple[str, str]] = ()
    trials: bool = False

    def parts_of(self, row: str, parts: Sequence[P]) -> list[P]:
        """Return the parts that a row is about."""
        if "(" in row:  # a baseline of one family
            return [part for part in parts if f"({part.name})" in row]
        return [part for part in parts if not self.families or part.name in self.families]


def by_name(cells: Sequence[P]) -> dict[str, P]:
    """Return cells under their own names."""
    return {cell.name: cell for cell in cells}


def stepped(
    name: str, cells: Sequence[P], steps: Sequence[tuple[P, P]], families: Sequence[str] = ()
) -> Table[P]:
    """Return a table of cells under their own names, with steps between them."""
    named_steps = [(before.name, after.name) for before, after in steps]
    return Table(name, by_name(cells), tuple(families), named_steps)


def compared(name: str, cells: Sequence[P], to: P, families: Sequence[str] = ()) -> Table[P]:
    """Return a table whose steps go from every other cell to one of them."""
    return stepped(name, cells, [(cell, to) for cell in cells if cell != to], families)


def cells_of(tables: Sequence[Table[N]], parts: Sequence[P]) -> list[tuple[N, P]]:
    """Return each cell with each part it is asked about, once however many tables share it."""
    unique: dict[tuple[str, str], tuple[N, P]] = {}
    for table in tables:
        for row, cell in table.cells.items():
            for part in table.parts_of(row, parts):
                unique.setdefault((cell.name, part.name), (cell, part))
    return list(unique.values())


def chain(rows: Sequence[C]) -> list[tuple[C, C]]:
    """Return the steps from each row to the next, and from the first to the last."""
    return [*pairwise(rows), (rows[0], rows[-1])]


def entries(bench: Bench[C, P], table: Table[C], parts: Sequence[P]) -> Iterator[TableCell]:
    """Yield the rows of a table, answering what is not stored yet; empty parts are left out."""
    for name, cell in table.cells.items():
        for part in table.parts_of(name, parts):
            by_seed = [bench.results(cell, part, seed) for seed in bench.scale.seeds]
            scores = [[result.score for result in results] for results in by_seed if results]
            if scores:
                note = bench.note(cell, part)
                yield TableCell.of_scores(table.name, name, part.name, scores, note)


def gains(bench: Bench[C, P], table: Table[C], parts: Sequence[P]) -> Iterator[Gain]:
    """Yield the gains of a table's steps, part by part."""
    for step in table.steps:
        for part in table.parts_of(step[0], parts):
            if (step_gain := gain(bench, table, step, [part])) is not None:
                yield step_gain


def gain(
    bench: Bench[C, P], table: Table[C], step: tuple[str, str], parts: Sequence[P]
) -> Gain | None:
    """Return the gain of one step over some parts together; None where nothing is asked of them."""
    before, after = (
        [
            result
            for part in parts
            for seed in bench.scale.seeds
            for result in bench.results(table.cells[name], part, seed)
        ]
        for name in step
    )
    if not before:
        return None
    family = ", ".join(part.name for part in parts)
    return gain_of(before, after, table.name, " -> ".join(step), family)


Rows = Sequence[SampleResult]


def gain_of(before: Rows, after: Rows, table: str, name: str, family: str) -> Gain:
    """Return the gain between two lists of results, paired by sample and seed.

    Samples of one picture are drawn together, and so is a sample that several seeds ask.

    Raises:
        DataError: they are not about the same samples.
    """
    old, new = ({(r.sample_id, r.seed): r for r in results} for results in (before, after))
    alone = old.keys() ^ new.keys()
    if alone or not len(before) == len(after) == len(old):
        raise DataError(
            f"{name}: {len(before)} and {len(after)} answers cannot be paired, "
            f"{len(alone)} stand alone; remove the folder and begin anew"
        )
    change = paired(
        [result.score for result in before],
        [new[result.sample_id, result.seed].score for result in before],
        [result.cluster or result.sample_id for result in before],
    )
    return Gain(table, name, family, change.difference)


@dataclass
class Results:
    """What a reproduction comes to, table after table.

    Attributes:
        quick: the rest was left out.
    """

    quick: bool
    rows: list[TableCell] = field(default_factory=list)
    gains: list[Gain] = field(default_factory=list)

    def measure(self, bench: Bench[C, P], table: Table[C], parts: Sequence[P]) -> None:
        """Add the rows and gains of a table."""
        self.rows += entries(bench, table, parts)
        self.gains += gains(bench, table, parts)

    def judged(
        self, title: str, claims: Sequence[Claim], models: Any, seeds: Sequence[int], **facts: Any
    ) -> Reproduction:
        """Return all of it, with models, seeds and further facts."""
        all_facts = {"models": models, "seeds": list(seeds), **facts, "quick": self.quick}
        return Reproduction(title, self.rows, self.gains, claims, all_facts)
