"""A reproduction as text, as JSON and as one HTML page with claims, tables and curves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from viper.evaluate.reports.escape import for_terminal
from viper.evaluate.reports.page import rendered_page
from viper.evaluate.reports.tables import aligned
from viper.storage.files import write_file
from viper_lab.papers.plots import gain_plot, score_plot
from viper_lab.papers.result import POINTS, Claim, Gain, Reproduction, TableCell, in_points

REPORT, PAGE = "report.json", "report.html"


def write_reports(found: Reproduction, folder: Path) -> None:
    """Writes ``report.json`` and ``report.html``, each in one step."""
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / REPORT, json.dumps(found.to_json(), indent=2, allow_nan=False) + "\n")
    write_file(folder / PAGE, page(found))


def page(found: Reproduction) -> str:
    """Return the page; its plots tell series by mark, hatch and line, never by colour alone."""
    return rendered_page(
        "reproduction.html",
        Path(__file__).parent,
        title=found.title,
        claims=[(verdict(claim), claim.claim, claim.reason) for claim in found.claims],
        tables=[_table(found, name) for name in table_names(found)],
        facts=json.dumps(dict(found.facts), indent=2, ensure_ascii=False),
    )


def _table(found: Reproduction, name: str) -> dict[str, Any]:
    rows = [row for row in found.rows if row.table == name]
    steps = [one for one in found.gains if one.table == name]
    scored = [row for row in rows if row.unit == POINTS]
    return {
        "name": name,
        "plot": score_plot(name, scored) if scored else "",
        "caption": "Mean ± standard deviation over seeds, in points"
        if scored
        else "Mean of a question",
        "lines": cells_of(rows) if rows else [],
        "gain_plot": gain_plot(name, steps) if steps else "",
        "gains": gains_of(steps) if steps else [],
    }


def as_text(found: Reproduction) -> str:
    """Tables, gains and claims for a terminal."""
    lines = [found.title]
    for table in table_names(found):
        rows = [row for row in found.rows if row.table == table]
        if rows:
            lines += ["", table, *_indented(cells_of(rows))]
        steps = [one for one in found.gains if one.table == table]
        if steps:
            lines += ["", f"{table}: gains in points, paired, with 95% intervals"]
            lines += _indented(gains_of(steps))
    lines += ["", "claims"]
    for claim in found.claims:
        said = for_terminal(f"{claim.claim}: {claim.reason}")
        lines.append(f"  {verdict(claim):<5} {said}")
    return "\n".join(lines)


def table_names(found: Reproduction) -> list[str]:
    """The tables in their order, those last that have gains alone."""
    names = [row.table for row in found.rows] + [gain.table for gain in found.gains]
    return list(dict.fromkeys(names))


def verdict(claim: Claim) -> str:
    """``yes``, ``no`` or ``open``."""
    return {True: "yes", False: "no", None: "open"}[claim.holds]


def cells_of(rows: Sequence[TableCell]) -> list[list[str]]:
    """A header and a line for each configuration of a table, a column for each family."""
    families = list(dict.fromkeys(row.family for row in rows))
    lines = [["", *families, "n", "note"]]
    for name in dict.fromkeys(row.name for row in rows):
        by_family = {row.family: row for row in rows if row.name == name}
        cells = [_figure(by_family.get(family)) for family in families]
        counts = sorted({row.n for row in by_family.values()})
        notes = "; ".join(dict.fromkeys(row.note for row in by_family.values() if row.note))
        lines.append([name, *cells, " / ".join(f"{n:,}" for n in counts), notes])
    return lines


def gains_of(steps: Sequence[Gain]) -> list[list[str]]:
    """A header and a line for each step, a column for each family."""
    families = list(dict.fromkeys(one.family for one in steps))
    lines = [["", *families]]
    for name in dict.fromkeys(one.name for one in steps):
        found = {one.family: one.difference for one in steps if one.name == name}
        shown = (in_points(found[one]) if one in found else "–" for one in families)
        lines.append([name, *shown])
    return lines


def _figure(row: TableCell | None) -> str:
    if row is None:
        return "–"
    if row.unit != POINTS:
        return f"{row.figure.mean:,.2f}"
    spread = "" if row.figure.deviation is None else f" ± {100 * row.figure.deviation:.1f}"
    return f"{100 * row.figure.mean:.1f}{spread}"


def _indented(lines: list[list[str]]) -> list[str]:
    return [f"  {line}" for line in aligned(lines).splitlines()]
