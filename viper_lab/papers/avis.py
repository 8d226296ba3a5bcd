"""The tables of Hu et al. 2023 (AVIS): seeking, beside what decides nothing, and with less.

What is measured stands here; how cells are answered in :mod:`viper_lab.papers.lab`, how claims are
judged in :mod:`viper_lab.papers.avis_claims`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from viper.evaluate.intervals import over_seeds
from viper.reasoner import RunOptions
from viper.strategies.seek.graph import EVERY
from viper.strategies.seek.names import GROUPS
from viper_lab.papers.lab import Cell, Lab
from viper_lab.papers.parts import Part
from viper_lab.papers.result import Entry, Gain
from viper_lab.papers.zero_shot import gain_of

ALL = "all"

_SEEK = RunOptions(strategy="seek", trials=1, self_tune=False)


def _cell(name: str, graph: str = "avis", without: Sequence[str] = ()) -> Cell:
    return Cell(name, _SEEK.changed(graph=graph, without_actions=tuple(without)))


SEEK = _cell("seek")
UNGUIDED = _cell("seek, without the graph", EVERY)
WITHOUT = {group: _cell(f"seek, without {group}", without=GROUPS[group]) for group in GROUPS}

QUESTION_ONLY = _cell("question only", "question-only")
MATCHER = _cell("matcher + language model", "matcher")
FIXED = (
    _cell("fixed: seeing", "fixed-seeing"),
    _cell("fixed: seeing, object", "fixed-object"),
    _cell("fixed: seeing, object, search", "fixed-search"),
)
"""The paper's three sequences."""

EVERYTHING = _cell("fixed: every search, texts three times", "fixed-long")
"""One of ours: whatever the longest question needs, always. What going back is worth shows here."""


@dataclass(frozen=True)
class Table:
    """Cells that are compared.

    Attributes:
        steps: pairs of cells whose gain is given.
    """

    name: str
    title: str
    cells: Sequence[Cell]
    steps: Sequence[tuple[Cell, Cell]] = ()


def main_table(*, quick: bool) -> Table:
    """Tables 1, 2 and 5: seeking, what decides nothing, and seeking without groups of tools."""
    others = [QUESTION_ONLY, MATCHER, *FIXED, EVERYTHING]
    less = [] if quick else list(WITHOUT.values())
    steps = [(one, SEEK) for one in (*others, *less)]
    return Table("tables 1, 2 and 5", "dynamic decisions", [*others, SEEK, *less], steps)


def graph_table() -> Table:
    """Table 3: with and without the transition graph."""
    return Table("table 3", "the transition graph", [UNGUIDED, SEEK], [(UNGUIDED, SEEK)])


@dataclass(frozen=True)
class Study:
    """What is measured.

    Attributes:
        parts: of the data.
        quick: the rest was left out.
    """

    parts: Sequence[Part]
    tables: Sequence[Table]
    quick: bool = False

    @classmethod
    def of(cls, parts: Sequence[Part], *, quick: bool) -> Study:
        """The study of some parts of the data."""
        return cls(parts, [main_table(quick=quick), *([] if quick else [graph_table()])], quick)

    def cells(self) -> list[tuple[Cell, Part]]:
        """Every cell with each part, once, what judges the main claims first."""
        cells = {cell.name: cell for table in self.tables for cell in (SEEK, *table.cells)}
        return [(cell, part) for cell in cells.values() for part in self.parts]


_Fits = Callable[[Mapping[str, str]], bool]

FAMILIES: Mapping[str, _Fits] = {
    ALL: lambda groups: True,
    "look-alikes": lambda groups: groups.get("look_alike") == "yes",
    "unanswerable": lambda groups: groups.get("answerable") == "no",
    "0 or 1 hops": lambda groups: groups.get("hops") in ("0", "1"),
    "2 or 3 hops": lambda groups: groups.get("hops") in ("2", "3"),
    "unseen entities": lambda groups: groups.get("split") == "unseen_entity",
    "unseen questions": lambda groups: groups.get("split") == "unseen_question",
}
"""Columns by what a sample's groups must say; those that nothing falls into are left out."""


def entries(lab: Lab, table: Table, parts: Sequence[Part]) -> Iterator[Entry]:
    """The rows of a table; answers what is not stored yet."""
    for cell in table.cells:
        for part in parts:
            by_seed = [lab.rows(cell, part, seed) for seed in lab.scale.seeds]
            for family, fits in FAMILIES.items():
                own = [[row for row in rows if fits(row.groups)] for rows in by_seed]
                scores = [sum(row.score for row in rows) / len(rows) for rows in own if rows]
                if scores:
                    named = family if len(parts) == 1 else f"{part.name}, {family}"
                    count = sum(map(len, own))
                    yield Entry(table.name, cell.name, named, over_seeds(scores), count)


def gains(lab: Lab, table: Table, parts: Sequence[Part]) -> Iterator[Gain]:
    """The gains of a table's steps."""
    for before, after in table.steps:
        for part in parts:
            for family in FAMILIES:
                found = gain(lab, table, (before, after), part, family)
                if found is not None:
                    named = family if len(parts) == 1 else f"{part.name}, {family}"
                    yield replace(found, family=named)


def gain(
    lab: Lab, table: Table, step: tuple[Cell, Cell], part: Part, family: str = ALL
) -> Gain | None:
    """The gain of one step, paired by question over all seeds; None where no question is of it."""
    fits = FAMILIES[family]
    old, new = ([row for row in lab.all_rows(cell, part) if fits(row.groups)] for cell in step)
    if not old:
        return None
    return gain_of(old, new, table.name, f"{step[0].name} -> {step[1].name}", family)
