"""What the viewer asks of one or two runs: pages of results that pass a filter, and counts.

Every answer is a query over the index in the run's own file (`viper.evaluate.runs.index`), so a
page costs no memory for results that it does not show, and a run that grows is right at once. The
list itself, with the score on each card, is ``card_answer`` in ``web/templates/viewer.html``.

Filter values come from the address and are untrusted: they are bound to the query as values, and
sort orders and changes are looked up by name.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from viper.agreement import is_correct
from viper.evaluate.reports.error_diagram import PARTS
from viper.evaluate.runs.index import ANSWERED, LETTERS, SORTS, folded, order_of
from viper.evaluate.runs.store import RunStore

# Divides by 2, 3, 4 and 6, so that the last row of cards is full in windows of any width.
PAGE_ROWS = 24

# A text that more results hold finds these, the first ones stored: enough to look through, and
# found within a second.
MOST_WITH_TEXT = 100_000

# Values to filter by: all failures, tools and parts, and the most frequent kinds. A menu of more
# cannot be read.
_MOST_LABELS = 2_000

# Results that are sorted for a page; of more, the list is read in its order, by its index.
_MOST_SORTED = 20_000

# Results whose changes are looked up in one go.
_AT_ONCE = 1_000

Key = tuple[str, int]
Counts = tuple[tuple[str, int], ...]


class ChangeFacts(NamedTuple):
    """What is compared of a result between two runs; answer and program are hashes."""

    score: float
    failure: str | None
    program: int
    answer: int


# Changes of a sample from the first run to the second.
CHANGES: Mapping[str, Callable[[ChangeFacts, ChangeFacts], bool]] = {
    "to right": lambda a, b: not is_correct(a.score) and is_correct(b.score),
    "to wrong": lambda a, b: is_correct(a.score) and not is_correct(b.score),
    "another program": lambda a, b: a.program != b.program,
    "another failure": lambda a, b: a.failure != b.failure,
    "another answer": lambda a, b: (a.answer, a.failure) != (b.answer, b.failure),
}


_TAGGED = (
    "SELECT sample FROM tagged WHERE label = "
    "(SELECT label FROM labels WHERE kind = ? AND value = ?)"
)
_WITH_SCORE = (
    "SELECT sample FROM facts WHERE (? IS NULL OR score >= ?) AND (? IS NULL OR score <= ?)"
)
_WITH_TEXT = "SELECT rowid AS sample FROM texts WHERE texts MATCH ? LIMIT ?"
_COUNTS = (
    "SELECT kind, CAST(value AS TEXT), CAST(count AS INTEGER) FROM labels "
    "WHERE kind <> 'text' ORDER BY kind = 'kind', count DESC LIMIT ?"
)
_COMPARED = f"sample, {', '.join(ChangeFacts._fields)}"
_LAST = "SELECT COALESCE(MAX(sample), 0) FROM facts"
_NEW = f"SELECT sample_id, seed, {_COMPARED} FROM facts WHERE sample > ? ORDER BY sample LIMIT ?"
_SAME = (
    f"SELECT {_COMPARED} FROM facts WHERE sample = "
    "(SELECT rowid FROM samples WHERE sample_id = ? AND seed = ?)"
)
_CREATE_CHANGED = (
    "CREATE TABLE temp.changed (change TEXT, sample INTEGER, PRIMARY KEY (change, sample)) "
    "WITHOUT ROWID"
)
_ADD_CHANGED = "INSERT OR IGNORE INTO temp.changed VALUES (?, ?)"
_COUNT_CHANGED = "SELECT change, COUNT(*) FROM temp.changed GROUP BY change"


@dataclass(frozen=True)
class RowFilter:
    """Filter of results. Empty fields let everything pass.

    Attributes:
        text: text in the id, query, answer, target, message or program, in any case. A text of
            less than :data:`LETTERS` characters is a whole id, answer or target.
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

    def sets(self) -> tuple[list[str], list[Any]]:
        """Return queries for the samples that pass each part, and the values that all take."""
        text = folded(self.text)
        labels = {
            "failure": self.failure,
            "tool": self.tool,
            "part": self.part,
            "seed": "" if self.seed is None else str(self.seed),
            "kind": "" if self.kind is None else "=".join(self.kind),
            "text": text if len(text) < LETTERS else "",
        }
        parts: list[tuple[str, Sequence[Any]]] = []
        if phrase := self.phrase():
            parts.append((_WITH_TEXT, (phrase, MOST_WITH_TEXT)))
        if self.change in CHANGES:
            parts.append(("SELECT sample FROM temp.changed WHERE change = ?", (self.change,)))
        parts += [(_TAGGED, label) for label in labels.items() if label[1]]
        if (self.low, self.high) != (None, None):
            parts.append((_WITH_SCORE, (self.low, self.low, self.high, self.high)))
        return [query for query, _ in parts], [value for _, bound in parts for value in bound]

    def phrase(self) -> str:
        """Return the text as the index of texts takes it; empty for one that is too short."""
        text = folded(self.text)
        return '"' + text.replace('"', '""') + '"' if len(text) >= LETTERS else ""


@dataclass(frozen=True)
class ResultsPage:
    """Keys of the results on a page, and the number of results on all pages.

    Attributes:
        is_cut: more than :data:`MOST_WITH_TEXT` results hold the text, and only the first count.
    """

    keys: tuple[Key, ...]
    total: int
    is_cut: bool = False

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


class ViewerIndex:
    """Filters and counts of one run or of two compared runs. Several threads may use it.

    Args:
        stores: one or two runs; the first is filtered.
    """

    def __init__(self, stores: Sequence[RunStore]) -> None:
        self._stores = tuple(stores)
        self._turn = threading.Lock()
        self._compared = [0] * len(stores)
        if len(stores) > 1:
            stores[0].query(_CREATE_CHANGED)
        self.refresh()

    def refresh(self) -> None:
        """Index results of an earlier version of viper, and compare those that are new."""
        for store in self._stores:
            store.catch_up()
        if len(self._stores) > 1:
            with self._turn:
                if not any(self._compared):  # every pair is found from its first result
                    ((self._compared[1],),) = self._stores[1].query(_LAST)
                self._compare(0)
                self._compare(1)

    def _compare(self, number: int) -> None:
        """Note the changes of the samples whose result in this run is new."""
        store, other = self._stores[number], self._stores[1 - number]
        while lines := store.query(_NEW, (self._compared[number], _AT_ONCE)):
            for name, seed, *line in lines:
                for paired in other.query(_SAME, (name, seed)):
                    pair = (line, paired) if number == 0 else (paired, line)
                    first, second = (ChangeFacts(*values) for _, *values in pair)
                    for change, is_changed in CHANGES.items():
                        if is_changed(first, second):
                            self._stores[0].query(_ADD_CHANGED, (change, pair[0][0]))
            self._compared[number] = lines[-1][2]

    def find(self, row_filter: RowFilter) -> ResultsPage:
        """Return a page of the results that pass the filter."""
        if len(self._stores) == 1:
            row_filter = replace(row_filter, change="")
        store, (sets, values) = self._stores[0], row_filter.sets()
        # A set that holds a good part of the run is looked up in the order of the list, which
        # ends with the page; + keeps SQLite from sorting the whole set instead.
        among = [f"sample IN ({each})" for each in sets]
        start = f"SELECT COUNT(*) FROM ({sets[0]})" if sets else "SELECT COUNT(*) FROM facts"
        where = " AND ".join(["TRUE", *among[1:]])
        ((total,),) = store.query(f"{start} WHERE {where}", values)
        sign = "+" if total > _MOST_SORTED else ""
        where = " AND ".join(["TRUE", *(sign + each for each in among)])
        bounds = (PAGE_ROWS, max(0, row_filter.page) * PAGE_ROWS)
        keys = store.query(
            f"SELECT sample_id, seed FROM facts WHERE {where} "
            f"ORDER BY {order_of(row_filter.sort)} LIMIT ? OFFSET ?",
            (*values, *bounds),
        )
        is_cut = False
        if phrase := row_filter.phrase():
            count = f"SELECT COUNT(*) FROM ({_WITH_TEXT})"
            is_cut = store.query(count, (phrase, MOST_WITH_TEXT)) == [(MOST_WITH_TEXT,)]
        return ResultsPage(tuple(keys), total, is_cut)

    @property
    def facets(self) -> Facets:
        """The values to filter by, as far as results are stored now."""
        store, counts = self._stores[0], defaultdict[str, list[tuple[str, int]]](list)
        for kind, value, count in store.query(_COUNTS, (_MOST_LABELS,)):
            counts[kind].append((value, count))
        kinds: dict[str, list[tuple[str, int]]] = {}
        for label, count in counts["kind"]:
            name, _, value = label.partition("=")
            kinds.setdefault(name, []).append((value, count))
        parts, seeds, changes = dict(counts["part"]), dict(counts["seed"]), dict[str, int]()
        if len(self._stores) > 1:
            changes = dict.fromkeys(CHANGES, 0) | dict(store.query(_COUNT_CHANGED))
        return Facets(
            failures=tuple(
                sorted(counts["failure"], key=lambda n: (n[0] != ANSWERED, -n[1], n[0]))
            ),
            tools=tuple(sorted(counts["tool"], key=lambda n: (-n[1], n[0]))),
            parts=tuple((part, parts[part]) for part in PARTS if part in parts),
            kinds={name: sorted(values) for name, values in sorted(kinds.items())},
            seeds=tuple(seed for seed in sorted(store.manifest.seeds) if str(seed) in seeds),
            changes=tuple(changes.items()),
            rows=store.count(),
        )
