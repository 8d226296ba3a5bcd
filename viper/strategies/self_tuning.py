"""Self-tuning: which threshold is at fault for a trial, and by how much it is lowered.

After a trial, :func:`blamed_on_threshold` turns a failure into ``below_threshold`` if an empty
result of a tool flowed into it, and :func:`calls_without_result` lists the calls that an answer
rests on although they found nothing. From these, :func:`lower_threshold` takes the next values,
of which ``ThresholdSchedule`` (:mod:`viper.tools.settings`) makes the steps. Values at which every
call would answer as before are passed over (``Trial.missed``).

Source: Stanić et al. 2024, sec. 2.4. Differs: the typed Failure and the log of calls decide, never
an error's text, and an answer that rests on nothing is tuned as well.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import inf

from viper.agreement import normalise_answer
from viper.models.vision.video_windows import NOTHING
from viper.sandbox import Outcome
from viper.schema import Answer, Failure, ToolCall, Trial
from viper.strategies.base import Components, RunContext


def blamed_on_threshold(failure: Failure, outcome: Outcome, calls: Sequence[ToolCall]) -> Failure:
    """Turn the failure into ``below_threshold`` if a threshold's empty result flowed into it.

    A result flowed in if it is the very object on the failing line or the returned object. If no
    such object exists, the last rejected call of the run is used. An index beyond the end of a list
    is attributed to the last result that a threshold shortened.
    """
    if failure.kind not in ("runtime", "return_type", "wrong_type"):
        return failure
    rejected = [call for call in calls if call.rejected_by]
    shortened = [call for call in calls if call.shortened_by]
    if rejected:
        reached = {item.index for item in outcome.empty_calls if item.reached}
        call = next((item for item in reversed(rejected) if item.index in reached), rejected[-1])
        parameter = call.rejected_by
    elif shortened and failure.exception == "IndexError":
        call, parameter = shortened[-1], shortened[-1].shortened_by
    else:
        return failure
    return replace(
        failure, kind="below_threshold", tool=call.tool, parameter=parameter, call_index=call.index
    )


def calls_without_result(calls: Sequence[ToolCall], lines: Collection[int]) -> tuple[int, ...]:
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


def lower_threshold(
    components: Components, context: RunContext, trial: Trial
) -> dict[str, float] | None:
    """Return the thresholds with the one at fault a step lower, or None if none can be lowered.

    After an answer, the threshold is lowered until the best candidate passes which the answer
    missed. A truth value or a number may well rest on what is not there, so the threshold is then
    lowered to its calibrated value at most. Any other answer that rests on nothing is a guess.
    """
    schedules, failure = components.toolbox.settings.sensitivities, trial.failure
    if failure is not None:
        parameter = failure.parameter
        if failure.kind != "below_threshold" or parameter is None or parameter not in schedules:
            return None
        value = schedules[parameter].lower(trial.thresholds[parameter])
        # Above the next score no call answers otherwise, so the program would fail as before.
        while value is not None and trial.missed is not None:
            if value <= trial.missed.get(parameter, -inf):
                break
            value = schedules[parameter].lower(value)
        return None if value is None else {**trial.thresholds, parameter: value}
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


def misses_an_event(context: RunContext, trial: Trial) -> bool:
    """Return True if an option was selected though no event of the video was described."""
    if not (trial.ok and context.settings.tune_on_evidence and context.query.options):
        return False
    return any(trial.tool_calls[i].tool == "caption_video" for i in trial.rests_on_nothing)


def may_rest_on_nothing(answer: Answer) -> bool:
    """Return True for truth values and numbers: there may well be none of what was sought."""
    words = normalise_answer(answer.value)
    return answer.kind in ("truth", "tags") or words in ("yes", "no") or words.isdigit()
