"""Queries about a data set: asking a language model for them, and reading them line by line.

Source: Stanić et al. 2024, sec. 5, name a data sheet instead of labelled samples as future work;
the words are ours.

Options stand behind a query after vertical bars, ``what stops? | the ball | the cube``; a line may
also be ``{"query": …, "options": […]}``. A model's text is not trusted: it may number its lines,
explain them, repeat itself, or write a program instead.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from importlib import resources
from string import Template
from typing import Any

from viper.agreement import normalised
from viper.prompting.compact import one_line
from viper.schema import Query

LONGEST_QUERY = 300
LONGEST_OPTION = 100
MOST_OPTIONS = 10

_FEWEST_LETTERS = 3
_MARK = re.compile(
    r"^\s*(?:[-*+•–]\s+|[*_]{0,2}\(?(?:q(?:uery|uestion)?\s*)?\d{1,4}\s*[.):](?!\d)[*_]{0,2}\s*)",
    re.IGNORECASE,
)
_OPTION_MARK = re.compile(r"^\(?[A-Za-z0-9][.)]\s+")
_FENCE = re.compile(r"^\s*(?:```|~~~)\s*(\w*)\s*$")
_PROGRAM = re.compile(r"^\s*(?:def|class)\s+\w+\s*[(:]", re.MULTILINE)
_CODE = re.compile(r"[=<>{}\[\]\\`]|\":|\w\(|^(?:#|//|return\b|import\b|(?:for|if|while)\b.*:$)")
_REMARK = re.compile(r"[:!]$|^(?:sure|certainly|of course|here (?:are|is))\b", re.IGNORECASE)
_QUOTES = (*map(tuple, ('""', "''", "“”", "‘’", "«»", "``")), ("**", "**"), ("__", "__"))
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co"})
"""Unicode categories of letters that a terminal does not show, or obeys."""


def read_queries(reply: str, task: str) -> list[Query]:
    """The usable queries of a model's reply, each once, in order; what is none is left out.

    Of a reply with a fenced part only that counts; where half of the lines are numbered or
    bulleted, only these. A reply that holds a program has no queries.
    """
    text = reply.rpartition("</think>")[2]
    if _PROGRAM.search(text):
        return []
    lines = [line for line in _listed(text.splitlines()) if line.strip()]
    marked = [line for line in lines if _MARK.match(line)]
    if 2 * len(marked) >= len(lines):
        lines = marked
    read = (read_line(_MARK.sub("", line, count=1), task) for line in lines)
    return different(query for query in read if fault(query) is None and not _is_talk(query.text))


def read_line(line: str, task: str) -> Query:
    """The query that one line holds, whatever it is worth; see :func:`fault`."""
    text = _bare(line)
    if text.startswith("{"):
        try:
            record: Any = json.loads(text)
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict):
            return _of_record(record, task)
    words, *options = (_bare(part) for part in text.split("|"))
    return Query(words, task, options=tuple(_bare(_OPTION_MARK.sub("", one)) for one in options))


def fault(query: Query) -> str | None:
    """Why a query cannot be asked; None where it can."""
    if sum(letter.isalpha() for letter in query.text) < _FEWEST_LETTERS:
        return "no words"
    if len(query.text) > LONGEST_QUERY:
        return f"{len(query.text)} characters; at most {LONGEST_QUERY}"
    if query.task != "choice":
        return f"options, which a {query.task} has none of" if query.options else None
    if not 2 <= len(query.options) <= MOST_OPTIONS:
        return f"{len(query.options)} options; 2 to {MOST_OPTIONS}, each after a vertical bar"
    if any(not 0 < len(one) <= LONGEST_OPTION for one in query.options):
        return f"an option that is empty or longer than {LONGEST_OPTION} characters"
    if len(set(map(normalised, query.options))) < len(query.options):
        return "two options that are the same"
    return None


def different(queries: Iterable[Query]) -> list[Query]:
    """The queries without those that repeat an earlier one but for case, articles and marks."""
    found: dict[str, Query] = {}
    for query in queries:
        found.setdefault(normalised(query.text), query)
    return list(found.values())


def _listed(lines: list[str]) -> list[str]:
    """The lines inside fences, where there are any; one that never closes reaches to the end."""
    inside: list[str] = []
    fenced = opened = False
    for line in lines:
        if _FENCE.match(line):
            fenced, opened = True, not opened
        elif opened:
            inside.append(line)
    return inside if fenced else lines


def _of_record(record: dict[str, Any], task: str) -> Query:
    words, options = record.get("query"), record.get("options") or ()
    if not isinstance(words, str):
        return Query("", task)
    listed = options if isinstance(options, list | tuple) else ()
    return Query(_bare(words), task, options=tuple(_bare(str(one)) for one in listed))


def _bare(text: str) -> str:
    """Text on one line, without control characters, the comma of a list and outer quotes."""
    left = one_line("".join(map(_visible, unicodedata.normalize("NFC", text))))
    before = None
    while left != before:
        before, left = left, left.removesuffix(",")
        for first, last in _QUOTES:
            inner = left.removeprefix(first).removesuffix(last)
            if left == first + inner + last and first not in inner and last not in inner:
                left = inner.strip()
    return left


def _visible(letter: str) -> str:
    if letter.isspace():
        return " "
    return "" if unicodedata.category(letter) in _HIDDEN else letter


def _is_talk(text: str) -> bool:
    """Whether a line of a model looks like code, or like words around the queries."""
    return _CODE.search(text) is not None or _REMARK.search(text) is not None


SHEET_TASKS: tuple[str, ...] = ("ground", "question", "choice")


def build_query_prompt(
    sheet: str, task: str, count: int, known: Sequence[str] = (), *, media: str = "pictures"
) -> str:
    """The prompt that asks for queries, one a line.

    Args:
        sheet: what is known of the data set, in words.
        task: one of ``SHEET_TASKS``.
        count: how many are wanted.
        known: queries that are there already and must not come again.
        media: what the set holds: ``pictures``, ``videos``.
    """
    values = {
        "sheet": sheet.strip(),
        "kind": _template(f"queries_{task}").strip(),
        "count": str(count),
        "known": _known(known),
        "media": media,
    }
    return Template(_template("queries")).substitute(values).rstrip("\n") + "\n"


def _known(queries: Sequence[str]) -> str:
    if not queries:
        return ""
    listed = "".join(f"{one_line(query)}\n" for query in queries)
    return f"\n## Queries that are there already and must not come again\n\n{listed}"


def _template(name: str) -> str:
    path = resources.files("viper.prompting") / "templates" / f"{name}.md"
    return path.read_text(encoding="utf-8")
