"""Error diagrams of runs side by side as text: terminal, CSV, Markdown, JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viper.evaluate.reports.error_diagram import PARTS
from viper.evaluate.reports.escape import for_csv, for_markdown
from viper.evaluate.reports.table import Format, aligned, with_interval

FAILED = "errors together"


@dataclass(frozen=True)
class NamedErrors:
    """A run's error diagram, as ``ErrorDiagram.to_json`` gives it, under its name."""

    name: str
    errors: Mapping[str, Any]


def rendered_errors(runs: Sequence[NamedErrors], form: Format) -> str:
    """The diagrams in that format, ending with a line end."""
    if form == "json":
        found = [{"run": run.name, **run.errors} for run in runs]
        return json.dumps({"schema": 1, "runs": found}, indent=2, allow_nan=False) + "\n"
    if form == "csv":
        return _as_csv(runs)
    lines = error_lines(runs)
    if form == "table":
        return aligned(lines)
    header, *rest = [[for_markdown(cell) for cell in line] for line in lines]
    rows = [header, ["---"] * len(header), *rest]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def error_lines(runs: Sequence[NamedErrors]) -> list[list[str]]:
    """Lines of a table, the header first: a line for each part, a column for each run."""
    lines = [["share of answers [95% interval]", *[run.name for run in runs]]]
    for part in parts_of(runs):
        lines.append([part, *[_cell(run.errors["parts"].get(part)) for run in runs]])
    lines.append([FAILED, *[_cell(run.errors["failed"]) for run in runs]])
    lines.append(["n", *[f"{run.errors['n']:,}" for run in runs]])
    return lines


def parts_of(runs: Sequence[NamedErrors]) -> list[str]:
    """The parts that any of the runs has, from the best to the worst."""
    return [part for part in PARTS if any(part in run.errors["parts"] for run in runs)]


def _cell(one: Mapping[str, Any] | None) -> str:
    return "-" if one is None else with_interval({**one, "value": one["share"]})


def _as_csv(runs: Sequence[NamedErrors]) -> str:
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n").writerow
    write(["run", "part", "count", "share", "low", "high", "n"])
    for run in runs:
        for part, one in [*run.errors["parts"].items(), (FAILED, run.errors["failed"])]:
            numbers = [one[name] for name in ("count", "share", "low", "high")]
            write([for_csv(run.name), part, *numbers, run.errors["n"]])
    return out.getvalue()
