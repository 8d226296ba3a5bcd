"""Generates queries for a data set with a language model, from the data set's description alone.

Queries are stored in files, one per line, written by a person or by this module.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viper.errors import StoreError, UsageError
from viper.models.llm.protocol import LLM, Sampling
from viper.prompting import query_lines
from viper.schema import Query
from viper.storage.files import write_file

# Sampling temperature: warm, because the queries should differ.
TEMPERATURE = 0.8

# Queries requested in one prompt: the prompt and some 2,000 tokens of reply fit a context of 4,096.
A_REPLY = 40

# Consecutive replies without a new query that end the generation: at this temperature the next one
# would bring none either, and each costs a request.
BARREN = 3

# Earlier queries shown, so that they are not written again; all of them would fill the context.
_SHOWN = 60

# Room for the reply: a query of some 30 words with its options, and words around the list.
_TOKENS_A_QUERY, _TOKENS_AROUND = 48, 64

# Seeds of neighbouring --seed values never meet: no run has so many replies.
_SEEDS_A_RUN = 1_000


@dataclass(frozen=True)
class Request:
    """Description of the queries to generate.

    Attributes:
        description: of the data set.
        task: one of :data:`viper.prompting.query_lines.DESCRIBED_TASKS`.
        count: number of queries.
        media: media of the set, ``pictures`` or ``videos``.
    """

    description: str
    task: str
    count: int
    seed: int = 0
    media: str = "pictures"

    @property
    def most_replies(self) -> int:
        """Return the largest number of requests to the model."""
        return 2 * math.ceil(self.count / A_REPLY) + BARREN


@dataclass(frozen=True)
class GeneratedQueries:
    """Queries generated so far.

    Attributes:
        replies: number of answered requests.
        barren: number of latest replies in a row without a new query.
    """

    queries: tuple[Query, ...] = ()
    replies: int = 0
    barren: int = 0


def generate(
    llm: LLM,
    request: Request,
    so_far: GeneratedQueries | None = None,
    *,
    most: int | None = None,
    on_reply: Callable[[GeneratedQueries], None] = lambda generated: None,
) -> GeneratedQueries:
    """Generate the requested number of different queries, or fewer if the model gives no new ones.

    Args:
        so_far: result of an earlier call to continue from.
        most: most requests, including those of ``so_far``.
        on_reply: called after each reply with all queries so far.

    Raises:
        UsageError: the description does not fit the model's context.
        ViperError: the model failed.
    """
    state = so_far or GeneratedQueries()
    limit = request.most_replies if most is None else min(most, request.most_replies)
    while len(state.queries) < request.count and state.replies < limit and state.barren < BARREN:
        prompt, tokens = _fit_prompt(llm, request, [query.text for query in state.queries])
        seed = request.seed * _SEEDS_A_RUN + state.replies
        completion = llm.generate([prompt], Sampling(TEMPERATURE, seed, tokens))[0][0]
        reply = completion.text
        if completion.finish_reason == "length":
            reply = reply.rpartition("\n")[0]  # its last line is cut
        read = query_lines.read_queries(reply, request.task)
        queries = tuple(query_lines.without_repeats([*state.queries, *read]))[: request.count]
        barren = state.barren + 1 if len(queries) == len(state.queries) else 0
        state = GeneratedQueries(queries, state.replies + 1, barren)
        on_reply(state)
    return state


def _fit_prompt(llm: LLM, request: Request, queries: list[str]) -> tuple[str, int]:
    """Return the prompt and the limit for the reply's tokens.

    The prompt requests fewer queries if the model's context is short.
    """
    count, used = min(A_REPLY, request.count - len(queries)), 0
    while count:
        recent = queries[-min(_SHOWN, 2 * count) :]
        prompt = query_lines.build_query_prompt(
            request.description, request.task, count, recent, media=request.media
        )
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

# About 10,000 tokens, a third of the context of many models: a data sheet takes a few pages.
_MOST_CHARS = 40_000


def read_description(path: Path) -> str:
    """Read the text of a data set description.

    Raises:
        UsageError: the file cannot be read, is empty, or is longer than a few pages.
    """
    text = _text(path).strip()
    if not text:
        raise UsageError(f"{path}: empty; describe the data set in a few sentences")
    if len(text) > _MOST_CHARS:
        raise UsageError(f"{path}: {len(text)} characters; a data sheet has at most {_MOST_CHARS}")
    return text


def read_query_file(path: Path, task: str) -> list[Query]:
    """Read the distinct queries of a file. A line is a query or ``{"query": …, "options": […]}``.

    Raises:
        UsageError: a line is not a valid query (names its number), or there is no query.
    """
    queries = []
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        queries.append(query_lines.read_line(line, task))
        wrong = query_lines.fault(queries[-1])
        if wrong is not None:
            raise UsageError(f"{path}:{number}: {wrong}; one query a line")
    if not queries:
        raise UsageError(f"{path}: no query; one a line")
    return query_lines.without_repeats(queries)


class QueryStore:
    """Folder of generated queries, saved after each reply so that no request is repeated.

    :func:`read_query_file` can read its ``queries.jsonl``.
    """

    def __init__(self, folder: Path, request: Request, model_id: str) -> None:
        self._folder, self._task = folder, request.task
        self._asked = {
            "sheet": hashlib.sha256(request.description.encode()).hexdigest()[:16],
            "task": request.task,
            "media": request.media,
            "queries": request.count,
            "seed": request.seed,
            "llm": model_id,
        }

    def load(self) -> GeneratedQueries:
        """Load the queries of the folder; a new folder has none.

        Raises:
            UsageError: the folder holds queries for another request; says what differs.
            StoreError: a file is damaged.
        """
        path = self._folder / REQUEST
        if not path.is_file():
            return GeneratedQueries()
        try:
            record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            before = dict(record["asked"])
            counts = int(record["replies"]), int(record["barren"])
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
        return GeneratedQueries(tuple(read_query_file(self._folder / QUERIES, self._task)), *counts)

    def save(self, generated: GeneratedQueries) -> None:
        """Save the queries. Save nothing while there is no query, so that a later run starts again.

        Raises:
            StoreError: the folder cannot be written.
        """
        if not generated.queries:
            return
        records = (
            {"query": query.text, **({"options": query.options} if query.options else {})}
            for query in generated.queries
        )
        lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        write_file(self._folder / QUERIES, "".join(lines))
        counts = {"replies": generated.replies, "barren": generated.barren}
        write_file(self._folder / REQUEST, json.dumps({"asked": self._asked, **counts}) + "\n")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as text ({error})") from None
