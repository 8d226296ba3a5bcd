"""A bank of in-context examples: JSON lines, one :class:`~viper.schema.Example` each.

`read_bank` parses the lines once. `select` then serves every query: `_rank` keeps, per task, API
and retrieval, the fitting examples with their ranking, the query's text sorts them, and what
demonstrates the query's own sample is left out. `write_bank` and `merged` serve the commands that
make banks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from viper.ace.select import best_first, kept
from viper.api.sets import split_api
from viper.errors import UsageError
from viper.prompting.ranking import Embed, Scores, ranker
from viper.record import RecordError, record_from_json
from viper.schema import Example, Query, to_json
from viper.storage.files import replace_file
from viper.strategies.examples import Demonstration, ExampleRequest, SelectedExamples, demonstrates

# Cached lists of examples, one per task and API; one or two tasks are usual.
_LISTS_KEPT = 32


class Bank:
    """Examples in order of merit. Safe to use from several threads.

    Source: Stanić et al. 2024, sec. 2.3: the same best examples for every query.
    Differs: can also select the examples whose queries are most similar to the query.
    """

    def __init__(self, items: Iterable[Example]) -> None:
        self.items = tuple(items)
        cached: Callable[[Callable[..., Any]], Any] = lru_cache(_LISTS_KEPT)
        self._ranking = cached(self._rank)

    def select(self, query: Query, request: ExampleRequest) -> SelectedExamples:
        """Return the best correct examples of the task and API, best first.

        Retrieval ``fixed`` returns the first ones of the bank. ``bm25`` and ``embeddings`` sort by
        similarity of the queries; ties keep the bank's order. An example fits an API that includes
        the example's own: ``abstract`` fits ``abstract+mine.py``. Examples of the query's own
        sample are left out, or, if the query names no sample, examples with the same words. A bank
        holds neither incorrect examples nor plans.

        Raises:
            UsageError: ``embeddings`` without an embedding model.
            UnknownNameError: there is no such retrieval.
        """
        sets = frozenset(split_api(request.api))
        items, scores = self._ranking(request.task, sets, request.retrieval, request.embed)
        if scores is not None:
            ranks = scores(query.text)
            items = [items[index] for index in sorted(range(len(items)), key=lambda i: -ranks[i])]
        best = islice((item for item in items if not demonstrates(item, query)), request.correct)
        return SelectedExamples([Demonstration("", example) for example in best])

    def _rank(
        self, task: str, sets: frozenset[str], retrieval: str, embed: Embed | None
    ) -> tuple[list[Example], Scores | None]:
        """Return the examples that fit, in the bank's order, and the scores to rank them by."""
        items = [
            item
            for item in self.items
            if item.task == task
            and set(split_api(item.api)) <= sets
            and item.polarity == "correct"
            and item.part != "plan"
        ]
        rank = None if retrieval == "fixed" else ranker(retrieval, embed)
        return items, rank([item.query for item in items]) if rank and items else None


def read_bank(path: Path) -> Bank:
    """Read the bank from a JSON-lines file.

    Raises:
        UsageError: the file is missing, or a line is not an example; names the line.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such bank of examples; make one with: viper ace mine")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as text ({error})") from None
    items = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                items.append(record_from_json(Example, json.loads(line)))
            except json.JSONDecodeError as error:
                why = f"not JSON ({error.msg}); one example a line"
                raise UsageError(f"{path}:{number}: {why}") from None
            except RecursionError:
                raise UsageError(
                    f"{path}:{number}: nested too deeply; one example a line"
                ) from None
            except RecordError as error:
                why = f"not an example ({error}); see viper ace mine"
                raise UsageError(f"{path}:{number}: {why}") from None
    return Bank(items)


def write_bank(path: Path, items: Iterable[Example]) -> None:
    """Write the examples. The file is replaced in one step, so it is never half-written.

    Raises:
        UsageError: the file cannot be written.
    """
    text = "".join(json.dumps(to_json(item), ensure_ascii=False) + "\n" for item in items)
    try:
        replace_file(path, text)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from None


def merged(banks: Iterable[Bank], keep: int | None = None) -> list[Example]:
    """Return the distinct examples of all banks by merit; see :func:`viper.ace.select.best_first`.

    Two examples are the same if they have the same task, API, sample, query, program and polarity.
    The first bank's example is kept.

    Args:
        keep: most examples for each task and API; None keeps all.
    """
    examples: dict[tuple[str, ...], Example] = {}
    for bank in banks:
        for item in bank.items:
            key = (item.task, item.api, item.sample_id, item.query, item.program, item.polarity)
            examples.setdefault(key, item)
    ordered = best_first(examples.values())
    return ordered if keep is None else kept(ordered, keep)
