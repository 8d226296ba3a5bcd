"""Result of one sample, the unit of figures, reports and the run store, and its stored line.

A metric turns the sample and its `Prediction` into a `Score`, and `SampleResult.of` adds what
figures and reports group by. The store writes a result as the columns of `values_of` and reads it
back by `row_from`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from viper.data.sample import Sample
from viper.models.vision.roles import Pixels
from viper.record import record_from_json
from viper.schema import Answer, PixelBox, Trace, Usage
from viper.storage.json_lines import dumps

# Failures by which a run says that it cannot answer, which may be right. Any other one is a fault.
REFUSALS = frozenset({"abstained", "below_threshold", "outside_domain", "tool"})


@dataclass(frozen=True)
class Prediction:
    """Answer of this library, or of the author of a predictions file.

    Attributes:
        value: text, number, truth value or None, as ``viper.schema.Answer.value``.
        box: box of a grounding, ``(x0, y0, x1, y1)`` in pixels from the top-left corner.
        choice_index: index of the chosen option, from 0.
        confidence: probability that the answer is right, in [0, 1]; None if it is not known.
        picture: edited picture, uint8 [H, W, 3], for the judge; it is not stored.
    """

    __pydantic_config__ = {"arbitrary_types_allowed": True}

    value: Any = None
    box: PixelBox | None = None
    choice_index: int | None = None
    confidence: float | None = None
    picture: Pixels | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, answer: Answer) -> Prediction:
        """Return a run's answer in the form that metrics take."""
        return cls(answer.value, answer.box, answer.choice_index, answer.confidence)


@dataclass(frozen=True)
class Score:
    """Score of one prediction.

    Attributes:
        value: score in [0, 1]; its mean over all samples is the headline figure of most metrics.
        details: further values of the sample by name, as ``{"iou": 0.7, "acc@0.5": 1.0}``.
    """

    value: float
    details: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SampleResult:
    """Result of one sample under one seed. A failed sample has a kind of failure.

    Its score is 0, unless the failure is one of :data:`REFUSALS` and its metric takes it as right.

    Attributes:
        failure: None for an answer, right or wrong. Else the reason without an answer: a
            kind of :class:`viper.schema.Failure`, the ``code`` of an error that ended the run
            (``media``, ``model``, ``budget``, ``deadline``), or ``missing`` (``viper data score``).
        message: the failure in words.
        marks: flags for the report, as ``fallback:average_box``.
        seconds: wall-clock time, waiting for shared models included.
    """

    sample_id: str
    seed: int
    score: float
    details: Mapping[str, float] = field(default_factory=dict)
    failure: str | None = None
    message: str | None = None
    prediction: Prediction | None = None
    text: str = ""
    task: str = ""
    target: Any = None
    options: tuple[str, ...] = ()
    groups: Mapping[str, str] = field(default_factory=dict)
    cluster: str = ""
    files: tuple[str, ...] = ()
    program: str | None = None
    marks: tuple[str, ...] = ()
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)

    @classmethod
    def of(cls, sample: Sample, seed: int, score: float = 0.0, **judged: Any) -> SampleResult:
        """Build a result with everything a report needs of its sample; ``judged``: other fields."""
        repeated = ("sample_id", "text", "task", "target", "options", "cluster", "files")
        facts = {name: getattr(sample, name) for name in repeated}
        return cls(seed=seed, score=score, groups=dict(sample.groups), **facts, **judged)


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

# Columns that :func:`row_from` reads, in this order.
ROW_COLUMNS = [name for name in COLUMNS if name not in ("tools", "trace")]

# Columns that hold JSON; :attr:`Row.usage` has a column for each of its numbers.
_JSON = frozenset(
    {"prediction", "target", "options", "groups", "files", "marks", "details", "tools", "trace"}
)

_USAGE = [field.name for field in fields(Usage)]


INSERT = (
    f"INSERT INTO samples ({', '.join(f'{name!r}' for name in COLUMNS)}) "
    f"VALUES ({', '.join('?' * len(COLUMNS))})"
).replace("'", '"')


def values_of(position: int, row: SampleResult, trace: Trace | None) -> list[Any]:
    """Return the database line of a result, in the order of :data:`COLUMNS`."""
    if not math.isfinite(row.score):
        raise ValueError(f"sample {row.sample_id}: the score {row.score} is no number")
    calls = [call for trial in trace.trials for call in trial.tool_calls] if trace else []
    values = vars(row) | vars(row.usage) | {"position": position, "trace": trace}
    values["tools"] = list(dict.fromkeys(call.tool for call in calls))
    if row.prediction is not None:
        values["prediction"] = vars(row.prediction).copy()
        del values["prediction"]["picture"]
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
