"""Queries about a data set: the prompt that asks a language model for them, and their parser.

:func:`build_query_prompt` asks, :func:`read_queries` reads the reply line by line
(:func:`read_line`) and drops what :func:`fault` finds unusable.

Source: Stanić et al. 2024, sec. 5, name a data sheet instead of labelled samples as future work;
the words are ours.

Options follow a query after vertical bars, ``what stops? | the ball | the cube``; a line may also
be ``{"query": …, "options": […]}``. A model's text is not trusted: it may number its lines, explain
them, repeat itself, or write a program instead.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from viper.agreement import normalise_answer
from viper.models.llm.replies import without_reasoning
from viper.prompting.compact import one_line
from viper.prompting.template import fill
from viper.schema import Query

# A question is a sentence and an option a few words; longer lines are remarks of the model, and
# longer lists of options several queries in one line.
LONGEST_QUERY = 300
LONGEST_OPTION = 100
MOST_OPTIONS = 10

# Fewer letters are a number of a list, or a mark.
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
# Unicode categories of characters that a terminal does not show, or that control it.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co"})


def read_queries(reply: str, task: str) -> list[Query]:
    """Return the usable queries of a model's reply in order, without repeats.

    If the reply has a fenced part, only that part counts; an open fence runs to the end. If at
    least half of the lines are numbered or bulleted, only these count. A reply that holds a program
    has no queries.
    """
    text = without_reasoning(reply)
    if _PROGRAM.search(text):
        return []
    lines, inside = text.splitlines(), list[str]()
    has_fence = is_open = False
    for line in lines:
        if _FENCE.match(line):
            has_fence, is_open = True, not is_open
        elif is_open:
            inside.append(line)
    lines = [line for line in (inside if has_fence else lines) if line.strip()]
    marked = [line for line in lines if _MARK.match(line)]
    if 2 * len(marked) >= len(lines):
        lines = marked
    queries = (read_line(_MARK.sub("", line, count=1), task) for line in lines)
    # A line that looks like code, or like the model's words around the queries, is no query.
    return without_repeats(
        query
        for query in queries
        if fault(query) is None and not (_CODE.search(query.text) or _REMARK.search(query.text))
    )


def read_line(line: str, task: str) -> Query:
    """Return the query in one line, which may be unusable; see :func:`fault`."""
    text = _bare(line)
    if text.startswith("{"):
        try:
            record: Any = json.loads(text)
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict):
            words, options = record.get("query"), record.get("options")
            if not isinstance(words, str):
                return Query("", task)
            items = options if isinstance(options, list) else ()
            return Query(_bare(words), task, options=tuple(_bare(str(item)) for item in items))
    words, *options = (_bare(part) for part in text.split("|"))
    texts = (_bare(_OPTION_MARK.sub("", option)) for option in options)
    return Query(words, task, options=tuple(texts))


def fault(query: Query) -> str | None:
    """Return the reason why a query cannot be used, or None if it can."""
    if sum(letter.isalpha() for letter in query.text) < _FEWEST_LETTERS:
        return "no words"
    if len(query.text) > LONGEST_QUERY:
        return f"{len(query.text)} characters; at most {LONGEST_QUERY}"
    if query.task != "choice":
        return f"options, which a {query.task} has none of" if query.options else None
    if not 2 <= len(query.options) <= MOST_OPTIONS:
        return f"{len(query.options)} options; 2 to {MOST_OPTIONS}, each after a vertical bar"
    if any(not 0 < len(option) <= LONGEST_OPTION for option in query.options):
        return f"an option that is empty or longer than {LONGEST_OPTION} characters"
    if len(set(map(normalise_answer, query.options))) < len(query.options):
        return "two options that are the same"
    return None


def without_repeats(queries: Iterable[Query]) -> list[Query]:
    """Drop queries that repeat an earlier one except for case, articles and punctuation."""
    by_text: dict[str, Query] = {}
    for query in queries:
        by_text.setdefault(normalise_answer(query.text), query)
    return list(by_text.values())


def _bare(text: str) -> str:
    """Return text on one line, without control characters, a trailing comma and outer quotes."""
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


DESCRIBED_TASKS: tuple[str, ...] = ("ground", "question", "choice")


def build_query_prompt(
    about: str, task: str, count: int, existing: Sequence[str] = (), *, media: str = "pictures"
) -> str:
    """Build the prompt that asks for queries, one per line.

    Args:
        about: description of the data set, in words.
        task: one of ``DESCRIBED_TASKS``.
        count: number of queries to ask for.
        existing: earlier queries, which the model must not repeat.
        media: kind of media of the set: ``pictures``, ``videos``.
    """
    known = "\n## Queries that are there already and must not come again\n\n"
    lines = "".join(f"{one_line(query)}\n" for query in existing)
    values = {
        "sheet": about.strip(),
        "kind": fill(f"queries_{task}", {}).strip(),
        "count": str(count),
        "known": f"{known}{lines}" if existing else "",
        "media": media,
    }
    return fill("queries", values).rstrip("\n") + "\n"
