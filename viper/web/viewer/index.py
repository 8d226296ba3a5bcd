"""Index of the results of one or two runs: an SQLite table in memory.

Traces stay in the run's own file. Filter values come from the address and are untrusted. They
reach SQL only as parameters, and sort orders only by name.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from viper.agreement import CORRECT, is_correct
from viper.evaluate.reports.error_diagram import PARTS, part_of
from viper.evaluate.reports.tables import answer_words, target_words
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult

# Divides by 2, 3, 4 and 6, so that the last row of cards is full in windows of any width.
PAGE_ROWS = 24

# SQL sort orders by name. The first is how the viewer opens; ``order`` is that of the data set.
SORTS = {
    "wrong first": "a.verdict, a.position, a.seed",
    "order": "a.position, a.seed",
    "worst": "a.score, a.failure IS NULL, a.position, a.seed",
    "best": "a.score DESC, a.position, a.seed",
    "slowest": "a.seconds DESC, a.position, a.seed",
    "costliest": "a.tokens DESC, a.position, a.seed",
}

VERDICTS = ("wrong", "doubtful", "right")

# Changes of a sample from the first run to the second, as SQL conditions.
CHANGES = {
    "to right": f"a.score < {CORRECT} AND b.score >= {CORRECT}",
    "to wrong": f"a.score >= {CORRECT} AND b.score < {CORRECT}",
    "another program": "a.program IS NOT b.program",
    "another failure": "a.failure IS NOT b.failure",
    "another answer": "a.answer IS NOT b.answer",
}

# Name for "no failure" among the kinds of failures.
ANSWERED = "answered"

_SCHEMA = """
CREATE TABLE rows (
    run INTEGER, sample_id TEXT, seed INTEGER, position INTEGER, score REAL, failure TEXT,
    part TEXT, seconds REAL, tokens INTEGER, program TEXT, answer TEXT, words TEXT,
    verdict INTEGER,
    PRIMARY KEY (run, sample_id, seed)
);
CREATE TABLE tools (run INTEGER, sample_id TEXT, seed INTEGER, tool TEXT);
CREATE TABLE kinds (run INTEGER, sample_id TEXT, seed INTEGER, name TEXT, value TEXT);
CREATE INDEX rows_in_order ON rows (run, position, seed);
CREATE INDEX rows_by_verdict ON rows (run, verdict, position, seed);
CREATE INDEX rows_by_score ON rows (run, score);
CREATE INDEX tools_by_row ON tools (run, tool, sample_id, seed);
CREATE INDEX kinds_by_row ON kinds (run, name, value, sample_id, seed);
"""

Key = tuple[str, int]


@dataclass(frozen=True)
class RowFilter:
    """Filter of results. Empty fields let everything pass.

    Attributes:
        text: text in the id, query, answer, target or program, in any case.
        failure: a kind of failure, or ``answered``.
        part: a part of the error diagram.
        kind: ``(name, value)`` of a group, for example ``("query_type", "counting")``.
        low, high: bounds of the score, both inclusive.
        change: one of ``CHANGES``; needs two runs.
        page: number of the page, from 0.
    """

    text: str = ""
    failure: str = ""
    tool: str = ""
    part: str = ""
    kind: tuple[str, str] | None = None
    low: float | None = None
    high: float | None = None
    seed: int | None = None
    change: str = ""
    sort: str = next(iter(SORTS))
    page: int = 0


@dataclass(frozen=True)
class ResultsPage:
    """Keys of the results on a page, and the number of results on all pages."""

    keys: tuple[Key, ...]
    total: int

    @property
    def pages(self) -> int:
        return max(1, -(-self.total // PAGE_ROWS))


@dataclass(frozen=True)
class Facets:
    """Values to filter by, each with its number of results in the first run."""

    failures: tuple[tuple[str, int], ...]
    tools: tuple[tuple[str, int], ...]
    parts: tuple[tuple[str, int], ...]
    kinds: dict[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    changes: tuple[tuple[str, int], ...] = ()
    rows: int = 0


def verdict_of(result: SampleResult) -> str:
    """Return ``wrong``, ``right``, or ``doubtful`` for a right result with a warning."""
    if result.failure is not None or not is_correct(result.score):
        return "wrong"
    return "doubtful" if any(mark.startswith("warning:") for mark in result.marks) else "right"


class ViewerIndex:
    """Index of one run or of two compared runs. Several threads may use it.

    Args:
        stores: one or two runs; the first is filtered.
    """

    def __init__(self, stores: Sequence[RunStore]) -> None:
        self._stores = tuple(stores)
        self._lock = threading.Lock()
        self._counts: tuple[int, ...] = ()
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        self._facets = Facets((), (), ())
        self.refresh()

    def close(self) -> None:
        """Close the table."""
        self._connection.close()

    def refresh(self) -> None:
        """Read the runs again if they have grown. They may still be running."""
        counts = tuple(store.count() for store in self._stores)
        with self._lock:
            if counts == self._counts:
                return
            fresh = sqlite3.connect(":memory:", check_same_thread=False)
            fresh.executescript(_SCHEMA)
            for number, store in enumerate(self._stores):
                _fill(fresh, number, store)
            self._connection.close()
            self._connection, self._counts = fresh, counts
            self._facets = self._count()

    @property
    def facets(self) -> Facets:
        """Return the values to filter by."""
        return self._facets

    def find(self, row_filter: RowFilter) -> ResultsPage:
        """Return a page of the results that pass the filter."""
        tables, conditions, values = _conditions(row_filter, len(self._stores) > 1)
        where = " AND ".join(conditions)
        order = SORTS.get(row_filter.sort, SORTS[RowFilter.sort])
        with self._lock:
            ((total,),) = self._connection.execute(
                f"SELECT COUNT(*) FROM {tables} WHERE {where}", values
            )
            keys = self._connection.execute(
                f"SELECT a.sample_id, a.seed FROM {tables} WHERE {where} ORDER BY {order} "
                "LIMIT ? OFFSET ?",
                (*values, PAGE_ROWS, max(0, row_filter.page) * PAGE_ROWS),
            ).fetchall()
        return ResultsPage(tuple((sample_id, seed) for sample_id, seed in keys), total)

    def _count(self) -> Facets:
        def count(sql: str) -> tuple[Any, ...]:
            return tuple(self._connection.execute(sql).fetchall())

        ((rows,),) = count("SELECT COUNT(*) FROM rows WHERE run = 0")
        parts = dict(count("SELECT part, COUNT(*) FROM rows WHERE run = 0 GROUP BY part"))
        kinds: dict[str, list[tuple[str, int]]] = {}
        for name, value, number in count(
            "SELECT name, value, COUNT(*) FROM kinds WHERE run = 0 GROUP BY name, value "
            "ORDER BY name, value"
        ):
            kinds.setdefault(name, []).append((value, number))
        return Facets(
            failures=count(
                f"SELECT COALESCE(failure, '{ANSWERED}'), COUNT(*) FROM rows WHERE run = 0 "
                "GROUP BY failure ORDER BY failure IS NOT NULL, COUNT(*) DESC"
            ),
            tools=count(
                "SELECT tool, COUNT(*) FROM tools WHERE run = 0 GROUP BY tool "
                "ORDER BY COUNT(*) DESC, tool"
            ),
            parts=tuple((part, parts[part]) for part in PARTS if part in parts),
            kinds={name: tuple(values) for name, values in kinds.items()},
            seeds=tuple(seed for (seed,) in count("SELECT DISTINCT seed FROM rows WHERE run = 0")),
            changes=tuple(self._changes()) if len(self._stores) > 1 else (),
            rows=rows,
        )

    def _changes(self) -> Iterator[tuple[str, int]]:
        for name, condition in CHANGES.items():
            ((number,),) = self._connection.execute(
                f"SELECT COUNT(*) FROM {_BOTH} WHERE a.run = 0 AND {condition}"
            )
            yield name, number


_BOTH = "rows a JOIN rows b ON b.run = 1 AND b.sample_id = a.sample_id AND b.seed = a.seed"


def _conditions(row_filter: RowFilter, two: bool) -> tuple[str, list[str], list[object]]:
    conditions: list[str] = ["a.run = 0"]
    values: list[object] = []

    def only(condition: str, *parameters: object) -> None:
        conditions.append(condition)
        values.extend(parameters)

    if row_filter.text:
        only(r"a.words LIKE ? ESCAPE '\'", f"%{_literal(row_filter.text.casefold())}%")
    if row_filter.failure == ANSWERED:
        only("a.failure IS NULL")
    elif row_filter.failure:
        only("a.failure = ?", row_filter.failure)
    for condition, value in (
        ("a.part = ?", row_filter.part or None),
        ("a.score >= ?", row_filter.low),
        ("a.score <= ?", row_filter.high),
        ("a.seed = ?", row_filter.seed),
        (f"EXISTS ({_OF_ROW.format('tools')} AND t.tool = ?)", row_filter.tool or None),
    ):
        if value is not None:
            only(condition, value)
    if row_filter.kind is not None:
        only(f"EXISTS ({_OF_ROW.format('kinds')} AND t.name = ? AND t.value = ?)", *row_filter.kind)
    if two and row_filter.change in CHANGES:
        return _BOTH, [*conditions, CHANGES[row_filter.change]], values
    return "rows a", conditions, values


_OF_ROW = "SELECT 1 FROM {} t WHERE t.run = a.run AND t.sample_id = a.sample_id AND t.seed = a.seed"


def _literal(text: str) -> str:
    """Escape text so that LIKE sees no wildcard."""
    return text.replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_")


def _fill(connection: sqlite3.Connection, run: int, store: RunStore) -> None:
    tools = store.tools()
    for position, result in enumerate(store.rows()):
        key = (run, result.sample_id, result.seed)
        answer = answer_words(result)
        connection.execute(
            "INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *key,
                position,
                result.score,
                result.failure,
                part_of(result),
                result.seconds,
                result.usage.prompt_tokens + result.usage.completion_tokens,
                result.program,
                json.dumps([answer, result.failure]),
                _words(result, answer),
                VERDICTS.index(verdict_of(result)),
            ),
        )
        connection.executemany(
            "INSERT INTO tools VALUES (?, ?, ?, ?)",
            [(*key, tool) for tool in tools.get((result.sample_id, result.seed), ())],
        )
        connection.executemany(
            "INSERT INTO kinds VALUES (?, ?, ?, ?, ?)",
            [(*key, name, str(value)) for name, value in result.groups.items()],
        )
    connection.commit()


def _words(result: SampleResult, answer: str) -> str:
    """Return all text that a search looks through."""
    parts = (
        result.sample_id,
        result.text,
        answer,
        target_words(result),
        result.message,
        result.program,
    )
    return "\n".join(filter(None, parts)).casefold()
