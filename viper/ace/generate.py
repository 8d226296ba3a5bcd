"""Asks a language model for queries about a data set that it knows by its sheet only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from viper.errors import UsageError
from viper.models.llm.protocol import LLM, Sampling
from viper.prompting.query_lines import build_query_prompt, different, read_queries
from viper.schema import Query

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
        """Requests after which the model is asked no more, whatever came of them."""
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
    """As many different queries as are wanted, or those that came before asking is given up.

    Args:
        so_far: what an earlier call came to; its queries stay, and count.
        most: requests at most, those of ``so_far`` among them.
        on_reply: called after each reply with all that there is.

    Raises:
        UsageError: the sheet is longer than the model reads.
        ViperError: the model failed.
    """
    found = so_far or Generated()
    limit = request.most_replies if most is None else min(most, request.most_replies)
    while len(found.queries) < request.count and found.replies < limit and found.barren < BARREN:
        found = _asked_again(llm, request, found)
        on_reply(found)
    return found


def _asked_again(llm: LLM, request: Request, found: Generated) -> Generated:
    prompt, tokens = _fitting(llm, request, [query.text for query in found.queries])
    seed = request.seed * _SEEDS_A_RUN + found.replies
    completion = llm.generate([prompt], Sampling(TEMPERATURE, seed, tokens))[0][0]
    reply = completion.text
    if completion.finish_reason == "length":
        reply = reply.rpartition("\n")[0]  # its last line is cut
    read = read_queries(reply, request.task)
    queries = tuple(different([*found.queries, *read]))[: request.count]
    is_barren = len(queries) == len(found.queries)
    return Generated(queries, found.replies + 1, found.barren + 1 if is_barren else 0)


def _fitting(llm: LLM, request: Request, known: list[str]) -> tuple[str, int]:
    """The prompt, and how long its reply may be; asks for fewer where the model's context ends."""
    wanted, used = min(A_REPLY, request.count - len(known)), 0
    while wanted:
        shown = known[-min(_SHOWN, 2 * wanted) :]
        prompt = build_query_prompt(request.sheet, request.task, wanted, shown, media=request.media)
        tokens = wanted * _TOKENS_A_QUERY + _TOKENS_AROUND
        used = llm.count_tokens(prompt)
        if used + tokens <= llm.max_context:
            return prompt, tokens
        wanted //= 2
    raise UsageError(
        f"the data sheet makes a prompt of {used} tokens and {llm.model_id} reads "
        f"{llm.max_context}; shorten the sheet, or give the queries with --queries-from"
    )
