"""Scored predictions as JSON, as text and as a table of rows."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from viper.evaluate.intervals import Estimate
from viper.evaluate.metrics import Figures
from viper.evaluate.predictions.score import INVALID, MISSING, Scored
from viper.evaluate.reports.escape import for_csv, for_terminal
from viper.evaluate.row import Row
from viper.schema import to_json

HEADER = ("figure", "%", "95% interval", "n")


def summary(scored: Scored) -> dict[str, Any]:
    """Figures, groups, failures and oddities as JSON values, in full precision."""
    figures = scored.figures
    found: dict[str, Any] = {
        "n": figures.n,
        "headline": figures.headline,
        "figures": to_json(figures.overall),
        "groups": to_json(figures.groups),
        "failures": to_json(figures.failures),
        "predictions": {
            "duplicates": scored.duplicates,
            "unknown": len(scored.unknown),
            "missing": scored.failed(MISSING),
            "invalid": scored.failed(INVALID),
        },
    }
    return found


def figure_rows(figures: Figures, by_group: bool) -> Iterator[tuple[str, str, str, str]]:
    """Lines of a table under :data:`HEADER`: figures, groups where wanted, failures."""
    yield from _lines(figures.overall)
    if by_group:
        for name, values in figures.groups.items():
            yield from _lines(
                {for_terminal(f"{name} {value}"): one for value, one in values.items()}
            )
    yield from _lines({f"failed: {kind}": one for kind, one in figures.failures.items()})


def percent(estimate: Estimate) -> str:
    """The value in percent to two decimals, rounded as the official scripts round shares.

    They divide 100 times the count by n; the share times 100 can fall on the other side of a tie.
    """
    hits = estimate.value * estimate.n
    if estimate.n and abs(hits - round(hits)) < 1e-6:
        return f"{round(hits) * 100.0 / estimate.n:.2f}"
    return f"{100 * estimate.value:.2f}"


def rows_csv(rows: Sequence[Row]) -> str:
    """One line a sample: id, task, score, details, failure, prediction, target, groups, cluster."""
    details = sorted({name for row in rows for name in row.details})
    groups = sorted({name for row in rows for name in row.groups})
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    header = ["id", "task", "score", *details, "failure", "prediction", "target", "cluster", "text"]
    table.writerow([for_csv(name) for name in (*header, *(f"group:{name}" for name in groups))])
    for row in rows:
        numbers = [repr(row.details[name]) if name in row.details else "" for name in details]
        texts = [row.failure or "", _said(row), _plain(row.target), row.cluster, row.text]
        texts += [row.groups.get(name, "") for name in groups]
        start = [for_csv(row.sample_id), row.task, repr(row.score)]
        table.writerow([*start, *numbers, *map(for_csv, texts)])
    return out.getvalue()


def _lines(estimates: Mapping[str, Estimate]) -> Iterable[tuple[str, str, str, str]]:
    for name, one in estimates.items():
        interval = f"[{100 * one.low:.2f}, {100 * one.high:.2f}]"
        yield for_terminal(name), percent(one), interval if one.n else "-", f"{one.n}"


def _said(row: Row) -> str:
    if row.prediction is None:
        return ""
    if row.prediction.choice_index is not None:
        return str(row.prediction.choice_index)
    return _plain(row.prediction.value)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(to_json(value), ensure_ascii=False)
