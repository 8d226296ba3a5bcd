"""Decisions that people took, as examples for the planner.

A file of them holds a JSON object a line, as ``viper lab seek induce --examples`` writes it::

    {"query": "…", "known": ["…"], "action": "text_search", "words": "…"}

Source: AVIS (Hu et al. 2023), sec. 3.3: the planner is shown decisions for exactly those actions
that it may choose from.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from viper.errors import UsageError
from viper.prompting.ranking import Scores, by_words
from viper.prompting.seeking import DecisionExample
from viper.search.findings import plain
from viper.strategies.seek.names import ACTIONS

FOR_EACH_ACTION = 1
"""Decisions shown for an action, the ones whose situation is most like the one at hand."""

_MAX_BYTES = 16 << 20
_FILES_KEPT = 4


class DecisionSource(Protocol):
    """Where examples of decisions come from."""

    def examples(
        self, query: str, known: Sequence[str], actions: Sequence[str]
    ) -> Sequence[DecisionExample]:
        """Decisions for these actions and no others, those that fit the situation best."""
        ...


class NoDecisions:
    """Nobody was watched."""

    def examples(
        self, query: str, known: Sequence[str], actions: Sequence[str]
    ) -> Sequence[DecisionExample]:
        return ()


class KeptDecisions:
    """Decisions by action, ranked by the words that their situations share with the one at hand."""

    def __init__(self, decided: Sequence[DecisionExample]) -> None:
        self._by_action: dict[str, tuple[list[DecisionExample], Scores]] = {}
        for action in ACTIONS:
            own = [one for one in decided if one.action == action]
            if own:
                self._by_action[action] = own, by_words([_situation(x.query, x.known) for x in own])

    def examples(
        self, query: str, known: Sequence[str], actions: Sequence[str]
    ) -> Sequence[DecisionExample]:
        """As :class:`DecisionSource` says, in the order of the actions; none of the same query."""
        found = []
        for action in actions:
            own, scores = self._by_action.get(action, ([], lambda situation: []))
            ranked = sorted(
                zip(scores(_situation(query, known)), own, strict=False),
                key=lambda one: -one[0],
            )
            others = [one for _, one in ranked if one.query != query]
            found += others[:FOR_EACH_ACTION]
        return found


def decisions_of(path: str) -> DecisionSource:
    """The decisions in a file; those of nobody where the path is empty.

    Raises:
        UsageError: no such file, or a line that is no decision; says which.
    """
    if not path:
        return NoDecisions()
    file = Path(path)
    try:
        there = file.stat()
    except OSError:
        raise UsageError(
            f"{path}: no such file of decisions; make one with: viper lab seek induce --examples"
        ) from None
    if there.st_size > _MAX_BYTES:
        raise UsageError(f"{path}: larger than {_MAX_BYTES:,} bytes; no file of decisions")
    return _read(path, there.st_mtime_ns)


@lru_cache(_FILES_KEPT)
def _read(path: str, _changed: int) -> KeptDecisions:
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as text ({str(error)[:80]})") from None
    return KeptDecisions(
        [_decided(line, f"{path}:{n}") for n, line in enumerate(lines, 1) if line.strip()]
    )


def _decided(line: str, where: str) -> DecisionExample:
    try:
        value = json.loads(line)
        if value["action"] not in ACTIONS:
            raise ValueError(f"unknown action {value['action']!r}")
        known = tuple(plain(one) for one in value.get("known", ()))
        return DecisionExample(
            plain(value["query"]), known, value["action"], plain(value.get("words"))
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = f"{type(error).__name__}: {str(error)[:80]}"
        raise UsageError(f"{where}: no decision ({why}); see viper lab seek induce") from None


def _situation(query: str, known: Sequence[str]) -> str:
    return " ".join((query, *known))
