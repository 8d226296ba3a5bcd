"""A judged sample as a line of the table, and back."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from viper.evaluate.row import Row
from viper.evaluate.runs.database import COLUMNS
from viper.evaluate.runs.plain import dumps
from viper.record import record_from_json
from viper.schema import Trace, Usage

ROW_COLUMNS = [name for name in COLUMNS if name not in ("tools", "trace")]
"""What :func:`row_from` reads, in this order."""


_JSON = frozenset(
    {"prediction", "target", "options", "groups", "files", "marks", "details", "tools", "trace"}
)
"""Columns that hold JSON; :attr:`Row.usage` has a column for each of its numbers."""

_USAGE = [field.name for field in fields(Usage)]


def values_of(position: int, row: Row, trace: Trace | None) -> list[Any]:
    """The line of a row, in the order of :data:`COLUMNS`."""
    if not math.isfinite(row.score):
        raise ValueError(f"sample {row.sample_id}: the score {row.score} is no number")
    said = None if row.prediction is None else dict(vars(row.prediction))
    if said is not None:
        del said["picture"]
    calls = [call for trial in trace.trials for call in trial.tool_calls] if trace else []
    values = (
        vars(row)
        | vars(row.usage)
        | {
            "position": position,
            "prediction": said,
            "tools": list(dict.fromkeys(call.tool for call in calls)),
            "trace": trace,
        }
    )
    return [_cell(name, values[name]) for name in COLUMNS]


def _cell(name: str, value: Any) -> Any:
    """A value as SQLite takes it: lone surrogates, which a model may write, become ``?``."""
    if name in _JSON and (value is not None or name == "target"):
        return dumps(value)
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value


def row_from(line: Sequence[Any]) -> Row:
    """The row of a line with the columns :data:`ROW_COLUMNS`."""
    values = {
        name: json.loads(value) if name in _JSON and value is not None else value
        for name, value in zip(ROW_COLUMNS, line, strict=True)
    }
    return record_from_json(Row, {**values, "usage": {name: values[name] for name in _USAGE}})
