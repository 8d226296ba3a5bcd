"""Strategy ``program``: write a program, run it, correct it.

:func:`run_with_corrections` answers once, or once for each vote. Its loop asks
:func:`write_program` for a program that has not failed before, :func:`run_program` runs it
(:func:`run_once`) and lowers the threshold at fault (:mod:`viper.strategies.self_tuning`), and a
failure leads to the next program.

Source: ViperGPT (Surís et al. 2023) for program and execution; Stanić et al. 2024, sec. 2.4, for
self-debugging and self-tuning. Differs: the typed Failure and the log of calls decide what to
correct, never an error's text; a failed program that is written again is not run again, but
resampled at a higher temperature.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from viper.api.static_check import api_misuse
from viper.api.written import field_types
from viper.models.llm.messages import Prompt, as_text
from viper.models.llm.protocol import Sampling
from viper.models.llm.replies import without_reasoning
from viper.models.media import Media
from viper.prompting.compact import END_OF_PROGRAM
from viper.prompting.extract import extract_code
from viper.prompting.replies import read_program
from viper.sandbox import Outcome, Ref
from viper.schema import Answer, Box, Failure, Query, Trial, Usage
from viper.steps import step
from viper.strategies.answers import is_sure_of_kind, read_value, wrong_type
from viper.strategies.base import (
    TOOL_STOPS,
    Components,
    Conclusion,
    RunContext,
    StoppedError,
    Trials,
    failure_of,
)
from viper.strategies.prompts import AttemptNumber, WriterPrompt, write_prompt
from viper.strategies.self_tuning import (
    blamed_on_threshold,
    calls_without_result,
    lower_threshold,
    misses_an_event,
)
from viper.strategies.settings import RunSettings
from viper.strategies.voting import answer_by_vote
from viper.tools.session import media_arguments

ENTRY = "execute_command"

# Failures whose trials hold no program: the text is prose, and feedback must not show it as code.
WITHOUT_PROGRAM = ("refusal", "no_program")

# Number of times that a program which has failed already is resampled within one attempt, each time
# at a temperature higher by the step. The last draw is .9 above the first: a writer that then still
# repeats itself has nothing else to say, and more draws would only cost requests.
MAX_RESAMPLES = 3
TEMPERATURE_STEP = 0.3

# Seeds of resamples and votes must not meet those of other attempts: there are at most 50 attempts
# (MAX_TRIALS) and 3 resamples to a run's 1,000 seeds, and votes lie beyond 10,000 seeds of runs.
_RESAMPLE_SEED = 100
_VOTE_SEED = 10_000_000

# Further runs of a program whose tool failed at an endpoint that may be back soon. The client has
# repeated the request already, for half a minute by default; two more runs outlast a restart, and
# the calls before it come from the cache.
MAX_RERUNS = 2

# Builds the prompt of an attempt; the trials are those whose failures the prompt states, see
# :func:`viper.strategies.prompts.program_prompt`. It raises StoppedError if the program writer
# cannot be asked.
PromptBuilder = Callable[[Components, RunContext, AttemptNumber, Sequence[Trial]], WriterPrompt]


@dataclass(frozen=True)
class Generation:
    """A program with its sampling and cost.

    Attributes:
        program: the code of the reply as far as it can be read; not run if there is a failure.
        failure: the reason why the reply holds no program that can be run.
        request: the prompt with its plan, unless the caller wrote the program.
        logprob: log-probability of the reply under its model, where that is known.
    """

    program: str
    correction: str = "first"
    seed: int | None = None
    temperature: float | None = None
    usage: Usage = Usage()
    seconds: float = 0.0
    failure: Failure | None = None
    request: WriterPrompt = WriterPrompt("")
    logprob: float | None = None


@dataclass
class Attempts:
    """The programs of one query so far, so that none runs twice.

    Attributes:
        failed: programs that failed, each with its last trial.
        answered: programs that answered, each with its trial.
        replies: what was read from each reply, by the request, so that none is sent twice.
        count: number of trials so far.
        request: the last prompt.
    """

    failed: dict[str, Trial] = field(default_factory=dict)
    answered: dict[str, Trial] = field(default_factory=dict)
    replies: dict[tuple[Any, ...], Generation] = field(default_factory=dict)
    count: int = 0
    request: WriterPrompt = WriterPrompt("")


class ProgramStrategy:
    """Generate, run, diagnose and correct, up to the number of programs in the settings."""

    name = "program"
    writes_programs = True

    def trials(self, components: Components, context: RunContext) -> Trials:
        """Return the trials in order; see :func:`run_with_corrections`.

        Raises:
            CancelledError: ``context.cancel`` was set.
        """
        return run_with_corrections(components, context, write_prompt)


def run_with_corrections(
    components: Components, context: RunContext, prompter: PromptBuilder
) -> Trials:
    """Yield trials in order, including re-runs by self-tuning, until one answers.

    With several votes this holds for each vote, and the conclusion names the trial with the winning
    answer. Trials end early if the next request would exceed the settings' budget; the conclusion
    then says so.

    Args:
        prompter: builds the prompt of each program.

    Raises:
        CancelledError: ``context.cancel`` was set.
    """
    attempts, conclusion = Attempts(), Conclusion()

    def answer_once(vote: int) -> Generator[Trial, None, Trial | None]:
        """Yield the trials of one vote; return the trial that answers, even an earlier one."""
        failed: list[Trial] = []
        for attempt in range(context.settings.trials):
            number = vote, attempt
            generation = write_program(components, context, number, failed, attempts, prompter)
            if generation.program in attempts.answered:
                return attempts.answered[generation.program]
            accept_misfit = accepts_misfit(context, attempts, attempt)
            before = attempts.failed.get(generation.program)
            if before is not None and not (accept_misfit and is_misfit(before)):
                continue
            for trial in run_program(
                components, context, generation, attempts.count, accept_misfit=accept_misfit
            ):
                attempts.count = trial.index + 1
                yield trial
                if trial.ok:
                    attempts.answered[generation.program] = trial
            if generation.program in attempts.answered:
                return attempts.answered[generation.program]
            if trial.failure is not None and trial.failure.kind == "unavailable":
                raise StoppedError(trial.failure)  # the next program would meet the same endpoint
            attempts.failed[generation.program] = trial
            failed.append(trial)
        return None

    if context.settings.votes > 1 or context.settings.verify:
        conclusion = yield from answer_by_vote(context.settings, answer_once)
    else:
        try:
            yield from answer_once(0)
        except StoppedError as stop:
            conclusion = Conclusion(stopped=stop.failure)
    return replace(
        conclusion,
        left_out=attempts.request.left_out,
        examples_shown=attempts.request.examples_shown,
        examples_left_out=attempts.request.examples_left_out,
    )


def accepts_misfit(context: RunContext, attempts: Attempts, attempt: int) -> bool:
    """Decide whether this attempt's answer may be of another kind than the question seems to ask.

    The kind is a guess from the question's words, so it costs one more program at most.
    """
    settings = context.settings
    if settings.on_misfit != "ask" or not is_sure_of_kind(context.query):
        return settings.on_misfit != "refuse"
    asked = any(map(is_misfit, attempts.failed.values()))
    return asked or attempt == settings.trials - 1


def is_misfit(trial: Trial) -> bool:
    """Return whether a trial failed only because its answer is of another kind than expected."""
    return trial.failure is not None and trial.failure.kind == "wrong_type"


def write_program(
    components: Components,
    context: RunContext,
    number: AttemptNumber,
    failed: Sequence[Trial],
    attempts: Attempts,
    prompter: PromptBuilder = write_prompt,
) -> Generation:
    """Write the program of a vote's attempt; ask again if it failed before.

    With feedback, the prompt states the failures of the vote, and then also that the program is the
    same. From scratch, the program is resampled at a higher temperature. A request that was sent
    before is not sent again, and its reply counts once more.

    Raises:
        StoppedError: the budget is used up before there is a new program, or the prompter has no
            prompt.
    """
    settings, (vote, attempt) = context.settings, number
    before, started = context.usage.snapshot(), time.perf_counter()
    told, program = [*failed] if settings.feedback else [], ""
    request = prompter(components, context, number, told)
    sampling = attempt_sampling(settings, attempt, resample=not told, vote=vote)
    for draw in range(2 if told else 1 + MAX_RESAMPLES):
        if draw and told:
            told.append(attempts.failed[program])
            request = prompter(components, context, number, told)
        elif draw:
            sampling = raise_temperature(sampling)
        written = _reply(components, context, attempts, request.prompt, sampling)
        program = written.program
        seen = attempts.failed.get(program)
        if seen is None or (settings.on_misfit == "ask" and is_misfit(seen)):
            break  # a program that is insisted on may answer
    attempts.request = request
    correction = "self_debug_feedback" if told else "self_debug"
    return replace(
        written,
        correction=correction if attempt else "first",
        seed=sampling.seed,
        temperature=sampling.temperature,
        usage=context.usage.since(before),
        seconds=time.perf_counter() - started,
        request=request,
    )


def _reply(
    components: Components,
    context: RunContext,
    attempts: Attempts,
    prompt: Prompt,
    sampling: Sampling,
) -> Generation:
    """Return the program of a reply as far as it can be read, and why it cannot be run, if so."""
    key = as_text(prompt), sampling.temperature, sampling.seed if sampling.temperature else 0
    if key not in attempts.replies:
        reply = context.complete(components.llm, prompt, sampling)
        program, failure = extract_code(reply.text), None
        # A small writer continues a document: it neither reasons nor refuses.
        if context.settings.prompt_style != "compact":
            read = read_program(reply.text, reply.finish_reason, reply.completion_tokens)
            if isinstance(read, Failure):
                failure = read
                if read.kind in WITHOUT_PROGRAM:
                    program = without_reasoning(reply.text).strip()
            else:
                program = read
        attempts.replies[key] = Generation(program, failure=failure, logprob=reply.logprob)
    return attempts.replies[key]


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


def raise_temperature(sampling: Sampling) -> Sampling:
    """Return the sampling for another draw: a new seed and a higher temperature."""
    return replace(
        sampling,
        seed=sampling.seed + _RESAMPLE_SEED,
        temperature=sampling.temperature + TEMPERATURE_STEP,
    )


def run_program(
    components: Components,
    context: RunContext,
    generation: Generation,
    first_index: int = 0,
    *,
    accept_misfit: bool = False,
) -> Iterator[Trial]:
    """Run one program; while a tool is at fault, make it more sensitive and run the program again.

    A tool is at fault if its threshold caused the failure, or (setting ``tune_on_evidence``) if the
    answer rests on something that it did not find. The last trial that is ok gives the answer,
    because it has more to rest on. A program whose tool failed at an endpoint runs again, up to
    :data:`MAX_RERUNS` times.
    """
    self_tune = context.settings.self_tune
    thresholds = components.toolbox.settings.start_thresholds(self_tune=self_tune)
    look_for: tuple[str, ...] = ()
    has_answered, reruns = False, 0
    for index in count(first_index):
        trial = run_once(
            components,
            context,
            generation,
            index,
            thresholds,
            look_for=look_for,
            accept_misfit=accept_misfit,
        )
        is_worse = has_answered and not trial.ok
        has_answered |= trial.ok
        yield trial
        is_unavailable = trial.failure is not None and trial.failure.kind == "unavailable"
        if is_unavailable and reruns < MAX_RERUNS:
            reruns += 1
            generation = replace(generation, correction="rerun", usage=Usage(), seconds=0.0)
            continue
        if not self_tune or is_worse or is_unavailable:
            return
        correction, lower = "self_tune", lower_threshold(components, context, trial)
        if lower is not None:
            thresholds = lower
        elif not look_for and misses_an_event(context, trial):
            correction, look_for = "look_for_options", context.query.options
        else:
            return
        generation = replace(generation, correction=correction, usage=Usage(), seconds=0.0)


def run_once(
    components: Components,
    context: RunContext,
    generation: Generation,
    index: int,
    thresholds: Mapping[str, float],
    overrides: Mapping[int, Any] | None = None,
    look_for: tuple[str, ...] = (),
    accept_misfit: bool = False,
) -> Trial:
    """Run one program once.

    A generation without a program gives a failed trial, for which no sandbox is started.

    Args:
        overrides: results that replace those of calls, by call index.
        look_for: texts with names of objects that a video model should look for.
        accept_misfit: an answer of another kind than the question seems to ask for is no failure.
    """
    context.check_cancelled()
    started = time.perf_counter()
    session = components.toolbox.session(
        context.media, thresholds=thresholds, overrides=overrides, payer=context
    )
    session.look_for = look_for
    session.shared = components.arrays(context.settings.api, context.media)
    problem = generation.failure
    if problem is None and context.settings.verify:
        # Certain misuse of the API, found before any model runs: a wrong candidate costs nothing.
        misuse = api_misuse(generation.program, components.library)
        if misuse is not None:
            problem = Failure("api", *misuse)
    outcome = Outcome(False, failure=problem)
    if problem is None:
        try:
            with step("running the program"), session.running(generation.program):
                outcome = components.sandbox.run(
                    generation.program,
                    tools=session,
                    entry=ENTRY,
                    args=program_arguments(context.query, context.media),
                    arrays=session.shared,
                    cancel=context.cancel,
                )
        except TOOL_STOPS as stop:  # the budget or an endpoint did not allow a tool's request
            outcome = Outcome(False, failure=failure_of(stop))
    context.spend(session.model_calls)
    context.check_cancelled()
    result: Answer | Failure | None = outcome.failure
    if outcome.ok:
        result = read_value(outcome.value, context.query, session)
        if isinstance(result, Answer) and not accept_misfit:
            result = wrong_type(result, context.query, components.toolbox.settings) or result
    answer = result if isinstance(result, Answer) else None
    failure = None
    if isinstance(result, Failure):
        failure = blamed_on_threshold(result, outcome, session.calls)
    has_program = failure is None or failure.kind not in WITHOUT_PROGRAM
    request = generation.request
    return Trial(
        index=index,
        program=generation.program if has_program else "",
        reply="" if has_program else generation.program,
        correction=generation.correction,
        ok=failure is None,
        failure=failure,
        thresholds=dict(thresholds),
        tool_calls=tuple(session.calls),
        stdout=outcome.stdout,
        seconds=round(time.perf_counter() - started, 4),
        rests_on_nothing=(
            () if failure else calls_without_result(session.calls, outcome.answer_lines)
        ),
        seed=generation.seed,
        temperature=generation.temperature,
        logprob=generation.logprob,
        prompt=as_text(request.prompt),
        writing=generation.usage,
        writing_seconds=round(generation.seconds, 4),
        plan=request.plan,
        plan_prompt=None if request.plan_prompt is None else as_text(request.plan_prompt),
        demonstrations=request.demonstrations,
        sizes=context.media.sizes,
        answer=answer,
        value=None if answer is None else outcome.value,
        missed=session.missed,
    )


def program_arguments(query: Query, media: Media) -> dict[str, Any]:
    """Return the values that an entry point may ask for by name (the sandbox has their aliases)."""
    values: dict[str, Any] = {"question": query.text, "possible_answers": list(query.options)}
    if query.like:
        boxes = (Box.from_pixels(box, media.images[0].shape[0]) for box in query.like)
        sides = ((box.left, box.lower, box.right, box.upper) for box in boxes)
        values["marked"] = [Ref("patch", ("image0", *each)) for each in sides]
    if query.fields:
        values["fields"] = dict(field_types(query.fields))
    return {**values, **media_arguments(media)}
