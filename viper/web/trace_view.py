"""View of a trace: each line of a program beside its outputs, and the turns of ``explore``.

Each turn has its flag from the rules. All its values become text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from viper.schema import Failure, ToolCall, Trace, Trial, Turn, Usage
from viper.strategies.explore.flagging import flagged
from viper.strategies.replay import Event, Replay
from viper.tools.session import is_shown, note_of
from viper.web.values import DisplayValue, Sizes, display_value

DEPTH_TOOL = "compute_depth"

# Outputs of a line that are shown at once. More outputs are folded.
INLINE = 3


@dataclass(frozen=True)
class CandidateScore:
    """Score of a candidate, and whether it passed the threshold."""

    value: float
    passed: bool


@dataclass(frozen=True)
class CallView:
    """View of a tool call.

    Attributes:
        arguments: the arguments with their names; positional arguments have an empty name.
        threshold: value of the threshold that its candidates were compared with.
    """

    call: ToolCall
    arguments: tuple[tuple[str, DisplayValue], ...]
    result: DisplayValue | None
    threshold: float | None
    scores: tuple[CandidateScore, ...]


@dataclass(frozen=True)
class LineOutput:
    """One output of a line: a value with its name, a call, or a call with its result's name."""

    what: str
    value: DisplayValue | None = None
    call: CallView | None = None


@dataclass(frozen=True)
class LineView:
    """View of a program line; ``number`` counts from 1."""

    number: int
    source: str
    outputs: tuple[LineOutput, ...]
    failed: bool = False

    @property
    def inline(self) -> tuple[LineOutput, ...]:
        """Return the outputs that are shown at once."""
        return self.outputs if len(self.outputs) <= INLINE else self.outputs[:1]

    @property
    def folded(self) -> tuple[LineOutput, ...]:
        """Return all outputs if there are too many to show at once, else none."""
        return () if len(self.outputs) <= INLINE else self.outputs


@dataclass(frozen=True)
class TrialView:
    """View of a trial.

    Attributes:
        came: reason for the trial, in words.
        after: calls after the end of the program.
        prompt: index of the trial's prompt among the prompts of the page.
        plan_prompt: index of the planner's prompt among them.
        whole: whether the lines are complete; False if the program could not be replayed.
    """

    trial: Trial
    came: str
    lines: tuple[LineView, ...]
    after: tuple[CallView, ...]
    calls: tuple[CallView, ...]
    prompt: int | None
    plan_prompt: int | None
    whole: bool

    @property
    def failure(self) -> Failure | None:
        return self.trial.failure

    @property
    def writing(self) -> Usage:
        return self.trial.writing


def trial_views(
    trace: Trace, replays: Sequence[Replay], sizes: Sizes
) -> tuple[list[TrialView], list[str]]:
    """Return the views of a trace's trials, and their distinct prompts.

    Args:
        replays: replays of the trials, in their order.
    """
    prompts: list[str] = []
    views = []
    for place, (trial, replay) in enumerate(zip(trace.trials, replays, strict=True)):
        numbers = [_place(text, prompts) for text in (trial.plan_prompt, trial.prompt)]
        before = trace.trials[place - 1] if place else None
        calls = {call.index: _call(call, trial.thresholds, sizes) for call in trial.tool_calls}
        views.append(
            TrialView(
                trial,
                reason_of_trial(trial, before),
                tuple(_lines(trial, replay, calls, sizes)),
                tuple(call for call in calls.values() if call.call.line is None),
                tuple(calls.values()),
                numbers[1],
                numbers[0],
                replay.whole,
            )
        )
    return views, prompts


def _place(prompt: str | None, prompts: list[str]) -> int | None:
    """Return the number of a prompt among those of the page. Append it if it is new."""
    if prompt is None:
        return None
    if prompt not in prompts:
        prompts.append(prompt)
    return prompts.index(prompt)


def reason_of_trial(trial: Trial, before: Trial | None) -> str:
    """Return why a trial was run, with the threshold that changed."""
    if trial.correction == "self_tune" and before is not None:
        changes = [
            f"{name} lowered from {before.thresholds[name]:g} to {value:g}"
            for name, value in trial.thresholds.items()
            if before.thresholds.get(name, value) != value
        ]
        return f"the same program, {', '.join(changes) or 'run again'}"
    return {
        "first": "first program",
        "self_debug": "written anew",
        "self_debug_feedback": "written anew after being told what failed",
        "look_for_options": "the same program, looking for what the options name",
        "fallback": "fallback",
    }.get(trial.correction, trial.correction)


def _lines(
    trial: Trial, replay: Replay, calls: Mapping[int, CallView], sizes: Sizes
) -> Iterator[LineView]:
    outputs: dict[int, list[LineOutput]] = {}
    for line, output in _line_outputs(_all_events(trial, replay), calls, sizes):
        outputs.setdefault(line, []).append(output)
    failed = trial.failure.line if trial.failure else None
    for number, source in enumerate(trial.program.splitlines(), start=1):
        yield LineView(number, source, tuple(outputs.get(number, ())), number == failed)


def _all_events(trial: Trial, replay: Replay) -> Iterable[Event]:
    """Return the events of the replay, then the calls that it did not reach."""
    replayed = {event.call for event in replay.events}
    rest = (call for call in trial.tool_calls if call.index not in replayed)
    return [*replay.events, *(Event(call.line, call=call.index) for call in rest)]


def _line_outputs(
    events: Iterable[Event], calls: Mapping[int, CallView], sizes: Sizes
) -> Iterator[tuple[int, LineOutput]]:
    """Yield the outputs of lines. A call and its assigned result become one output."""
    last: tuple[int, LineOutput] | None = None
    for event in events:
        if event.call is not None:
            if last is not None:
                yield last
            call = calls.get(event.call)
            last = (event.line, LineOutput("", call=call)) if call and event.line else None
            continue
        if event.line is None or (event.what == "" and event.value is None):
            continue
        if last is not None and _is_result(last, event):
            yield event.line, replace(last[1], what=event.what)
            last = None
            continue
        if last is not None:
            yield last
            last = None
        yield event.line, LineOutput(event.what, display_value(event.value, sizes))
    if last is not None:
        yield last


def _is_result(last: tuple[int, LineOutput], event: Event) -> bool:
    line, output = last
    return line == event.line and output.call is not None and output.call.call.result == event.value


def _call(call: ToolCall, thresholds: Mapping[str, float], sizes: Sizes) -> CallView:
    threshold = None if call.judged_by is None else thresholds.get(call.judged_by)
    return CallView(
        call,
        (
            *(("", display_value(value, sizes)) for value in call.args),
            *((name, display_value(value, sizes)) for name, value in call.kwargs.items()),
        ),
        None if call.error is not None else display_value(call.result, sizes),
        threshold,
        tuple(CandidateScore(s, threshold is None or s >= threshold) for s in call.scores),
    )


MOST_TURNS = 200

_ACTION_NAMES = {
    "code": "code",
    "thought": "thought",
    "done": "done",
    "unreadable": "no action could be read",
    "forced": "ended at a bound",
}


@dataclass(frozen=True)
class TurnView:
    """View of one turn.

    Attributes:
        what: the action in words.
        tools: the tools that its code called, with counts.
        reason: why the action was useless; "" if it was useful.
        pictures: the pictures that it showed, each with its note.
    """

    number: int
    kind: str
    what: str
    text: str
    result: str
    pictures: tuple[tuple[DisplayValue, str], ...]
    tools: tuple[tuple[str, int], ...]
    reason: str
    by: str
    tokens: int


def shown_pictures(trace: Trace) -> list[str]:
    """Return the names of the pictures that a run showed to a model, in order."""
    calls = (call for trial in trace.trials for call in trial.tool_calls)
    return [call.result["fields"][0] for call in calls if is_shown(call)]


def turn_views(
    turns: Sequence[Turn], calls: Sequence[ToolCall], sizes: Sizes
) -> tuple[TurnView, ...]:
    """Return the views of a trace's turns."""
    shown_turns = turns[:MOST_TURNS]
    by_index = {call.index: call for call in calls}
    views = []
    pairs = zip(shown_turns, flagged(shown_turns), strict=True)
    for number, (turn, flag) in enumerate(pairs, start=1):
        own = [by_index[index] for index in turn.calls if index in by_index]
        tools = Counter(str(call.tool) for call in own)
        views.append(
            TurnView(
                number,
                turn.kind,
                _ACTION_NAMES.get(turn.kind, turn.kind),
                turn.text,
                turn.result,
                tuple((display_value(c.result, sizes), note_of(c)) for c in own if is_shown(c)),
                tuple(tools.items()),
                flag.reason,
                turn.by,
                turn.writing.prompt_tokens + turn.writing.completion_tokens,
            )
        )
    return tuple(views)
