"""The prompt of a query under a run's settings: names of the API, and the examples that fit.

:func:`write_prompt` asks the store for examples, and :func:`program_prompt` builds the prompt with
them. :func:`fit_prompt` decides what a prompt holds: the names of the API, as many examples as
:func:`fit_examples` finds room for, and the query's pictures for a model that sees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np

from viper.api.registry import IMAGE_TASKS
from viper.api.sets import PRINTED_EXAMPLES, ApiEntry, ApiSet, api_set
from viper.api.spec import Listing
from viper.errors import UsageError
from viper.models.llm.messages import Picture, Prompt, as_text, with_pictures
from viper.models.llm.prompt_tokens import picture_tokens
from viper.models.llm.protocol import LLM
from viper.models.media import Media
from viper.prompting.builder import build_prompt, careful_examples, entry_point, is_open_video
from viper.prompting.feedback import FailedProgram
from viper.prompting.template import fill
from viper.schema import Example, Query, Trial
from viper.strategies.base import Components, RunContext
from viper.strategies.examples import Demonstration, ExampleRequest
from viper.strategies.settings import RunSettings

Entry = TypeVar("Entry")

# Number of a vote and of its attempt, both from 0.
AttemptNumber = tuple[int, int]

# Frames of a video that a model which sees gets: at up to 1,280 tokens each they leave room for
# the rest of the prompt in a context of 16,000.
FRAMES_SHOWN = 8

# Tasks whose names every system message lists; edits, tags and videos have further ones.
_COMMON = ("question", "ground", "statement")

# Functions of other APIs that change a picture; prompts for edits list them.
_EDITS = (
    "COLORPOP", "BGBLUR", "REPLACE", "EMOJI", "rotate", "flip", "contrast", "grayscale", "blur",
)  # fmt: skip

# An open question about a video wants a word or a number, which these make of a value.
_COERCIONS = ("bool_to_yesno", "coerce_to_numeric")


def by_polarity(
    best_first: Sequence[Demonstration], settings: RunSettings
) -> tuple[list[Example], list[Example]]:
    """Return the correct and the incorrect examples, both in the order of the prompt.

    The order ``rising`` puts the best one next to the query.
    """
    step = -1 if settings.example_order == "rising" else 1
    ordered = [item.example for item in best_first[::step]]
    correct = [example for example in ordered if example.polarity == "correct"]
    return correct, [example for example in ordered if example.polarity != "correct"]


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


class FittedPrompt(NamedTuple):
    """A prompt that fits its reader.

    Attributes:
        examples: the examples in it, best first.
        left_out: names of the API that a router kept out of it.
    """

    prompt: Prompt
    examples: Sequence[Demonstration]
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
    components: Components,
    context: RunContext,
    number: AttemptNumber = (0, 0),
    failed: Sequence[Trial] = (),
) -> WriterPrompt:
    """Return the prompt of a query under the run's settings, the same one for every attempt.

    Args:
        failed: the trials whose failures the prompt states, oldest first; a program that stands
            there twice was written again.
    """
    settings, query = context.settings, query_for_prompt(context.query)
    request = ExampleRequest(
        query.task,
        settings.api,
        settings.examples,
        retrieval=settings.retrieval,
        embed=components.embed,
    )
    best = components.examples.select(query, request).correct
    if settings.prompt_style == "chat" and not components.library.api_set(settings.api).lines:
        best = _for_chat(components, query, settings, best)
    prompt, shown, left_out = program_prompt(components, context, best, failed)
    return WriterPrompt(
        prompt,
        left_out=left_out,
        examples_shown=tuple(example.sample_id for example in by_polarity(shown, settings)[0]),
        examples_left_out=len(best) - len(shown),
    )


def _for_chat(
    components: Components, query: Query, settings: RunSettings, best: Sequence[Demonstration]
) -> list[Demonstration]:
    """Return the examples whose programs take what the query has, then those written by hand."""
    entry = entry_point(query.task, query.media)
    fitting = [each for each in best if entry in each.example.program]
    if settings.careful:
        entries, listing = names_for(components, query, settings)
        by_hand = careful_examples(query, [e.name for e in (*listing.common, *entries)])
        free = max(0, settings.examples - len(fitting))
        fitting += [Demonstration("", example) for example in by_hand[:free]]
    return fitting


def program_prompt(
    components: Components,
    context: RunContext,
    best: Sequence[Demonstration],
    failed: Sequence[Trial],
    plan: str = "",
) -> FittedPrompt:
    """Return the prompt for a program with as many of the best examples as fit.

    Args:
        failed: the trials whose failures the prompt states, oldest first; a program that stands
            there twice was written again.
        plan: numbered steps for the program.
    """
    settings, query = context.settings, query_for_prompt(context.query)
    feedback = _last_failure(failed)

    def build(names: Sequence[ApiEntry], examples: Sequence[Demonstration]) -> Prompt:
        return build_prompt(
            query,
            names,
            *by_polarity(examples, settings),
            style=settings.prompt_style,
            plan=plan,
            feedback=feedback,
            lines=components.library.api_set(settings.api).lines,
            listing=names_for(components, query, settings)[1],
        )

    return fit_prompt(components, context, best, build)


def _last_failure(trials: Sequence[Trial]) -> FailedProgram | None:
    """Return the last failed program with the different ones before it, or None without any."""
    failed = [
        FailedProgram(trial.program, trial.failure, trial.tool_calls, trial.stdout, trial.reply)
        for trial in trials
        if trial.failure is not None
    ]
    if not failed:
        return None
    *earlier, last = failed
    others = {each.as_reply: each for each in earlier}
    repeated = others.pop(last.as_reply, None) is not None
    return replace(last, earlier=tuple(others.values()), repeated=repeated)


def fit_prompt(
    components: Components,
    context: RunContext,
    best: Sequence[Demonstration],
    build: Callable[[Sequence[ApiEntry], Sequence[Demonstration]], Prompt],
    role: str = "llm",
) -> FittedPrompt:
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
    api = components.library.api_set(settings.api)
    entries, _ = names_for(components, query, settings)
    if is_open_video(query) and settings.prompt_style != "compact":
        # Such a question wants a word or a number, as questions about pictures do.
        words = _entries(api, "question", settings)
        entries += tuple(entry for entry in words if entry.name in _COERCIONS)
    if query.task not in IMAGE_TASKS and api.lines:
        raise UsageError(
            f"the API {settings.api!r} has no modules for videos; take another one: --api abstract"
        )

    def names(examples: Sequence[Demonstration]) -> Sequence[ApiEntry]:
        """Return the names to list: all, none, or the router's selection if a budget is set."""
        if not settings.list_api or not settings.api_budget:
            return entries if settings.list_api else ()
        router = components.routers.get(
            entries,
            components.llm.count_tokens,
            "compact" if settings.prompt_style == "compact" else "full",
            settings.router,
            components.embed,
        )
        programs = [item.example.program for item in examples]
        return router.choose(query.text, settings.api_budget, programs)

    prompt, fitting = fit_examples(
        lambda examples: build(names(examples), examples),
        best,
        components.models.get(role, components.llm),
        settings.max_tokens + picture_tokens(shown_to(role, "", components, context)),
    )
    listed = {entry.name for entry in names(fitting)}
    left_out = tuple(entry.name for entry in entries if entry.name not in listed)
    return FittedPrompt(shown_to(role, prompt, components, context), fitting, left_out)


def names_for(
    components: Components, query: Query, settings: RunSettings, api: str = ""
) -> tuple[tuple[ApiEntry, ...], Listing]:
    """Return the names that prompts list for a query, and the form of the list.

    Short prompts list only names whose role has a model, and for edits those that change pictures.
    A system message whose names a router selects is not the same for every query.

    Args:
        api: another API than that of the settings.
    """
    task, names = query_for_prompt(query).task, components.library.api_set(api or settings.api)
    entries, whole = _entries(names, task, settings), settings.api_text == "whole"
    if whole or settings.prompt_style == "compact":
        return entries, Listing(whole=whole, facts=components.facts)
    if task == "edit" and not names.lines:
        edits = _entries(api_set("visprog+look"), task, settings)
        entries += tuple(e for e in edits if e.name in _EDITS and e not in entries)
    every = dict.fromkeys(chain.from_iterable(_entries(names, t, settings) for t in _COMMON))
    roles = ("", *components.toolbox.models.roles)
    common = tuple(entry for entry in every if entry.needs in roles)
    listed = tuple(entry for entry in entries if entry.needs in roles)
    missing = {e.name for e in (*every, *entries)} - {e.name for e in (*common, *listed)}
    is_stable = settings.list_api and not settings.api_budget and not names.lines
    return listed, Listing(common if is_stable else (), frozenset(missing), facts=components.facts)


def _entries(api: ApiSet, task: str, settings: RunSettings) -> tuple[ApiEntry, ...]:
    """Return the names of an API; zero-shot, only with the examples that the paper prints."""
    if settings.careful and settings.examples:
        return api.entries(task)
    return tuple(
        entry if entry.name in PRINTED_EXAMPLES else replace(entry, example="")
        for entry in api.entries(task)
    )


def shown_to(role: str, prompt: Prompt, components: Components, context: RunContext) -> Prompt:
    """Return the prompt with the query's pictures if the model of the role is to see them."""
    if not sees_pictures(role, components):
        return prompt
    pictures, caption = pictures_and_caption(context.media)
    return with_pictures(prompt, pictures, f"{caption} {fill('seen', {}).strip()}")


def sees_pictures(role: str, components: Components) -> bool:
    """Return whether the model of a role is to see the pictures of queries."""
    return (role if role in components.models else "llm") in components.sees


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


def query_for_prompt(query: Query) -> Query:
    """Return the query in the form for prompts; APIs differ by the media they look at.

    A choice about pictures becomes a question, and its options are compared with the answer
    afterwards. A question about a video becomes a choice without options. Marked boxes are put
    into words.
    """
    if query.like:
        words = f"{query.text} ({fill('marked', {'count': str(len(query.like))}).strip()})"
        query = replace(query, text=words, like=())
    if query.task == "choice" and query.media != "video":
        return replace(query, task="question", options=())
    if query.task == "question" and query.media == "video":
        return replace(query, task="choice")
    return query
