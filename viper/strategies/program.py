"""Strategy ``program``: write a program, run it, correct it.

Source: ViperGPT (Surís et al. 2023) for program and execution; Stanić et al. 2024, sec. 2.4, for
self-debugging and self-tuning. Differs: the typed Failure and the log of calls decide what to
correct, never an error's text.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from viper.agreement import normalise_answer
from viper.api.library import Library
from viper.api.static_check import api_misuse
from viper.errors import ToolError
from viper.models.llm.messages import as_text
from viper.models.media import Media
from viper.models.vision.video_windows import NOTHING
from viper.prompting.expected_answer import expected_answer
from viper.sandbox import Outcome
from viper.schema import Answer, Failure, Query, ToolCall, Trial, Usage
from viper.strategies.answers import read_answer
from viper.strategies.base import Components, Conclusion, RunContext, StoppedError
from viper.strategies.prompts import query_for_prompt
from viper.strategies.voting import answer_by_vote
from viper.strategies.writing import (
    Attempts,
    Generation,
    PromptBuilder,
    check_cancelled,
    prompt_for_query,
    write_program,
)
from viper.tools.session import ToolSession, media_arguments
from viper.tools.settings import ThresholdSchedule, ToolSettings

ENTRY = "execute_command"

# Failures whose trials hold no program.
WITHOUT_PROGRAM = ("refusal", "no_program")


class ProgramStrategy:
    """Generate, run, diagnose and correct, up to the number of programs in the settings."""

    name = "program"
    writes_programs = True

    def trials(
        self, components: Components, context: RunContext
    ) -> Generator[Trial, None, Conclusion]:
        """Return the trials in order; see :func:`run_with_corrections`.

        Raises:
            CancelledError: ``context.cancel`` was set.
        """
        return run_with_corrections(components, context, prompt_for_query)


def run_with_corrections(
    components: Components, context: RunContext, prompter: PromptBuilder
) -> Generator[Trial, None, Conclusion]:
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
    answer_once = partial(_answer_once, components, context, prompter, attempts)
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


# Earlier name of :func:`run_with_corrections`, for plug-ins.
corrected = run_with_corrections


def _answer_once(
    components: Components,
    context: RunContext,
    prompter: PromptBuilder,
    attempts: Attempts,
    vote: int,
) -> Generator[Trial, None, Trial | None]:
    """Yield the trials of one vote; return the trial that answers, even an earlier one."""
    last: Trial | None = None
    for attempt in range(context.settings.trials):
        generation = write_program(components, context, (vote, attempt), last, attempts, prompter)
        if generation.program in attempts.answered:
            return attempts.answered[generation.program]
        if generation.program in attempts.failed:
            continue
        for trial in run_program(components, context, generation, first_index=attempts.count):
            attempts.count, last = trial.index + 1, trial
            yield trial
            if trial.ok:
                attempts.answered[generation.program] = trial
        if generation.program in attempts.answered:
            return attempts.answered[generation.program]
        attempts.failed.add(generation.program)
    return None


def run_program(
    components: Components, context: RunContext, generation: Generation, first_index: int = 0
) -> Iterator[Trial]:
    """Run one program; while a tool is at fault, make it more sensitive and run the program again.

    A tool is at fault if its threshold caused the failure, or (setting ``tune_on_evidence``) if the
    answer rests on something that it did not find. The last trial that is ok gives the answer,
    because it has more to rest on.
    """
    self_tune = context.settings.self_tune
    thresholds = components.toolbox.settings.start_thresholds(self_tune=self_tune)
    look_for: tuple[str, ...] = ()
    has_answered = False
    index = first_index
    while True:
        trial = run_once(components, context, generation, index, thresholds, look_for=look_for)
        is_worse = has_answered and not trial.ok
        has_answered |= trial.ok
        yield trial
        if not self_tune or is_worse:
            return
        correction, lower = "self_tune", _lower_threshold(components, context, trial)
        if lower is not None:
            thresholds = lower
        elif not look_for and _misses_an_event(context, trial):
            correction, look_for = "look_for_options", context.query.options
        else:
            return
        index += 1
        generation = replace(generation, correction=correction, usage=Usage(), seconds=0.0)


def run_once(
    components: Components,
    context: RunContext,
    generation: Generation,
    index: int,
    thresholds: Mapping[str, float],
    overrides: Mapping[int, Any] | None = None,
    look_for: tuple[str, ...] = (),
) -> Trial:
    """Run one program once.

    A generation without a program gives a failed trial, for which no sandbox is started.

    Args:
        overrides: results that replace those of calls, by call index.
        look_for: texts with names of objects that a video model should look for.
    """
    check_cancelled(context)
    started = time.perf_counter()
    session = components.toolbox.session(
        context.media,
        thresholds=thresholds,
        overrides=overrides,
        cancel=context.cancel,
        charge=context.usage.add,
    )
    session.look_for = look_for
    session.shared = components.arrays(context.settings.api, context.media)
    problem = generation.failure
    if problem is None and context.settings.verify:
        problem = misused_api(generation.program, components.library)
    outcome = Outcome(False, failure=problem)
    if problem is None:
        outcome = components.sandbox.run(
            generation.program,
            tools=session,
            entry=ENTRY,
            args=program_arguments(context.query, context.media),
            arrays=session.shared,
            cancel=context.cancel,
        )
    context.usage.model_calls += session.model_calls
    check_cancelled(context)
    failure = outcome.failure
    answer = None
    if outcome.ok:
        result = read_value(outcome.value, context, session)
        if isinstance(result, Answer):
            result = wrong_type(result, context.query, components.toolbox.settings) or result
        if isinstance(result, Failure):
            failure = result
        else:
            answer = result
    if failure is not None:
        failure = _attribute_to_threshold(failure, outcome, session)
    request = generation.request
    return Trial(
        index=index,
        program=""
        if failure is not None and failure.kind in WITHOUT_PROGRAM
        else generation.program,
        correction=generation.correction,
        ok=failure is None,
        failure=failure,
        thresholds=dict(thresholds),
        tool_calls=tuple(session.calls),
        stdout=outcome.stdout,
        seconds=round(time.perf_counter() - started, 4),
        rests_on_nothing=() if failure else _rests_on_nothing(session.calls, outcome.answer_lines),
        seed=generation.seed,
        temperature=generation.temperature,
        prompt=generation.prompt,
        writing=generation.usage,
        writing_seconds=round(generation.seconds, 4),
        plan=request.plan,
        plan_prompt=None if request.plan_prompt is None else as_text(request.plan_prompt),
        demonstrations=request.demonstrations,
        answer=answer,
        value=None if answer is None else outcome.value,
    )


def misused_api(program: str, library: Library) -> Failure | None:
    """Return an ``api`` failure if a program certainly misuses the API, before any model runs."""
    misuse = api_misuse(program, library)
    if misuse is None:
        return None
    return Failure("api", misuse.message, misuse.line, misuse.source_line, misuse.function)


def read_value(value: Any, context: RunContext, session: ToolSession) -> Answer | Failure:
    """Return the value as an answer; words about pictures are matched to the options if needed."""
    query = context.query
    answer = read_answer(value, query, context.media)
    if not isinstance(answer, Failure) or query_for_prompt(query).options == query.options:
        return answer
    words = read_answer(value, replace(query, task="question"), context.media)
    if isinstance(words, Failure):
        return answer
    try:
        option = session.call(
            "select_answer", (str(words.value), query.text, list(query.options)), {}, None
        )
    except ToolError as error:
        return Failure("tool", str(error), tool="select_answer")
    return read_answer(option, query, context.media)


def wrong_type(answer: Answer, query: Query, settings: ToolSettings) -> Failure | None:
    """Return a ``wrong_type`` failure if an answer is not of the kind that the question asks for.

    Only answers in words, numbers and truth values to a ``question`` are judged.
    """
    if query.task != "question" or answer.kind not in ("text", "number"):
        return None
    expected = expected_answer(query.text)
    if expected is None or expected.fits(answer.value, settings.in_models_words):
        return None
    message = f"the answer is {str(answer.value)[:60]!r}; the question asks for "
    return Failure("wrong_type", message + expected.words)


def _rests_on_nothing(calls: Sequence[ToolCall], lines: Collection[int]) -> tuple[int, ...]:
    """Return the indices of calls on these lines that found nothing, nor did others of their line.

    A line that filters objects rejects some of them, which leaves something to rest on.
    """
    successful = {(call.line, call.tool) for call in calls if not _found_nothing(call)}
    return tuple(
        call.index
        for call in calls
        if call.line in lines and (call.line, call.tool) not in successful
    )


def _found_nothing(call: ToolCall) -> bool:
    """Return True if a call looked for something and found nothing."""
    if call.error is not None:
        return False
    if call.tool == "locate_event":
        return call.result[0] == call.result[1]
    return call.rejected_by is not None or call.result in ([], "", None, False, NOTHING)


def program_arguments(query: Query, media: Media) -> dict[str, Any]:
    """Return the values that an entry point may ask for by name (the sandbox has their aliases)."""
    values = {"question": query.text, "possible_answers": list(query.options)}
    return {**values, **media_arguments(media)}


def _attribute_to_threshold(failure: Failure, outcome: Outcome, session: ToolSession) -> Failure:
    """Turn the failure into ``below_threshold`` if a threshold's empty result flowed into it.

    A result flowed in if it is the very object on the failing line or the returned object. If no
    such object exists, the last rejected call of the run is used. An index beyond the end of a list
    is attributed to the last result that a threshold shortened.
    """
    if failure.kind not in ("runtime", "return_type", "wrong_type"):
        return failure
    rejected = [call for call in session.calls if call.rejected_by]
    if rejected:
        reached = {item.index for item in outcome.empty_calls if item.reached}
        call = next((item for item in reversed(rejected) if item.index in reached), rejected[-1])
        return _below(failure, call, call.rejected_by)
    shortened = [call for call in session.calls if call.shortened_by]
    if shortened and failure.exception == "IndexError":
        return _below(failure, shortened[-1], shortened[-1].shortened_by)
    return failure


def _below(failure: Failure, call: ToolCall, parameter: str | None) -> Failure:
    return replace(
        failure, kind="below_threshold", tool=call.tool, parameter=parameter, call_index=call.index
    )


def _lower_threshold(
    components: Components, context: RunContext, trial: Trial
) -> dict[str, float] | None:
    """Return the thresholds with the one at fault a step lower, or None if none can be lowered."""
    schedules = components.toolbox.settings.sensitivities
    if trial.ok:
        return _lower_to_evidence(schedules, context, trial)
    failure = trial.failure
    if failure is None or failure.kind != "below_threshold" or failure.parameter is None:
        return None
    schedule = schedules.get(failure.parameter)
    if schedule is None:
        return None
    value = schedule.lower(trial.thresholds[failure.parameter])
    return None if value is None else {**trial.thresholds, failure.parameter: value}


def _lower_to_evidence(
    schedules: Mapping[str, ThresholdSchedule], context: RunContext, trial: Trial
) -> dict[str, float] | None:
    """Return thresholds that let the best candidate pass which the answer missed, or None.

    A truth value or a number may well rest on what is not there, so the threshold is then lowered
    to its calibrated value at most. Any other answer that rests on nothing is a guess.
    """
    if not context.settings.tune_on_evidence:
        return None
    for call in (trial.tool_calls[index] for index in reversed(trial.rests_on_nothing)):
        schedule = schedules.get(call.rejected_by or "")
        if schedule is None or not call.scores:
            continue
        floor = schedule.floor
        if trial.answer is not None and may_rest_on_nothing(trial.answer):
            floor = schedule.start if schedule.fixed is None else schedule.fixed
        value = schedule.lower(trial.thresholds[str(call.rejected_by)])
        while value is not None and value > call.scores[0]:
            value = schedule.lower(value)
        if value is not None and value >= floor:
            return {**trial.thresholds, str(call.rejected_by): value}
    return None


def _misses_an_event(context: RunContext, trial: Trial) -> bool:
    """Return True if an option was selected though no event of the video was described."""
    if not (trial.ok and context.settings.tune_on_evidence and context.query.options):
        return False
    return any(trial.tool_calls[i].tool == "caption_video" for i in trial.rests_on_nothing)


def may_rest_on_nothing(answer: Answer) -> bool:
    """Return True for truth values and numbers: there may well be none of what was sought."""
    words = normalise_answer(answer.value)
    return answer.kind in ("truth", "tags") or words in ("yes", "no") or words.isdigit()
