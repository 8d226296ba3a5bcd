"""Several banks as one."""

from __future__ import annotations

from collections.abc import Iterable

from viper.ace.bank import Bank
from viper.ace.select import best_first, kept
from viper.schema import Example


def merged(banks: Iterable[Bank], keep: int | None = None) -> list[Example]:
    """The examples of all banks by merit, each once; see :func:`viper.ace.select.best_first`.

    An example is the same in two banks where task, API, sample, query and program are; the first
    bank's stays.

    Args:
        keep: examples for each task and API at most; None keeps all.
    """
    found: dict[tuple[str, ...], Example] = {}
    for bank in banks:
        for one in bank.items:
            key = (one.task, one.api, one.sample_id, one.query, one.program, one.polarity)
            found.setdefault(key, one)
    ordered = best_first(found.values())
    return ordered if keep is None else kept(ordered, keep)
