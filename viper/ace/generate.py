"""Asks a language model for queries about a data set that it knows by its sheet only.

Queries are kept in files, one a line, as a person writes them or as generating them left them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viper.errors import StoreError, UsageError
from viper.models.llm.protocol import LLM, Sampling
from viper.prompting.query_lines import (
    build_query_prompt,
    fault,
    read_line,
    read_queries,
    without_repeats,
)
from viper.schema import Query
from viper.storage.files import write_file

TEMPERATURE = 0.8
"""Of replies: warm, since the queries should differ."""

A_REPLY = 40
"""Queries asked for at once."""

BARREN = 3
"""Replies without a new query, one after another, after which no more are asked for."""

_SHOWN = 60
_TOKENS_A_QUERY = 48
_TOKENS_AROUND = 64
_SEEDS_A_RUN = 1_000


@dataclass(frozen=True)
class Request:
    """Which queries are wanted.

    Attributes:
        sheet: what is known of the data set, in words.
        task: one of :data:`viper.prompting.query_lines.SHEET_TASKS`.
        media: what the set holds, ``pictures`` or ``videos``.
    """

    sheet: str
    task: str
    count: int
    seed: int = 0
    media: str = "pictures"

    @property
    def most_replies(self) -> int:
        """Return the number of requests after which the model is asked no more."""
        return 2 * math.ceil(self.count / A_REPLY) + BARREN


@dataclass(frozen=True)
class Generated:
    """What there is so far.

    Attributes:
        replies: requests that were answered.
        barren: how many of the last ones brought nothing new.
    """

    queries: tuple[Query, ...] = ()
    replies: int = 0
    barren: int = 0


def generate(
    llm: LLM,
    request: Request,
    so_far: Generated | None = None,
    *,
    most: int | None = None,
    on_reply: Callable[[Generated], None] = lambda generated: None,
) -> Generated:
    """Generate the requested number of different queries, or return those that exist when the model
    stops giving new ones.

    Args:
        so_far: what an earlier call came to; its queries stay, and count.
        most: requests at most, those of ``so_far`` among them.
        on_reply: called after each reply with all that there is.

    Raises:
        UsageError: the sheet is longer than the model reads.
        ViperError: the model failed.
    """
    state = so_far or Generated()
    limit = request.most_replies if most is None else min(most, request.most_replies)
    while len(state.queries) < request.count and state.replies < limit and state.barren < BARREN:
        state = _asked_again(llm, request, state)
        on_reply(state)
    return state


def _asked_again(llm: LLM, request: Request, state: Generated) -> Generated:
    prompt, tokens = _fitting(llm, request, [query.text for query in state.queries])
    seed = request.seed * _SEEDS_A_RUN + state.replies
    completion = llm.generate([prompt], Sampling(TEMPERATURE, seed, tokens))[0][0]
    reply = completion.text
    if completion.finish_reason == "length":
        reply = reply.rpartition("\n")[0]  # its last line is cut
    read = read_queries(reply, request.task)
    queries = tuple(without_repeats([*state.queries, *read]))[: request.count]
    is_barren = len(queries) == len(state.queries)
    return Generated(queries, state.replies + 1, state.barren + 1 if is_barren else 0)


def _fitting(llm: LLM, request: Request, queries: list[str]) -> tuple[str, int]:
    """Build the prompt and return the longest reply it allows. Request fewer queries if the context
    is short."""
    count, used = min(A_REPLY, request.count - len(queries)), 0
    while count:
        recent = queries[-min(_SHOWN, 2 * count) :]
        prompt = build_query_prompt(request.sheet, request.task, count, recent, media=request.media)
        tokens = count * _TOKENS_A_QUERY + _TOKENS_AROUND
        used = llm.count_tokens(prompt)
        if used + tokens <= llm.max_context:
            return prompt, tokens
        count //= 2
    raise UsageError(
        f"the data sheet makes a prompt of {used} tokens and {llm.model_id} reads "
        f"{llm.max_context}; shorten the sheet, or give the queries with --queries-from"
    )


QUERIES, REQUEST = "queries.jsonl", "request.json"

_LONGEST_SHEET = 40_000


def read_sheet(path: Path) -> str:
    """Read the text of a data set description.

    Raises:
        UsageError: it cannot be read, is empty, or longer than a few pages.
    """
    text = _text(path).strip()
    if not text:
        raise UsageError(f"{path}: empty; describe the data set in a few sentences")
    if len(text) > _LONGEST_SHEET:
        raise UsageError(
            f"{path}: {len(text)} characters; a data sheet has at most {_LONGEST_SHEET}"
        )
    return text


def read_query_file(path: Path, task: str) -> list[Query]:
    """Read the distinct queries of a file. A line is a query or ``{"query": …, "options": […]}``.

    Raises:
        UsageError: a line that cannot be asked, named by its number; or there is none.
    """
    queries = []
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        query = read_line(line, task)
        wrong = fault(query)
        if wrong is not None:
            raise UsageError(f"{path}:{number}: {wrong}; one query a line")
        queries.append(query)
    if not queries:
        raise UsageError(f"{path}: no query; one a line")
    return without_repeats(queries)


class QueryStore:
    """The generated queries in a folder, kept after each reply, so that none is asked for twice.

    ``queries.jsonl`` is a file as :func:`read_query_file` takes it.
    """

    def __init__(self, folder: Path, request: Request, model_id: str) -> None:
        self._folder, self._task = folder, request.task
        self._asked = {
            "sheet": hashlib.sha256(request.sheet.encode()).hexdigest()[:16],
            "task": request.task,
            "media": request.media,
            "queries": request.count,
            "seed": request.seed,
            "llm": model_id,
        }

    def load(self) -> Generated:
        """Load the queries of the folder; a new folder gives none.

        Raises:
            UsageError: queries for another request; says what differs.
            StoreError: damaged.
        """
        path = self._folder / REQUEST
        if not path.is_file():
            return Generated()
        try:
            record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            before, replies, barren = dict(record["asked"]), record["replies"], record["barren"]
            counts = int(replies), int(barren)
        except (OSError, ValueError, KeyError, TypeError):
            raise StoreError(f"{path}: damaged; choose another --work") from None
        changed = [
            f"{name}: {before.get(name)} in the folder, {value} now"
            for name, value in self._asked.items()
            if before.get(name) != value
        ]
        if changed:
            raise UsageError(
                f"{self._folder}: holds queries that were asked for otherwise; choose another "
                f"--out or --work, or ask for the same:\n  " + "\n  ".join(changed)
            )
        return Generated(tuple(read_query_file(self._folder / QUERIES, self._task)), *counts)

    def save(self, generated: Generated) -> None:
        """Save the queries. Nothing is saved while there is no query, so that a later run starts
        again.

        Raises:
            StoreError: the folder cannot be written.
        """
        if not generated.queries:
            return
        counts = {"replies": generated.replies, "barren": generated.barren}
        write_file(self._folder / QUERIES, _lines(generated.queries))
        write_file(self._folder / REQUEST, json.dumps({"asked": self._asked, **counts}) + "\n")


def _lines(queries: Iterable[Query]) -> str:
    records = (
        {"query": query.text, **({"options": query.options} if query.options else {})}
        for query in queries
    )
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as text ({error})") from None
