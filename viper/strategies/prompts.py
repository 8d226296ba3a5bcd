"""The prompt of a query under a run's settings: names of the API, and the examples that fit.

:func:`write_prompt` asks the store for examples and lets :func:`fit_prompt` build the prompt: the
names of the API that :func:`select_names` leaves, as many examples as :func:`fit_examples` finds
room for, and the query's pictures for a model that sees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from viper.api.registry import IMAGE_TASKS
from viper.api.sets import ApiEntry
from viper.errors import UsageError
from viper.models.llm.messages import Picture, Prompt, as_text, with_pictures
from viper.models.llm.prompt_tokens import picture_tokens
from viper.models.llm.protocol import LLM
from viper.models.media import Media
from viper.prompting.builder import FailedProgram, build_prompt, is_open_video
from viper.schema import Example, Query
from viper.strategies.base import Components, RunContext
from viper.strategies.examples import ExampleRequest
from viper.strategies.settings import RunSettings

Entry = TypeVar("Entry")

# Frames of a video that a model which sees gets: at up to 1,280 tokens each they leave room for
# the rest of the prompt in a context of 16,000.
FRAMES_SHOWN = 8

# An open question about a video wants a word or a number, which these make of a value.
_COERCIONS = ("bool_to_yesno", "coerce_to_numeric")


def in_order(best_first: Sequence[Entry], order: str) -> list[Entry]:
    """Return examples in the order of a prompt: ``rising`` puts the best next to the query."""
    return list(reversed(best_first)) if order == "rising" else list(best_first)


def fit_examples(
    build: Callable[[Sequence[Entry]], Prompt],
    best_first: Sequence[Entry],
    reader: LLM,
    max_tokens: int,
) -> tuple[Prompt, Sequence[Entry]]:
    """Return the prompt with as many of the best examples as leave room for a program, and these.

    Usually all fit, and one prompt is counted. Otherwise a bisection finds the largest number that
    fits. If not even one fits, the prompt has none, and the model may refuse it. Without examples
    nothing is counted.

    Args:
        build: returns the prompt with these examples, best first; fewer make a shorter prompt.
        best_first: the candidates.
        max_tokens: number of tokens to leave free for the program and the pictures.
    """
    if not best_first or reader.max_context is None:
        return build(best_first), best_first
    room = reader.max_context - max_tokens
    prompt = build(best_first)
    if reader.count_tokens(as_text(prompt)) <= room:
        return prompt, best_first
    fits, too_many = 0, len(best_first)
    prompt = build(())
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        candidate = build(best_first[:middle])
        if reader.count_tokens(as_text(candidate)) <= room:
            fits, prompt = middle, candidate
        else:
            too_many = middle
    return prompt, best_first[:fits]


class ShowsProgram(Protocol):
    """An item that a prompt shows as an example."""

    @property
    def program(self) -> str: ...


ExampleT = TypeVar("ExampleT", bound=ShowsProgram)


class FittedPrompt(NamedTuple, Generic[ExampleT]):
    """A prompt that fits its reader.

    Attributes:
        examples: the examples in it, best first.
        left_out: names of the API that a router kept out of it.
    """

    prompt: Prompt
    examples: Sequence[ExampleT]
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class WriterPrompt:
    """Prompt for the program writer, with the plan of the program if there is one.

    Attributes:
        plan_prompt: prompt of the planner.
        demonstrations: ids of the demonstrations in either prompt.
        left_out: names of the API that a router kept out of the prompt.
        examples_shown: sample ids of the prompt's examples.
        examples_left_out: number of further examples for which there was no room.
    """

    prompt: Prompt
    plan: str | None = None
    plan_prompt: Prompt | None = None
    demonstrations: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    examples_shown: tuple[str, ...] = ()
    examples_left_out: int = 0


def write_prompt(
    components: Components, context: RunContext, feedback: FailedProgram | None = None
) -> WriterPrompt:
    """Return the prompt of a query under the run's settings."""
    settings, query = context.settings, query_for_prompt(context.query)
    request = ExampleRequest(
        query.task,
        settings.api,
        settings.examples,
        retrieval=settings.retrieval,
        embed=components.embed,
    )
    best = [item.example for item in components.examples.select(query, request).correct]

    def build(names: Sequence[ApiEntry], examples: Sequence[Example]) -> Prompt:
        ordered = in_order(examples, settings.example_order)
        return build_prompt(
            query,
            names,
            ordered,
            style=settings.prompt_style,
            feedback=feedback,
            lines=is_lines(components, context),
            facts=components.facts,
        )

    prompt, examples, left_out = fit_prompt(components, context, best, build)
    ordered = in_order(examples, settings.example_order)
    return WriterPrompt(
        prompt,
        left_out=left_out,
        examples_shown=tuple(example.sample_id for example in ordered),
        examples_left_out=len(best) - len(examples),
    )


def fit_prompt(
    components: Components,
    context: RunContext,
    best: Sequence[ExampleT],
    build: Callable[[Sequence[ApiEntry], Sequence[ExampleT]], Prompt],
    role: str = "llm",
) -> FittedPrompt[ExampleT]:
    """Return the prompt with as many of the best examples as fit.

    The prompt of a model that sees holds the query's pictures.

    Args:
        best: the candidates, best first.
        build: returns the prompt with these names and these examples, best first.
        role: the language model that reads the prompt, whose context it must fit.

    Raises:
        UsageError: line programs about a video.
    """
    settings, query = context.settings, query_for_prompt(context.query)
    entries = components.library.api_set(settings.api).entries(query.task)
    if is_open_video(query) and settings.prompt_style != "compact":
        # Such a question wants a word or a number, as questions about pictures do.
        others = components.library.api_set(settings.api).entries("question")
        entries += tuple(entry for entry in others if entry.name in _COERCIONS)
    if query.task not in IMAGE_TASKS and is_lines(components, context):
        raise UsageError(
            f"the API {settings.api!r} has no modules for videos; take another one: --api abstract"
        )

    def names(examples: Sequence[ExampleT]) -> Sequence[ApiEntry]:
        return select_names(query, entries, examples, components, settings)

    prompt, fitting = fit_examples(
        lambda examples: build(names(examples), examples),
        best,
        components.models.get(role, components.llm),
        settings.max_tokens + picture_tokens(shown_to(role, "", components, context)),
    )
    listed = {entry.name for entry in names(fitting)}
    left_out = tuple(entry.name for entry in entries if entry.name not in listed)
    return FittedPrompt(shown_to(role, prompt, components, context), fitting, left_out)


def shown_to(role: str, prompt: Prompt, components: Components, context: RunContext) -> Prompt:
    """Return the prompt with the query's pictures if the model of the role is to see them."""
    sees = role if role in components.models else "llm"
    if sees not in components.sees:
        return prompt
    return with_pictures(prompt, *pictures_and_caption(context.media))


def pictures_and_caption(media: Media) -> tuple[list[Picture], str]:
    """Return the pictures of a query for a model that sees, and words about them.

    Of a video these are evenly chosen frames.
    """
    video = media.video
    if video is None:
        names = "The picture of the query" if len(media.images) == 1 else "The pictures"
        return [Picture(pixels) for pixels in media.images], f"{names}, as the program gets it."
    chosen = [round(i) for i in np.linspace(0, len(video) - 1, min(FRAMES_SHOWN, len(video)))]
    caption = f"Frames {', '.join(map(str, chosen))} of the video's {len(video)}, counted from 0."
    return [Picture(video[frame]) for frame in chosen], caption


def is_lines(components: Components, context: RunContext) -> bool:
    """Return whether programs are lines of modules under the run's API."""
    return components.library.api_set(context.settings.api).lines


def select_names(
    query: Query,
    entries: Sequence[ApiEntry],
    examples: Sequence[ShowsProgram],
    components: Components,
    settings: RunSettings,
) -> Sequence[ApiEntry]:
    """Return the names for the prompt: all, none, or the router's selection if a budget is set."""
    if not settings.list_api:
        return ()
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


def query_for_prompt(query: Query) -> Query:
    """Return the query in the form for prompts; APIs differ by the media they look at.

    A choice about pictures becomes a question, and its options are compared with the answer
    afterwards. A question about a video becomes a choice without options.
    """
    if query.task == "choice" and query.media != "video":
        return replace(query, task="question", options=())
    if query.task == "question" and query.media == "video":
        return replace(query, task="choice")
    return query
