"""Strategy ``program``: write a program, run it, correct it.

Source: ViperGPT (Surís et al. 2023) for program and execution; Stanić et al. 2024,
sec. 2.4, for self-debugging and self-tuning. Differs: what to correct is decided by
the typed Failure and the log of calls, never by an error's text.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from viper.errors import ToolError
from viper.models.media import Media
from viper.sandbox import Outcome
from viper.schema import Answer, Failure, Query, ToolCall, Trial, Usage
from viper.strategies.answers import read_answer
from viper.strategies.base import Components, RunContext
from viper.strategies.prompts import asked_as
from viper.strategies.voting import voted
from viper.strategies.writing import Prompter, Written, check_cancelled, query_alone, write
from viper.tools.session import ToolSession, media_arguments

ENTRY = "execute_command"


@dataclass
class Tried:
    """What the programs of one query came to, so that none is run twice.

    Attributes:
        failed: programs.
        answered: programs, each with the index of the trial that answered.
        count: trials so far.
    """

    failed: set[str] = field(default_factory=set)
    answered: dict[str, int] = field(default_factory=dict)
    count: int = 0


class ProgramStrategy:
    """Generate, run, diagnose, correct, up to the settings' number of programs."""

    name = "program"

    def trials(self, components: Components, context: RunContext) -> Iterator[Trial]:
        """Trials in order; see :func:`corrected`.

        Raises:
            CancelledError: ``context.cancel`` was set.
        """
        return corrected(components, context, query_alone)


def corrected(components: Components, context: RunContext, prompter: Prompter) -> Iterator[Trial]:
    """Trials in order, re-runs by self-tuning among them; the first that answers is the last.

    With several votes that holds for each of them, and ``context.chosen`` says whose answer
    counts. Trials end early where the next request would pass the settings' budget; a budget
    that allows none at all is said in ``context.stopped``.

    Args:
        prompter: makes the prompt of each program.

    Raises:
        CancelledError: ``context.cancel`` was set.
    """
    answer_once = partial(_answer_once, components, context, prompter, Tried())
    if context.settings.votes > 1:
        yield from voted(context, answer_once)
    else:
        yield from answer_once(0)


def _answer_once(
    components: Components, context: RunContext, prompter: Prompter, tried: Tried, vote: int
) -> Generator[Trial, None, int | None]:
    """The trials of one vote; returns the index of the one that answers, maybe an earlier."""
    last: Trial | None = None
    for attempt in range(context.settings.trials):
        written = write(components, context, (vote, attempt), last, tried.failed, prompter)
        if written is None:
            return None
        if written.program in tried.answered:
            return tried.answered[written.program]
        if written.program in tried.failed:
            continue
        for trial in run_program(components, context, written, first_index=tried.count):
            tried.count, last = trial.index + 1, trial
            yield trial
            if trial.ok:
                tried.answered[written.program] = trial.index
                return trial.index
        tried.failed.add(written.program)
    return None


def run_program(
    components: Components, context: RunContext, written: Written, first_index: int = 0
) -> Iterator[Trial]:
    """Runs one program; while a threshold is to blame, lowers it and runs the same one again."""
    tuned = context.settings.self_tune
    thresholds = components.toolbox.settings.start_thresholds(self_tune=tuned)
    index = first_index
    while True:
        trial = run_once(components, context, written, index, thresholds)
        yield trial
        lowered = _lowered(components, trial) if context.settings.self_tune else None
        if trial.ok or lowered is None:
            return
        thresholds, index = lowered, index + 1
        written = replace(written, correction="self_tune", usage=Usage(), seconds=0.0)


def run_once(
    components: Components,
    context: RunContext,
    written: Written,
    index: int,
    thresholds: Mapping[str, float],
    overrides: Mapping[int, Any] | None = None,
) -> Trial:
    """Runs one program once; an answer is put into ``context.final_value``.

    Args:
        overrides: call index to the result it shall have instead.
    """
    check_cancelled(context)
    started = time.perf_counter()
    session = components.toolbox.session(
        context.media, thresholds=thresholds, overrides=overrides, cancel=context.cancel
    )
    outcome = components.sandbox.run(
        written.program,
        tools=session,
        entry=ENTRY,
        args=program_arguments(context.query, context.media),
        cancel=context.cancel,
    )
    context.usage.model_calls += session.model_calls
    check_cancelled(context)
    failure = outcome.failure
    answer = None
    if outcome.ok:
        read = read_value(outcome.value, context, session)
        if isinstance(read, Failure):
            failure = read
        else:
            answer = read
    if failure is not None:
        failure = _blamed(failure, outcome, session)
    else:
        context.final_value = (answer, outcome.value)
    return Trial(
        index=index,
        program=written.program,
        correction=written.correction,
        ok=failure is None,
        failure=failure,
        thresholds=dict(thresholds),
        tool_calls=tuple(session.calls),
        stdout=outcome.stdout,
        seconds=round(time.perf_counter() - started, 4),
        seed=written.seed,
        temperature=written.temperature,
        prompt=written.prompt,
        writing=written.usage,
        writing_seconds=round(written.seconds, 4),
        plan=written.plan,
        plan_prompt=written.plan_prompt,
        demonstrations=written.demonstrations,
    )


def read_value(value: Any, context: RunContext, session: ToolSession) -> Answer | Failure:
    """The value as an answer; words about pictures are matched to the options if need be."""
    query = context.query
    read = read_answer(value, query, context.media)
    if not isinstance(read, Failure) or asked_as(query).options == query.options:
        return read
    words = read_answer(value, replace(query, task="question"), context.media)
    if isinstance(words, Failure):
        return read
    try:
        chosen = session.call(
            "select_answer", (str(words.value), query.text, list(query.options)), {}, None
        )
    except ToolError as error:
        return Failure("tool", str(error), tool="select_answer")
    return read_answer(chosen, query, context.media)


def program_arguments(query: Query, media: Media) -> dict[str, Any]:
    """The values an entry point may ask for by name (the sandbox knows their aliases)."""
    asked = {"question": query.text, "possible_answers": list(query.options)}
    return {**asked, **media_arguments(media)}


def _blamed(failure: Failure, outcome: Outcome, session: ToolSession) -> Failure:
    """The failure, as ``below_threshold`` where a threshold's empty result flowed into it.

    A result flowed in if it is the very object on the failing line or the returned
    one; failing that, the last rejected call of the run is taken. An index beyond the end
    of a list is blamed on the last result that a threshold shortened.
    """
    if failure.kind not in ("runtime", "return_type"):
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
        failure,
        kind="below_threshold",
        tool=call.tool,
        parameter=parameter,
        call_index=call.index,
    )


def _lowered(components: Components, trial: Trial) -> dict[str, float] | None:
    """The thresholds with the blamed one a step lower, or None where there is none to lower."""
    failure = trial.failure
    if failure is None or failure.kind != "below_threshold" or failure.parameter is None:
        return None
    sensitivity = components.toolbox.settings.sensitivities.get(failure.parameter)
    if sensitivity is None:
        return None
    value = sensitivity.lower(trial.thresholds[failure.parameter])
    return None if value is None else {**trial.thresholds, failure.parameter: value}
