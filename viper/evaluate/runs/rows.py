"""Table of results: its columns, and the conversion of a result to a line and back."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from viper.evaluate.sample_result import SampleResult
from viper.record import record_from_json
from viper.schema import Trace, Usage
from viper.storage.json_lines import dumps
from viper.storage.sqlite import Format

# Columns of ``samples``; the trace comes last, so that reading the others skips its pages.
COLUMNS = {
    "sample_id": "TEXT NOT NULL",
    "seed": "INTEGER NOT NULL",
    "position": "INTEGER NOT NULL",
    "score": "REAL NOT NULL",
    "failure": "TEXT",
    "message": "TEXT",
    "prediction": "TEXT",
    "target": "TEXT NOT NULL",
    "text": "TEXT NOT NULL",
    "task": "TEXT NOT NULL",
    "options": "TEXT NOT NULL",
    "groups": "TEXT NOT NULL",
    "cluster": "TEXT NOT NULL",
    "files": "TEXT NOT NULL",
    "program": "TEXT",
    "marks": "TEXT NOT NULL",
    "details": "TEXT NOT NULL",
    "seconds": "REAL NOT NULL",
    "llm_calls": "INTEGER NOT NULL",
    "prompt_tokens": "INTEGER NOT NULL",
    "completion_tokens": "INTEGER NOT NULL",
    "model_calls": "INTEGER NOT NULL",
    "cost_usd": "REAL",
    "tools": "TEXT NOT NULL",
    "trace": "TEXT",
}

# The SQLite file of a run. After a power cut ``--resume`` answers the last samples again.
RUN = Format(
    tables=(
        f"""CREATE TABLE samples (
            {", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())},
            PRIMARY KEY (sample_id, seed)
        )""",
        "CREATE UNIQUE INDEX samples_in_order ON samples (position, seed)",
        "CREATE INDEX samples_by_score ON samples (score, failure)",
        "CREATE TABLE sessions (started TEXT NOT NULL, process INTEGER NOT NULL, revision TEXT, "
        "arguments TEXT NOT NULL)",
    ),
    version=1,
    application_id=0x56495052,  # "VIPR"
    synchronous="NORMAL",
    repair="restore a copy, or start anew with another --out",
    elsewhere="choose another --out",
)

# Columns that :func:`row_from` reads, in this order.
ROW_COLUMNS = [name for name in COLUMNS if name not in ("tools", "trace")]

# Columns that hold JSON; :attr:`Row.usage` has a column for each of its numbers.
_JSON = frozenset(
    {"prediction", "target", "options", "groups", "files", "marks", "details", "tools", "trace"}
)

_USAGE = [field.name for field in fields(Usage)]


def values_of(position: int, row: SampleResult, trace: Trace | None) -> list[Any]:
    """Return the database line of a result, in the order of :data:`COLUMNS`."""
    if not math.isfinite(row.score):
        raise ValueError(f"sample {row.sample_id}: the score {row.score} is no number")
    prediction = None if row.prediction is None else dict(vars(row.prediction))
    if prediction is not None:
        del prediction["picture"]
    calls = [call for trial in trace.trials for call in trial.tool_calls] if trace else []
    values = (
        vars(row)
        | vars(row.usage)
        | {
            "position": position,
            "prediction": prediction,
            "tools": list(dict.fromkeys(call.tool for call in calls)),
            "trace": trace,
        }
    )
    return [_cell(name, values[name]) for name in COLUMNS]


def _cell(name: str, value: Any) -> Any:
    """Return a value as SQLite takes it. Lone surrogates, which a model may write, become ``?``."""
    if name in _JSON and (value is not None or name == "target"):
        return dumps(value)
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value


def row_from(line: Sequence[Any]) -> SampleResult:
    """Read the result from a line with the columns :data:`ROW_COLUMNS`."""
    values = {
        name: json.loads(value) if name in _JSON and value is not None else value
        for name, value in zip(ROW_COLUMNS, line, strict=True)
    }
    return record_from_json(SampleResult, {**values, "usage": {key: values[key] for key in _USAGE}})
