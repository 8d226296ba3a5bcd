"""Index of a run's results: tables of the run's own file for lists, searches and reports.

Each stored result has a line in ``facts``, its values to filter by in ``tagged`` (counted in
``labels``), and its text in ``texts``, three letters at a time. They are written in the transaction
of the result, so they never disagree with it, and nobody holds a run in memory to ask about it.
"""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from math import nan
from typing import Any

import numpy as np

from viper.agreement import is_correct
from viper.evaluate.intervals import Floats
from viper.evaluate.metrics.figures import Column, Results
from viper.evaluate.reports.error_diagram import part_of
from viper.evaluate.reports.tables import answer_words, target_words
from viper.evaluate.sample_result import ROW_COLUMNS, SampleResult, row_from
from viper.schema import Usage

VERDICTS = ("wrong", "doubtful", "right")

# Name for "no failure" among the kinds of failures.
ANSWERED = "answered"

# The index of texts knows each three letters that follow each other.
LETTERS = 3

# Columns of ``facts``; ``sample`` is the rowid of the result in ``samples``. Groups, details and
# marks are JSON, the target is its length, answers and programs are hashes to compare.
_FACTS = """sample INTEGER PRIMARY KEY, sample_id TEXT NOT NULL, seed INTEGER NOT NULL,
    position INTEGER NOT NULL, score REAL NOT NULL, failure TEXT, task TEXT NOT NULL,
    cluster TEXT NOT NULL, "groups" TEXT NOT NULL, details TEXT NOT NULL, marks TEXT NOT NULL,
    target INTEGER NOT NULL, confidence REAL, seconds REAL NOT NULL, llm_calls INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL,
    model_calls INTEGER NOT NULL, cost_usd REAL, tokens INTEGER NOT NULL,
    verdict INTEGER NOT NULL, answer INTEGER NOT NULL, program INTEGER NOT NULL"""
_NAMES = [column.split()[0].strip('"') for column in _FACTS.split(",")]

# Orders of lists by name, each with an index; equal ones stay in the order of the data set. The
# viewer opens with the first.
SORTS = {
    "wrong first": "verdict",
    "order": "",
    "worst": "score, failure IS NULL",
    "best": "score DESC",
    "slowest": "seconds DESC",
    "costliest": "tokens DESC",
}


def order_of(sort: str) -> str:
    """Return the columns by which a list of this name is sorted."""
    return ", ".join(filter(None, [SORTS.get(sort, next(iter(SORTS.values()))), "position, seed"]))


def tables(schema: str = "") -> tuple[str, ...]:
    """Return the statements that create the index, ``temp.`` for one that is lost at the end."""
    return (
        f"CREATE TABLE {schema}facts ({_FACTS})",
        *(
            f"CREATE INDEX {schema}facts_{sort.replace(' ', '_')} ON facts ({order_of(sort)})"
            for sort in SORTS
        ),
        f"CREATE TABLE {schema}labels (label INTEGER PRIMARY KEY, kind TEXT NOT NULL, "
        "value TEXT NOT NULL, count INTEGER NOT NULL, UNIQUE (kind, value))",
        f"CREATE TABLE {schema}tagged (label INTEGER, sample INTEGER, PRIMARY KEY (label, sample)) "
        "WITHOUT ROWID",
        f"CREATE VIRTUAL TABLE {schema}texts USING fts5 (words, content='', columnsize=0, "
        "tokenize='trigram case_sensitive 1')",
    )


# Columns of ``samples`` that :func:`add` takes.
READ = ", ".join(f'"{name}"' for name in (*ROW_COLUMNS, "tools"))

_ADD = f"INSERT INTO facts VALUES ({', '.join('?' * len(_NAMES))})"
_COUNT = (
    "INSERT INTO labels (kind, value, count) VALUES (?, ?, 1) "
    "ON CONFLICT (kind, value) DO UPDATE SET count = count + 1"
)
_TAG = "INSERT INTO tagged SELECT label, ? FROM labels WHERE kind = ? AND value = ?"


def add(connection: sqlite3.Connection, sample: int, line: Sequence[Any]) -> None:
    """Index a stored result.

    Args:
        sample: its rowid in ``samples``.
        line: its columns :data:`READ`.
    """
    result, tools = row_from(line[:-1]), json.loads(line[-1])
    answer, target = answer_words(result), target_words(result)
    prediction, usage = result.prediction, result.usage
    facts = dict(zip(ROW_COLUMNS, line, strict=False)) | {
        "sample": sample,
        "verdict": VERDICTS.index(verdict_of(result)),
        "target": len(result.target) if hasattr(result.target, "__len__") else 0,
        "confidence": prediction.confidence if prediction is not None else None,
        "answer": _hash(answer),
        "program": _hash(str(result.program)),
        "tokens": usage.prompt_tokens + usage.completion_tokens,
    }
    connection.execute(_ADD, [facts[name] for name in _NAMES])
    labels = {
        ("failure", result.failure or ANSWERED),
        ("part", part_of(result)),
        ("seed", str(result.seed)),
        *(("tool", tool) for tool in tools),
        *(("kind", f"{name}={value}") for name, value in result.groups.items()),
        *(("text", folded(text)) for text in (result.sample_id, answer, target)),
    }
    for kind, value in sorted(labels):
        if kind != "text" or len(value) < LETTERS:
            connection.execute(_COUNT, (kind, value))
            connection.execute(_TAG, (sample, kind, value))
    searched = (result.sample_id, result.text, answer, target, result.message, result.program)
    words = folded("\n".join(filter(None, searched)))
    connection.execute("INSERT INTO texts (rowid, words) VALUES (?, ?)", (sample, words))


def folded(text: str) -> str:
    """Return a text as it is indexed and searched: in no case, and as SQLite can take it."""
    return text.casefold().replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)


def verdict_of(result: SampleResult) -> str:
    """Return ``wrong``, ``right``, or ``doubtful`` for a right result with a warning."""
    if result.failure is not None or not is_correct(result.score):
        return "wrong"
    return "doubtful" if any(mark.startswith("warning:") for mark in result.marks) else "right"


# Columns of ``facts`` that :func:`results_of` reads: those that figures need, and all.
FIGURES = ("position", "seed", "score", "target")
NUMBERS = (*FIGURES, "confidence", "seconds", *Usage.__dataclass_fields__)
_TEXTS = ("failure", "task", "cluster", "groups", "marks", "details")


def columns_of(numbers: Sequence[str]) -> str:
    """Return the columns of a query for :func:`results_of`."""
    casts = [f"CAST({name} AS REAL)" for name in numbers]
    return ", ".join([*casts, *(f'CAST("{name}" AS TEXT)' for name in _TEXTS)])


def results_of(
    pages: Iterable[Sequence[Sequence[Any]]],
    names: Sequence[str],
    rows: Callable[[], Iterable[SampleResult]],
) -> Results:
    """Return the columns of a run, of pages with the columns :func:`columns_of`.

    Beside what metrics count, these have the numbers of ``names``, NaN for none, and ``marks``.

    Raises:
        ValueError, TypeError, AttributeError: other values than :func:`add` writes.
    """
    numbers: dict[str, array[float]] = {name: array("d") for name in names}
    known: dict[str, dict[Any, int]] = {name: {} for name in _TEXTS}
    codes = {name: array("i") for name in _TEXTS}
    for lines in pages:
        cells = dict(zip((*names, *_TEXTS), zip(*lines, strict=True), strict=True))
        for name, column in numbers.items():
            column.extend(nan if number is None else number for number in cells[name])
        for name, places in known.items():
            codes[name].extend([places.setdefault(text, len(places)) for text in cells[name]])
    columns = {name: Column([*known[name]], _shared(codes[name])) for name in _TEXTS}
    texts = columns.pop("details")
    details: defaultdict[str, Floats] = defaultdict(lambda: np.full(len(texts.values), nan))
    for place, text in enumerate(texts.values):
        for name, number in json.loads(text).items():
            details[f"details.{name}"][place] = float(number)
    groups = [json.loads(text).items() for text in columns["groups"].values]
    values = [tuple((name, str(value)) for name, value in each) for each in groups]
    columns["groups"] = Column(values, columns["groups"].codes)
    marks = [tuple(map(str, json.loads(text))) for text in columns["marks"].values]
    columns["marks"] = Column(marks, columns["marks"].codes)
    spread = {name: values[texts.codes] for name, values in details.items()}
    return Results({name: _shared(numbers[name]) for name in numbers} | spread, columns, rows)


def _shared(values: array[Any]) -> Any:
    return np.frombuffer(values, values.typecode) if values else np.array(values)
