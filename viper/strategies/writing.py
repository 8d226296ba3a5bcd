"""How a strategy's programs are written: prompt, sampling, drawing again what has failed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from viper.api.registry import IMAGE_TASKS
from viper.api.sets import ApiEntry
from viper.errors import CancelledError, UsageError
from viper.llm.protocol import Sampling
from viper.prompting.budget import fit_examples, in_order
from viper.prompting.builder import Feedback, build_prompt
from viper.prompting.compact import END_OF_PROGRAM
from viper.prompting.extract import extract_code
from viper.schema import Example, Query, Trial, Usage
from viper.strategies.base import Components, RunContext, RunSettings, Wanted

REDRAWS = 3
"""How often a program that has failed already is drawn anew within one attempt."""

REDRAW_WARMER = 0.3
"""What each redraw adds to the temperature."""

_REDRAW_SEED = 100
_VOTE_SEED = 10_000_000


@dataclass(frozen=True)
class Written:
    """A program with how it came to be, and what that cost."""

    program: str
    prompt: str
    correction: str
    seed: int | None
    temperature: float | None
    usage: Usage = Usage()
    seconds: float = 0.0


def write(
    components: Components,
    context: RunContext,
    place: tuple[int, int],
    last: Trial | None,
    failed: set[str],
) -> Written | None:
    """The program of a vote's attempt; one that failed already is drawn anew, ever warmer.

    None where the budget is used up before there is one that has not failed.
    """
    settings, (vote, attempt) = context.settings, place
    before, started = context.usage.snapshot(), time.perf_counter()
    feedback = None
    if attempt and settings.feedback and last is not None and last.failure is not None:
        feedback = Feedback(last.program, last.failure)
    prompt = write_prompt(components, context, feedback)
    sampling = attempt_sampling(settings, attempt, afresh=feedback is None, vote=vote)
    program = _drawn(components, context, prompt, sampling)
    for _ in range(REDRAWS):
        if program not in failed:
            break
        sampling = replace(
            sampling,
            seed=(sampling.seed or 0) + _REDRAW_SEED,
            temperature=sampling.temperature + REDRAW_WARMER,
        )
        program = _drawn(components, context, prompt, sampling)
    if program is None:
        return None
    correction = "first"
    if attempt:
        correction = "self_debug" if feedback is None else "self_debug_feedback"
    usage, seconds = context.usage.since(before), time.perf_counter() - started
    drawn = (sampling.seed, sampling.temperature)
    return Written(program, prompt, correction, *drawn, usage, seconds)


def _drawn(
    components: Components, context: RunContext, prompt: str, sampling: Sampling
) -> str | None:
    """One more program; None where the budget is used up."""
    check_cancelled(context)
    context.stopped = context.over_budget()
    if context.stopped is not None:
        return None
    completion = components.llm.generate([prompt], sampling)[0][0]
    context.usage.add(completion)
    return extract_code(completion.text)


def attempt_sampling(
    settings: RunSettings, attempt: int = 0, afresh: bool = True, vote: int = 0
) -> Sampling:
    """How the program of an attempt is decoded; later ones afresh get a temperature above 0.

    So does the first of a later vote: decoded greedily it would repeat the one before.
    """
    temperature = settings.temperature
    if (attempt or vote) and afresh:
        temperature = max(temperature, settings.retry_temperature)
    return Sampling(
        temperature=temperature,
        seed=settings.seed * 1_000 + attempt + vote * _VOTE_SEED,
        max_tokens=settings.max_tokens,
        stop=(END_OF_PROGRAM,) if settings.prompt_style == "compact" else (),
    )


def write_prompt(
    components: Components, context: RunContext, feedback: Feedback | None = None
) -> str:
    """The prompt that a query gets under the run's settings."""
    settings, query = context.settings, asked_as(context.query)
    api = components.library.api_set(settings.api)
    entries = api.entries(query.task)
    if api.lines and query.task not in IMAGE_TASKS:
        raise UsageError(
            f"the API {settings.api!r} has no modules for videos; take another one: --api abstract"
        )
    wanted = Wanted(
        query.task, settings.api, settings.examples, settings.retrieval, components.embed
    )
    best = components.examples.examples(query, wanted)

    def build(examples: Sequence[Example]) -> str:
        shown = routed(query, entries, examples, components, settings)
        ordered = in_order(examples, settings.example_order)
        return build_prompt(
            query,
            shown,
            ordered,
            style=settings.prompt_style,
            feedback=feedback,
            lines=api.lines,
        )

    prompt, examples = fit_examples(build, best, components.llm, settings.max_tokens)
    shown = routed(query, entries, examples, components, settings)
    listed = {entry.name for entry in shown}
    context.left_out = tuple(entry.name for entry in entries if entry.name not in listed)
    ordered = in_order(examples, settings.example_order)
    context.examples_shown = tuple(example.sample_id for example in ordered)
    context.examples_left_out = len(best) - len(examples)
    return prompt


def routed(
    query: Query,
    entries: Sequence[ApiEntry],
    examples: Sequence[Example],
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


def check_cancelled(context: RunContext) -> None:
    """Raises CancelledError where the run was cancelled."""
    if context.cancel.is_set():
        raise CancelledError("the run was cancelled")
