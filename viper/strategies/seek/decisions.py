"""Decisions as examples for the planner.

A file of decisions holds one JSON object per line, as ``viper lab seek induce --examples`` writes
it::

    {"query": "…", "known": ["…"], "action": "text_search", "words": "…"}

Source: AVIS (Hu et al. 2023), sec. 3.3 and listing 2: the prompt shows four decisions for each of
exactly those actions that the planner may choose from. Differs: those of the paper's 644 questions
are not published, so the shipped ones (:data:`WRITTEN`) are written by hand.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from viper.errors import UsageError
from viper.prompting.ranking import Scores, by_words
from viper.prompting.seeking import DecisionExample
from viper.search.findings import plain
from viper.strategies.seek.graph import ACTIONS

# Number of decisions per action in a prompt, those with the most similar situation.
FOR_EACH_ACTION = 4

# Name of the shipped decisions, and their file.
WRITTEN = "written"
_SHIPPED = Path(__file__).parent / "graphs" / "avis.jsonl"

# A study of people gives kilobytes; what is much larger is another file.
_MAX_BYTES = 16 << 20
# Files kept in memory: a process rarely uses more than one, and tests and studies a few.
_MAX_FILES = 4


class RecordedDecisions:
    """Decisions by action, ranked by the words that their situation shares with the present one."""

    def __init__(self, decisions: Sequence[DecisionExample] = ()) -> None:
        self._by_action: dict[str, tuple[list[DecisionExample], Scores]] = {}
        for action in ACTIONS:
            own = [decision for decision in decisions if decision.action == action]
            if own:
                situations = [" ".join((decision.query, *decision.known)) for decision in own]
                self._by_action[action] = own, by_words(situations)

    def examples(
        self, query: str, facts: Sequence[str], actions: Sequence[str]
    ) -> Sequence[DecisionExample]:
        """Return decisions in the order of the actions, without those of the same query."""
        examples = list[DecisionExample]()
        for action in (each for each in actions if each in self._by_action):
            own, scores = self._by_action[action]
            alike = zip(scores(" ".join((query, *facts))), own, strict=True)
            ranked = sorted(alike, key=lambda pair: -pair[0])
            others = [decision for _, decision in ranked if decision.query != query]
            examples += others[:FOR_EACH_ACTION]
        return examples


def decisions_of(path: str) -> RecordedDecisions:
    """Return the decisions in a file, or the shipped ones; an empty path means no decisions.

    Raises:
        UsageError: the file is missing, or a line is no decision; names the line.
    """
    if not path:
        return RecordedDecisions()
    file = _SHIPPED if path == WRITTEN else Path(path)
    try:
        status = file.stat()
    except OSError:
        raise UsageError(
            f"{path}: no such file of decisions; make one with: viper lab seek induce --examples, "
            f"or use the shipped ones: {WRITTEN}"
        ) from None
    if status.st_size > _MAX_BYTES:
        raise UsageError(f"{path}: larger than {_MAX_BYTES:,} bytes; no file of decisions")
    return _read(str(file), status.st_mtime_ns)


@lru_cache(_MAX_FILES)
def _read(path: str, _changed: int) -> RecordedDecisions:
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as text ({str(error)[:80]})") from None
    decisions = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            if value["action"] not in ACTIONS:
                raise ValueError(f"unknown action {value['action']!r}")
            query, words = plain(value["query"]), plain(value.get("words"))
            known = tuple(plain(fact) for fact in value.get("known", ()))
            decisions.append(DecisionExample(query, known, value["action"], words))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            reason = f"{type(error).__name__}: {str(error)[:80]}"
            raise UsageError(
                f"{path}:{number}: no decision ({reason}); see viper lab seek induce"
            ) from None
    return RecordedDecisions(decisions)
