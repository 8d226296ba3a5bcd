"""A judged sample as a line of the table, and back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from viper.evaluate.row import Prediction, Row
from viper.evaluate.runs.database import COLUMNS
from viper.evaluate.runs.plain import dumps
from viper.schema import Trace, Usage

ROW_COLUMNS = [name for name in COLUMNS if name not in ("tools", "trace")]
"""What :func:`row_from` reads, in this order."""


def values_of(position: int, row: Row, trace: Trace | None) -> list[Any]:
    """The line of a row, in the order of :data:`COLUMNS`."""
    if not math.isfinite(row.score):
        raise ValueError(f"sample {row.sample_id}: the score {row.score} is no number")
    usage = row.usage
    values: dict[str, Any] = {
        "sample_id": _text(row.sample_id),
        "seed": row.seed,
        "position": position,
        "score": row.score,
        "failure": _text(row.failure),
        "message": _text(row.message),
        "prediction": None if row.prediction is None else dumps(_said(row.prediction)),
        "target": dumps(row.target),
        "text": _text(row.text),
        "task": _text(row.task),
        "options": dumps(row.options),
        "groups": dumps(row.groups),
        "cluster": _text(row.cluster),
        "files": dumps(row.files),
        "program": _text(row.program),
        "marks": dumps(row.marks),
        "details": dumps(row.details),
        "seconds": row.seconds,
        "llm_calls": usage.llm_calls,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "model_calls": usage.model_calls,
        "cost_usd": usage.cost_usd,
        "tools": dumps(_tools(trace)),
        "trace": None if trace is None else dumps(trace),
    }
    return [values[name] for name in COLUMNS]


def row_from(line: Sequence[Any]) -> Row:
    """The row of a line with the columns :data:`ROW_COLUMNS`."""
    values = dict(zip(ROW_COLUMNS, line, strict=True))
    return Row(
        sample_id=values["sample_id"],
        seed=values["seed"],
        score=values["score"],
        details=json.loads(values["details"]),
        failure=values["failure"],
        message=values["message"],
        prediction=_prediction(values["prediction"]),
        text=values["text"],
        task=values["task"],
        target=json.loads(values["target"]),
        options=tuple(json.loads(values["options"])),
        groups=json.loads(values["groups"]),
        cluster=values["cluster"],
        files=tuple(json.loads(values["files"])),
        program=values["program"],
        marks=tuple(json.loads(values["marks"])),
        seconds=values["seconds"],
        usage=_usage(values),
    )


def _said(prediction: Prediction) -> dict[str, Any]:
    """What is kept of a prediction: no picture."""
    return {name: getattr(prediction, name) for name in ("value", "box", "choice_index")}


def _prediction(text: str | None) -> Prediction | None:
    if text is None:
        return None
    found = json.loads(text)
    box = found["box"]
    return Prediction(found["value"], None if box is None else tuple(box), found["choice_index"])


def _usage(values: Mapping[str, Any]) -> Usage:
    return Usage(
        llm_calls=values["llm_calls"],
        prompt_tokens=values["prompt_tokens"],
        completion_tokens=values["completion_tokens"],
        model_calls=values["model_calls"],
        cost_usd=values["cost_usd"],
    )


def _tools(trace: Trace | None) -> list[str]:
    """The tools that a run called, each once, in order."""
    if trace is None:
        return []
    calls = (call for trial in trace.trials for call in trial.tool_calls)
    return list(dict.fromkeys(call.tool for call in calls))


def _text(text: str | None) -> str | None:
    """Text as SQLite takes it: lone surrogates, which a model may write, become ``?``."""
    return None if text is None else text.encode("utf-8", "replace").decode("utf-8")
