"""Who pays for the completions that a tool requests from a language model.

Strategies count the completions of their own requests. A tool that asks a language model calls
:func:`charge`. Its completions then count in the usage of the query that called the tool, also
where one request serves several queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from viper.models.llm.protocol import Completion

# Adds a completion to the usage of one query.
Charge = Callable[[Completion], None]


def uncharged(completion: Completion) -> None:
    """Charge nobody."""


_CHARGES: ContextVar[tuple[Charge, ...]] = ContextVar("charges", default=(uncharged,))


@contextmanager
def charging(charges: Sequence[Charge]) -> Iterator[None]:
    """Charge the completions that arrive within the block to these queries.

    Args:
        charges: one for each item of the batch that is being served, at least one.
    """
    token = _CHARGES.set(tuple(charges))
    try:
        yield
    finally:
        _CHARGES.reset(token)


def current_charge() -> Charge:
    """Return what :func:`charging` has set in this thread, for a request of a single query."""
    return _CHARGES.get()[0]


def charge(completions: Sequence[Completion]) -> None:
    """Charge each completion to the item of the batch at its place.

    If there are more completions than items, they are dealt out in turn.
    """
    charges = _CHARGES.get()
    for index, completion in enumerate(completions):
        charges[index % len(charges)](completion)
