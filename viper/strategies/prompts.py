"""The prompt of a query under a run's settings: names of the API, and as many examples as fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from viper.api.registry import IMAGE_TASKS
from viper.api.sets import ApiEntry
from viper.errors import UsageError
from viper.models.llm.protocol import LLM
from viper.prompting.builder import FailedProgram, build_prompt
from viper.schema import Example, Query
from viper.strategies.base import Components, RunContext
from viper.strategies.examples import ExampleRequest
from viper.strategies.settings import RunSettings

Entry = TypeVar("Entry")


class Reader(Protocol):
    """What is asked of a model; every :class:`viper.models.llm.protocol.LLM` is one.

    ``max_context`` is None where the model does not say it.
    """

    @property
    def max_context(self) -> int | None: ...

    def count_tokens(self, text: str) -> int: ...


def in_order(best_first: Sequence[Entry], order: str) -> list[Entry]:
    """Examples as they stand in a prompt: ``rising`` puts the best next to the query."""
    return list(reversed(best_first)) if order == "rising" else list(best_first)


def fit_examples(
    build: Callable[[Sequence[Entry]], str],
    best_first: Sequence[Entry],
    reader: Reader,
    max_tokens: int,
) -> tuple[str, Sequence[Entry]]:
    """The prompt with as many of the best examples as leave room for a program, and which.

    Usually all fit, and one prompt is counted; otherwise their number is halved towards the one
    that fits. When not even one does, there are none: what is left is then for the model to
    refuse. Without examples nothing is counted.

    Args:
        build: the prompt that shows these, given the best first; fewer make a shorter one.
        best_first: the examples that are wanted.
        max_tokens: kept free for the program.
    """
    if not best_first or reader.max_context is None:
        return build(best_first), best_first
    room = reader.max_context - max_tokens
    prompt = build(best_first)
    if reader.count_tokens(prompt) <= room:
        return prompt, best_first
    fits, too_many = 0, len(best_first)
    prompt = build(())
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        tried = build(best_first[:middle])
        if reader.count_tokens(tried) <= room:
            fits, prompt = middle, tried
        else:
            too_many = middle
    return prompt, best_first[:fits]


class ShowsProgram(Protocol):
    """What stands in a prompt as an example."""

    @property
    def program(self) -> str: ...


Shown = TypeVar("Shown", bound=ShowsProgram)


def write_prompt(
    components: Components, context: RunContext, feedback: FailedProgram | None = None
) -> str:
    """The prompt that a query gets under the run's settings."""
    settings, query = context.settings, asked_as(context.query)
    request = ExampleRequest(
        query.task,
        settings.api,
        settings.examples,
        retrieval=settings.retrieval,
        embed=components.embed,
    )
    best = [one.example for one in components.examples.select(query, request).correct]

    def build(names: Sequence[ApiEntry], examples: Sequence[Example]) -> str:
        ordered = in_order(examples, settings.example_order)
        return build_prompt(
            query,
            names,
            ordered,
            style=settings.prompt_style,
            feedback=feedback,
            lines=is_lines(components, context),
        )

    prompt, examples = fit_prompt(components, context, best, build)
    ordered = in_order(examples, settings.example_order)
    context.examples_shown = tuple(example.sample_id for example in ordered)
    context.examples_left_out = len(best) - len(examples)
    return prompt


def fit_prompt(
    components: Components,
    context: RunContext,
    best: Sequence[Shown],
    build: Callable[[Sequence[ApiEntry], Sequence[Shown]], str],
    reader: LLM | None = None,
) -> tuple[str, Sequence[Shown]]:
    """The prompt with as many of the best examples as fit, and which those are.

    ``context.left_out`` tells the names of the API that the router kept out of it.

    Args:
        best: the examples that are wanted, the best first.
        build: the prompt that lists these names and shows these examples, given best first.
        reader: whose context it has to fit; None: the program writer's.

    Raises:
        UsageError: line programs about a video.
    """
    settings, query = context.settings, asked_as(context.query)
    entries = components.library.api_set(settings.api).entries(query.task)
    if query.task not in IMAGE_TASKS and is_lines(components, context):
        raise UsageError(
            f"the API {settings.api!r} has no modules for videos; take another one: --api abstract"
        )

    def names(examples: Sequence[Shown]) -> Sequence[ApiEntry]:
        return routed(query, entries, examples, components, settings)

    prompt, kept = fit_examples(
        lambda examples: build(names(examples), examples),
        best,
        reader or components.llm,
        settings.max_tokens,
    )
    listed = {entry.name for entry in names(kept)}
    context.left_out = tuple(entry.name for entry in entries if entry.name not in listed)
    return prompt, kept


def is_lines(components: Components, context: RunContext) -> bool:
    """Whether programs are lines of modules under the run's API."""
    return components.library.api_set(context.settings.api).lines


def routed(
    query: Query,
    entries: Sequence[ApiEntry],
    examples: Sequence[ShowsProgram],
    components: Components,
    settings: RunSettings,
) -> Sequence[ApiEntry]:
    """The names that the prompt lists: all, or those the router chose where a budget is set."""
    if not settings.api_budget:
        return entries
    router = components.routers.get(
        entries,
        components.llm.count_tokens,
        "compact" if settings.prompt_style == "compact" else "full",
        settings.router,
        components.embed,
    )
    return router.choose(query.text, settings.api_budget, [e.program for e in examples])


def asked_as(query: Query) -> Query:
    """The query as the language model is asked it: APIs are told apart by what they look at.

    A choice about pictures is asked as a question, its options compared with the answer
    afterwards; a question about a video is asked as a choice without options.
    """
    if query.task == "choice" and query.media != "video":
        return replace(query, task="question", options=())
    if query.task == "question" and query.media == "video":
        return replace(query, task="choice")
    return query
