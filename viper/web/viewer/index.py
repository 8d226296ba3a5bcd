"""Index of the results of one or two runs: what their filters, sort orders and counts need.

The list itself, with the score on each card, is ``card_answer`` in ``web/templates/viewer.html``.

Traces stay in the run's own file. Filter values come from the address and are untrusted: they are
only compared, and sort orders and changes are looked up by name.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from viper.agreement import is_correct
from viper.evaluate.reports.error_diagram import PARTS, part_of
from viper.evaluate.reports.tables import answer_words, target_words
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult

# Divides by 2, 3, 4 and 6, so that the last row of cards is full in windows of any width.
PAGE_ROWS = 24

VERDICTS = ("wrong", "doubtful", "right")

# Name for "no failure" among the kinds of failures.
ANSWERED = "answered"

Key = tuple[str, int]
Counts = tuple[tuple[str, int], ...]


class IndexedRow(NamedTuple):
    """A result, as far as it is filtered and sorted; ``words`` is all text that is searched."""

    key: Key
    score: float
    failure: str | None
    part: str
    seconds: float
    tokens: int
    program: str | None
    answer: str
    words: str
    verdict: str
    tools: frozenset[str]
    kinds: frozenset[tuple[str, str]]


# Sort keys by name; equal ones stay in the order of the data set. The viewer opens with the first.
SORTS: Mapping[str, Callable[[IndexedRow], Any]] = {
    "wrong first": lambda row: VERDICTS.index(row.verdict),
    "order": lambda row: 0,
    "worst": lambda row: (row.score, row.failure is None),
    "best": lambda row: -row.score,
    "slowest": lambda row: -row.seconds,
    "costliest": lambda row: -row.tokens,
}

# Changes of a sample from the first run to the second.
CHANGES: Mapping[str, Callable[[IndexedRow, IndexedRow], bool]] = {
    "to right": lambda a, b: not is_correct(a.score) and is_correct(b.score),
    "to wrong": lambda a, b: is_correct(a.score) and not is_correct(b.score),
    "another program": lambda a, b: a.program != b.program,
    "another failure": lambda a, b: a.failure != b.failure,
    "another answer": lambda a, b: (a.answer, a.failure) != (b.answer, b.failure),
}


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

    def passes(self, row: IndexedRow) -> bool:
        """Check everything but the change."""
        return (
            self.text.casefold() in row.words
            and self.failure in ("", row.failure or ANSWERED)
            and self.part in ("", row.part)
            and (not self.tool or self.tool in row.tools)
            and (self.kind is None or self.kind in row.kinds)
            and (self.low is None or row.score >= self.low)
            and (self.high is None or row.score <= self.high)
            and self.seed in (None, row.key[1])
        )


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

    failures: Counts
    tools: Counts
    parts: Counts
    kinds: Mapping[str, Sequence[tuple[str, int]]]
    seeds: tuple[int, ...]
    changes: Counts
    rows: int


def verdict_of(result: SampleResult) -> str:
    """Return ``wrong``, ``right``, or ``doubtful`` for a right result with a warning."""
    if result.failure is not None or not is_correct(result.score):
        return "wrong"
    return "doubtful" if any(mark.startswith("warning:") for mark in result.marks) else "right"


class ViewerIndex:
    """Index of one run or of two compared runs. Several threads may use it.

    Args:
        stores: one or two runs; the first is filtered.

    Attributes:
        facets: the values to filter by.
    """

    def __init__(self, stores: Sequence[RunStore]) -> None:
        self._stores = tuple(stores)
        self._lock = threading.Lock()
        self._counts: tuple[int, ...] = ()
        self.refresh()

    def refresh(self) -> None:
        """Read the runs again if they have grown. They may still be running."""
        counts = tuple(store.count() for store in self._stores)
        with self._lock:
            if counts == self._counts:
                return
            runs = [{row.key: row for row in _rows(store)} for store in self._stores]
            self._rows = tuple(runs[0].values())
            self._pairs = [(row, runs[-1][row.key]) for row in self._rows if row.key in runs[-1]]
            self._counts, self.facets = counts, self._count()

    def find(self, row_filter: RowFilter) -> ResultsPage:
        """Return a page of the results that pass the filter."""
        rows: Sequence[IndexedRow] = self._rows
        if len(self._stores) > 1 and (changed := CHANGES.get(row_filter.change)):
            rows = [row for row, after in self._pairs if changed(row, after)]
        order = SORTS.get(row_filter.sort, SORTS[RowFilter.sort])
        rows = sorted(filter(row_filter.passes, rows), key=order)
        start = max(0, row_filter.page) * PAGE_ROWS
        return ResultsPage(tuple(row.key for row in rows[start : start + PAGE_ROWS]), len(rows))

    def _count(self) -> Facets:
        rows = self._rows
        failures = Counter(row.failure or ANSWERED for row in rows)
        tools = Counter(tool for row in rows for tool in row.tools)
        parts = Counter(row.part for row in rows)
        kinds: dict[str, list[tuple[str, int]]] = {}
        for (name, value), count in sorted(Counter(k for row in rows for k in row.kinds).items()):
            kinds.setdefault(name, []).append((value, count))
        changes = {
            name: sum(changed(*pair) for pair in self._pairs) for name, changed in CHANGES.items()
        }
        return Facets(
            failures=tuple(sorted(failures.items(), key=lambda n: (n[0] != ANSWERED, -n[1], n[0]))),
            tools=tuple(sorted(tools.items(), key=lambda n: (-n[1], n[0]))),
            parts=tuple((part, parts[part]) for part in PARTS if part in parts),
            kinds=kinds,
            seeds=tuple(sorted({row.key[1] for row in rows})),
            changes=tuple(changes.items()) if len(self._stores) > 1 else (),
            rows=len(rows),
        )


def _rows(store: RunStore) -> Iterator[IndexedRow]:
    tools = store.tools()
    for result in store.rows():
        key, answer = (result.sample_id, result.seed), answer_words(result)
        searched = (result.sample_id, result.text, answer, target_words(result), result.message)
        yield IndexedRow(
            key=key,
            score=result.score,
            failure=result.failure,
            part=part_of(result),
            seconds=result.seconds,
            tokens=result.usage.prompt_tokens + result.usage.completion_tokens,
            program=result.program,
            answer=answer,
            words="\n".join(filter(None, (*searched, result.program))).casefold(),
            verdict=verdict_of(result),
            tools=frozenset(tools.get(key, ())),
            kinds=frozenset((name, str(value)) for name, value in result.groups.items()),
        )
