"""How a strategy's programs are written: sampling, drawing again what has failed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from viper.errors import CancelledError
from viper.models.llm.protocol import LLM, Sampling
from viper.prompting.builder import FailedProgram
from viper.prompting.compact import END_OF_PROGRAM
from viper.prompting.extract import extract_code
from viper.schema import Trial, Usage
from viper.strategies.base import Components, RunContext
from viper.strategies.prompts import write_prompt
from viper.strategies.settings import RunSettings

REDRAWS = 3
"""How often a program that has failed already is drawn anew within one attempt."""

REDRAW_WARMER = 0.3
"""What each redraw adds to the temperature."""

_REDRAW_SEED = 100
_VOTE_SEED = 10_000_000

Place = tuple[int, int]
"""A vote and its attempt, both from 0."""


@dataclass(frozen=True)
class Prompted:
    """What the program writer is asked, with the plan that it is to carry out, where one was made.

    Attributes:
        plan_prompt: what the planner was asked.
        demonstrations: ids of those that either prompt shows.
    """

    prompt: str
    plan: str | None = None
    plan_prompt: str | None = None
    demonstrations: tuple[str, ...] = ()


Prompter = Callable[[Components, RunContext, Place, Trial | None], Prompted | None]
"""Makes the prompt of an attempt; the trial is the one whose failure it is to show, if any.

None where the program writer cannot be asked; ``context.stopped`` then says why.
"""


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
    plan: str | None = None
    plan_prompt: str | None = None
    demonstrations: tuple[str, ...] = ()


def query_alone(
    components: Components, context: RunContext, place: Place, failed: Trial | None
) -> Prompted:
    """The prompter of strategy ``program``."""
    return Prompted(write_prompt(components, context, feedback_on(failed)))


def write(
    components: Components,
    context: RunContext,
    place: Place,
    last: Trial | None,
    failed: set[str],
    prompter: Prompter = query_alone,
) -> Written | None:
    """The program of a vote's attempt; one that failed already is drawn anew, ever warmer.

    None where the budget is used up before there is one that has not failed, or where the prompter
    has no prompt.
    """
    settings, (vote, attempt) = context.settings, place
    before, started = context.usage.snapshot(), time.perf_counter()
    is_told = bool(attempt) and settings.feedback and feedback_on(last) is not None
    asked = prompter(components, context, place, last if is_told else None)
    if asked is None:
        return None
    sampling = attempt_sampling(settings, attempt, afresh=not is_told, vote=vote)
    program = _drawn(components, context, asked.prompt, sampling)
    for _ in range(REDRAWS):
        if program not in failed:
            break
        sampling = warmer(sampling)
        program = _drawn(components, context, asked.prompt, sampling)
    if program is None:
        return None
    correction = "first"
    if attempt:
        correction = "self_debug_feedback" if is_told else "self_debug"
    return Written(
        program,
        asked.prompt,
        correction,
        sampling.seed,
        sampling.temperature,
        context.usage.since(before),
        time.perf_counter() - started,
        asked.plan,
        asked.plan_prompt,
        asked.demonstrations,
    )


def feedback_on(trial: Trial | None) -> FailedProgram | None:
    """What the next prompt shows of a trial that failed."""
    if trial is None or trial.failure is None:
        return None
    return FailedProgram(trial.program, trial.failure)


def warmer(sampling: Sampling) -> Sampling:
    """How to draw anew what was of no use."""
    return replace(
        sampling,
        seed=sampling.seed + _REDRAW_SEED,
        temperature=sampling.temperature + REDRAW_WARMER,
    )


def drawn(llm: LLM, context: RunContext, prompt: str, sampling: Sampling) -> str | None:
    """What a language model writes; None where the budget is used up.

    Raises:
        CancelledError: the run was cancelled.
    """
    check_cancelled(context)
    context.stopped = context.over_budget()
    if context.stopped is not None:
        return None
    completion = llm.generate([prompt], sampling)[0][0]
    context.usage.add(completion)
    return completion.text


def _drawn(
    components: Components, context: RunContext, prompt: str, sampling: Sampling
) -> str | None:
    text = drawn(components.llm, context, prompt, sampling)
    return None if text is None else extract_code(text)


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


def check_cancelled(context: RunContext) -> None:
    """Raises CancelledError where the run was cancelled."""
    if context.cancel.is_set():
        raise CancelledError("the run was cancelled")
