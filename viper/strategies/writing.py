"""Generation of programs: prompts, sampling, and resampling of programs that have failed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from viper.errors import CancelledError
from viper.models.llm.messages import Prompt, as_text
from viper.models.llm.protocol import LLM, Completion, Sampling
from viper.prompting.builder import FailedProgram
from viper.prompting.compact import END_OF_PROGRAM
from viper.prompting.extract import extract_code
from viper.prompting.replies import read_program
from viper.schema import Failure, Trial, Usage
from viper.strategies.base import Components, RunContext, StoppedError
from viper.strategies.prompts import WriterPrompt, write_prompt
from viper.strategies.settings import RunSettings

# Number of times that a program which has failed already is resampled within one attempt.
MAX_RESAMPLES = 3

# Increase of the temperature with each resampling.
TEMPERATURE_STEP = 0.3

_RESAMPLE_SEED = 100
_VOTE_SEED = 10_000_000

# Number of a vote and of its attempt, both from 0.
AttemptNumber = tuple[int, int]


# Builds the prompt of an attempt; the trial is the one whose failure the prompt states, if any.
# It raises StoppedError if the program writer cannot be asked.
PromptBuilder = Callable[[Components, RunContext, AttemptNumber, Trial | None], WriterPrompt]


@dataclass(frozen=True)
class Generation:
    """A program with its prompt, sampling and cost.

    Attributes:
        program: the code of the reply as far as it can be read; not run if there is a failure.
        failure: the reason why the reply holds no program that can be run.
        request: the prompt, unless the caller wrote the program.
    """

    program: str
    prompt: str
    correction: str
    seed: int | None
    temperature: float | None
    usage: Usage = Usage()
    seconds: float = 0.0
    failure: Failure | None = None
    request: WriterPrompt = WriterPrompt("")


@dataclass
class Attempts:
    """The programs of one query so far, so that none runs twice.

    Attributes:
        failed: programs that failed.
        answered: programs that answered, each with its trial.
        count: number of trials so far.
        request: the last prompt.
    """

    failed: set[str] = field(default_factory=set)
    answered: dict[str, Trial] = field(default_factory=dict)
    count: int = 0
    request: WriterPrompt = WriterPrompt("")


def prompt_for_query(
    components: Components, context: RunContext, number: AttemptNumber, failed: Trial | None
) -> WriterPrompt:
    """Return the prompt of strategy ``program``."""
    return write_prompt(components, context, feedback_on(failed))


def write_program(
    components: Components,
    context: RunContext,
    number: AttemptNumber,
    last: Trial | None,
    attempts: Attempts,
    prompter: PromptBuilder = prompt_for_query,
) -> Generation:
    """Write the program of a vote's attempt; resample it at a higher temperature if it failed
    before.

    Raises:
        StoppedError: the budget is used up before there is a new program, or the prompter has no
            prompt.
    """
    settings, (vote, attempt) = context.settings, number
    before, started = context.usage.snapshot(), time.perf_counter()
    has_feedback = bool(attempt) and settings.feedback and feedback_on(last) is not None
    request = prompter(components, context, number, last if has_feedback else None)
    attempts.request = request
    sampling = attempt_sampling(settings, attempt, resample=not has_feedback, vote=vote)
    program, failure = _sample_program(components, context, request.prompt, sampling)
    for _ in range(MAX_RESAMPLES):
        if program not in attempts.failed:
            break
        sampling = raise_temperature(sampling)
        program, failure = _sample_program(components, context, request.prompt, sampling)
    correction = "first"
    if attempt:
        correction = "self_debug_feedback" if has_feedback else "self_debug"
    return Generation(
        program,
        as_text(request.prompt),
        correction,
        sampling.seed,
        sampling.temperature,
        context.usage.since(before),
        time.perf_counter() - started,
        failure,
        request,
    )


def feedback_on(trial: Trial | None) -> FailedProgram | None:
    """Return the failed program of a trial for the next prompt, or None if it did not fail."""
    if trial is None or trial.failure is None:
        return None
    return FailedProgram(trial.program, trial.failure, trial.tool_calls)


def raise_temperature(sampling: Sampling) -> Sampling:
    """Return the sampling for another draw: a new seed and a higher temperature."""
    return replace(
        sampling,
        seed=sampling.seed + _RESAMPLE_SEED,
        temperature=sampling.temperature + TEMPERATURE_STEP,
    )


def sample_once(llm: LLM, context: RunContext, prompt: Prompt, sampling: Sampling) -> str:
    """Return the text of :func:`complete_once`."""
    return complete_once(llm, context, prompt, sampling).text


def complete_once(llm: LLM, context: RunContext, prompt: Prompt, sampling: Sampling) -> Completion:
    """Return one completion of a language model.

    Raises:
        CancelledError: the run was cancelled.
        StoppedError: the budget is used up.
    """
    check_cancelled(context)
    if over := context.over_budget():
        raise StoppedError(over)
    completion = llm.generate([prompt], sampling)[0][0]
    context.usage.add(completion)
    return completion


def _sample_program(
    components: Components, context: RunContext, prompt: Prompt, sampling: Sampling
) -> tuple[str, Failure | None]:
    """Return the code of a reply, and the reason why it cannot be run."""
    completion = complete_once(components.llm, context, prompt, sampling)
    if context.settings.prompt_style == "compact":
        # A small writer continues a document: it neither reasons nor refuses.
        return extract_code(completion.text), None
    program = read_program(completion.text, completion.finish_reason, completion.completion_tokens)
    if isinstance(program, Failure):
        return extract_code(completion.text), program
    return program, None


def attempt_sampling(
    settings: RunSettings, attempt: int = 0, resample: bool = True, vote: int = 0
) -> Sampling:
    """Return the sampling of an attempt; later ones without feedback get a temperature above 0.

    So does the first attempt of a later vote, because greedy decoding would repeat the previous
    vote.
    """
    temperature = settings.temperature
    if (attempt or vote) and resample:
        temperature = max(temperature, settings.retry_temperature)
    return Sampling(
        temperature=temperature,
        seed=settings.seed * 1_000 + attempt + vote * _VOTE_SEED,
        max_tokens=settings.max_tokens,
        stop=(END_OF_PROGRAM,) if settings.prompt_style == "compact" else (),
    )


def check_cancelled(context: RunContext) -> None:
    """Raise CancelledError if the run was cancelled."""
    if context.cancel.is_set():
        raise CancelledError("the run was cancelled")
