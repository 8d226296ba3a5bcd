"""A reproduction as text, as JSON and as one HTML page with claims, tables and curves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from viper.escape import for_terminal
from viper.evaluate.reports.page import rendered_page
from viper.evaluate.reports.tables import aligned
from viper.storage.files import write_file
from viper_lab.papers.plots import gain_plot, score_plot
from viper_lab.papers.result import POINTS, Claim, Gain, Reproduction, TableCell, in_points

REPORT, PAGE = "report.json", "report.html"


def write_reports(reproduction: Reproduction, folder: Path) -> None:
    """Write ``report.json`` and ``report.html`` atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    record = json.dumps(reproduction.to_json(), indent=2, allow_nan=False)
    write_file(folder / REPORT, f"{record}\n")
    write_file(folder / PAGE, page(reproduction))


def page(reproduction: Reproduction) -> str:
    """Return the page; its plots tell series by mark, hatch and line, never by colour alone."""
    return rendered_page(
        "reproduction.html",
        Path(__file__).parent,
        title=reproduction.title,
        claims=[(verdict(claim), claim.claim, claim.reason) for claim in reproduction.claims],
        tables=[_table(*table) for table in tables_of(reproduction)],
        facts=json.dumps(dict(reproduction.facts), indent=2, ensure_ascii=False),
    )


def _table(name: str, rows: Sequence[TableCell], steps: Sequence[Gain]) -> dict[str, Any]:
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


def as_text(reproduction: Reproduction) -> str:
    """Return tables, gains and claims as text for a terminal."""
    lines = [reproduction.title]
    for table, rows, steps in tables_of(reproduction):
        if rows:
            lines += ["", table, *_indented(cells_of(rows))]
        if steps:
            lines += ["", f"{table}: gains in points, paired, with 95% intervals"]
            lines += _indented(gains_of(steps))
    lines += ["", "claims"]
    for claim in reproduction.claims:
        text = for_terminal(f"{claim.claim}: {claim.reason}")
        lines.append(f"  {verdict(claim):<5} {text}")
    return "\n".join(lines)


def tables_of(reproduction: Reproduction) -> Iterator[tuple[str, list[TableCell], list[Gain]]]:
    """Yield each table with its rows and gains. Tables that only have gains come last."""
    rows, gains = reproduction.rows, reproduction.gains
    for name in dict.fromkeys([*(row.table for row in rows), *(gain.table for gain in gains)]):
        own = [row for row in rows if row.table == name]
        yield name, own, [gain for gain in gains if gain.table == name]


def verdict(claim: Claim) -> str:
    """Return ``yes``, ``no`` or ``open``."""
    return {True: "yes", False: "no", None: "open"}[claim.holds]


def cells_of(rows: Sequence[TableCell]) -> list[list[str]]:
    """Return a header and one line per configuration of a table, with one column per family."""
    families = list(dict.fromkeys(row.family for row in rows))
    lines = [["", *families, "n", "note"]]
    for name in dict.fromkeys(row.name for row in rows):
        by_family = {row.family: row for row in rows if row.name == name}
        cells = [_figure(by_family.get(family)) for family in families]
        notes = "; ".join(dict.fromkeys(row.note for row in by_family.values() if row.note))
        counts = [by_family[family].n for family in families if family in by_family]
        lines.append([name, *cells, _counts(counts), notes])
    return lines


def gains_of(steps: Sequence[Gain]) -> list[list[str]]:
    """Return a header and one line per step, with one column per family."""
    families = list(dict.fromkeys(step.family for step in steps))
    lines = [["", *families, "n"]]
    for name in dict.fromkeys(step.name for step in steps):
        by_family = {step.family: step.difference for step in steps if step.name == name}
        cells = (in_points(by_family[f]) if f in by_family else "–" for f in families)
        counts = [by_family[family].n for family in families if family in by_family]
        lines.append([name, *cells, _counts(counts)])
    return lines


def _counts(by_family: Sequence[int]) -> str:
    """Return the n that all families of a line share, or that of each in order."""
    shown = by_family if len(set(by_family)) > 1 else by_family[:1]
    return " / ".join(f"{n:,}" for n in shown)


def _figure(row: TableCell | None) -> str:
    if row is None:
        return "–"
    if row.unit != POINTS:
        return f"{row.figure.mean:,.2f}"
    spread = "" if row.figure.deviation is None else f" ± {100 * row.figure.deviation:.1f}"
    return f"{100 * row.figure.mean:.1f}{spread}"


def _indented(lines: list[list[str]]) -> list[str]:
    return [f"  {line}" for line in aligned(lines).splitlines()]
