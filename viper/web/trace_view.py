"""View of a trace: each line of a program beside its outputs, and the turns of ``explore``.

:func:`trial_views` sorts what a replay saw, values and tool calls, to the lines of each program;
:func:`turn_views` gives each turn its tools, pictures and flag. :func:`display_value` turns every
value, which may come from a file, into text, crops and spans of frames.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from viper.record import outside, reference_text
from viper.schema import CLIP_ID, PixelBox, ToolCall, Trace, Trial, Turn
from viper.strategies.explore.flagging import flagged
from viper.strategies.replay import Event, Replay
from viper.tools.session import is_shown, note_of

DEPTH_TOOL = "compute_depth"


# Size limits of a crop between the lines, in pixels of the page: a few lines of text high.
CROP_HEIGHT, WIDEST_CROP = 64, 160

# Values stand between the lines of a program: longer ones would hide it.
LONGEST_TEXT = 2_000
MOST_ITEMS = 24
MOST_CLIP_FRAMES = 24

Kind = Literal["text", "crop", "span", "items", "pairs"]


@dataclass(frozen=True)
class DisplayValue:
    """View of a JSON value.

    Attributes:
        text: the text, or the caption of another kind.
        picture: name of the picture of a ``crop``.
        box: box of the crop, in pixels from the top-left corner.
        span: first and end frame of a ``span``, the end exclusive.
        items: items of a list, or the values of ``pairs``, whose names are in ``names``.
        more: number of items that are left out.
    """

    kind: Kind
    text: str = ""
    picture: str = ""
    box: PixelBox | None = None
    span: tuple[int, int] = (0, 0)
    items: tuple[DisplayValue, ...] = ()
    names: tuple[str, ...] = ()
    more: int = 0

    @property
    def crop_size(self) -> tuple[int, int]:
        """Return width and height of a crop on the page."""
        assert self.box is not None
        width, height = (max(1.0, self.box[i + 2] - self.box[i]) for i in (0, 1))
        scale = min(CROP_HEIGHT / height, WIDEST_CROP / width)
        return max(8, round(width * scale)), max(8, round(height * scale))


@dataclass(frozen=True)
class Sizes:
    """Sizes of the media that references in a trace are resolved against.

    Attributes:
        pictures: width and height of every picture by name.
        frames: number of frames of the video; 0 without a video.
    """

    pictures: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    frames: int = 0


def display_value(value: Any, sizes: Sizes) -> DisplayValue:
    """Build the view of a JSON value of a trace, see :func:`viper.tools.session.plain`."""
    if isinstance(value, Mapping):
        reference = _reference(value, sizes)
        if reference is not None:
            return reference
        pairs = list(value.items())[:MOST_ITEMS]
        names = tuple(str(name) for name, _ in pairs)
        items = tuple(display_value(item, sizes) for _, item in pairs)
        return DisplayValue("pairs", items=items, names=names, more=len(value) - len(items))
    if isinstance(value, list | tuple):
        items = tuple(display_value(item, sizes) for item in value[:MOST_ITEMS])
        return DisplayValue("items", items=items, more=len(value) - len(items))
    if isinstance(value, float):
        return DisplayValue("text", f"{value:.6g}")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    short = text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
    return DisplayValue("text", short)


def _reference(value: Mapping[str, Any], sizes: Sizes) -> DisplayValue | None:
    shown = outside(value, sizes.pictures)
    try:
        text, picture = reference_text(shown), str(shown.get("picture"))
    except (KeyError, TypeError, ValueError):
        return None
    if shown["kind"] in ("segment", "video") and shown.get("video") == "video0":
        start, end = (shown["frames"] or (0, 0)) if "frames" in shown else (0, sizes.frames)
        return DisplayValue("span", text, span=(int(start), int(end)))
    if picture not in sizes.pictures:
        return DisplayValue("text", text)
    x0, y0, x1, y1 = shown.get("box") or (0.0, 0.0, *map(float, sizes.pictures[picture]))
    return DisplayValue("crop", text, picture, (x0, y0, x1, y1))


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
    prompt: int | None
    plan_prompt: int | None
    whole: bool


def trial_views(
    trace: Trace, replays: Sequence[Replay], sizes: Sizes
) -> tuple[list[TrialView], list[str]]:
    """Return the views of a trace's trials, and their distinct prompts.

    Args:
        replays: replays of the trials, in their order.
    """
    given = (text for trial in trace.trials for text in (trial.plan_prompt, trial.prompt))
    prompts = list(dict.fromkeys(text for text in given if text is not None))
    views = []
    for place, (trial, replay) in enumerate(zip(trace.trials, replays, strict=True)):
        before = trace.trials[place - 1] if place else None
        calls = {call.index: _call(call, trial.thresholds, sizes) for call in trial.tool_calls}
        views.append(
            TrialView(
                trial,
                reason_of_trial(trial, before),
                tuple(_lines(trial, replay, calls, sizes)),
                tuple(call for call in calls.values() if call.call.line is None),
                None if trial.prompt is None else prompts.index(trial.prompt),
                None if trial.plan_prompt is None else prompts.index(trial.plan_prompt),
                replay.whole,
            )
        )
    return views, prompts


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
        "rerun": "the same program, after an endpoint failed",
        "look_for_options": "the same program, looking for what the options name",
    }.get(trial.correction, trial.correction)


def _lines(
    trial: Trial, replay: Replay, calls: Mapping[int, CallView], sizes: Sizes
) -> Iterator[LineView]:
    """Yield the lines of a program. A call and its result, if assigned next, are one output."""
    replayed = {event.call for event in replay.events}
    unreached = (call for call in trial.tool_calls if call.index not in replayed)
    outputs: dict[int, list[LineOutput]] = {}
    result: tuple[int, Any] | None = None  # line and result of the call before
    for event in (*replay.events, *(Event(call.line, call=call.index) for call in unreached)):
        own = outputs.setdefault(event.line or 0, [])
        if event.call is not None:
            call = calls.get(event.call)
            result = None
            if call is not None and event.line is not None:
                own.append(LineOutput("", call=call))
                result = (event.line, call.call.result)
        elif event.line is not None and (event.what or event.value is not None):
            if result == (event.line, event.value):
                own[-1] = replace(own[-1], what=event.what)
            else:
                own.append(LineOutput(event.what, display_value(event.value, sizes)))
            result = None
    failed = trial.failure.line if trial.failure else None
    for number, source in enumerate(trial.program.splitlines(), start=1):
        yield LineView(number, source, tuple(outputs.get(number, ())), number == failed)


def _call(call: ToolCall, thresholds: Mapping[str, float], sizes: Sizes) -> CallView:
    threshold = None if call.judged_by is None else thresholds.get(call.judged_by)
    named = [*(("", value) for value in call.args), *call.kwargs.items()]
    arguments = tuple((name, display_value(value, sizes)) for name, value in named)
    result = None if call.error is not None else display_value(call.result, sizes)
    return CallView(call, arguments, result, threshold)


# An agent ends far earlier; turns from a file need not.
MOST_TURNS = 200

# Other kinds of turns are words already.
_ACTION_NAMES = {"unreadable": "no action could be read", "forced": "ended at a bound"}


@dataclass(frozen=True)
class TurnView:
    """View of one turn.

    Attributes:
        action: the action in words.
        tools: the tools that its code called, with counts.
        reason: why the action was useless; "" if it was useful.
        pictures: the pictures that it showed, each with its note.
    """

    turn: Turn
    action: str
    pictures: tuple[tuple[DisplayValue, str], ...]
    tools: tuple[tuple[str, int], ...]
    reason: str
    tokens: int


def shown_pictures(trace: Trace) -> list[str]:
    """Return the names of the pictures that a run showed to a model, in order."""
    calls = (call for trial in trace.trials for call in trial.tool_calls)
    return [call.result["fields"][0] for call in calls if is_shown(call)]


def clip_frames(trace: Trace) -> list[str]:
    """Return the names of frames of clips that calls were about, each once, some of the first."""
    calls = [call for trial in trace.trials for call in trial.tool_calls]
    values = (value for call in calls for value in call.args if isinstance(value, dict))
    firsts = (str(value["fields"][0]) for value in values if value.get("fields"))
    names = (name for name in firsts if "#" in name and CLIP_ID.fullmatch(name.partition("#")[0]))
    return [*dict.fromkeys(names)][:MOST_CLIP_FRAMES]


def turn_views(
    turns: Sequence[Turn], calls: Sequence[ToolCall], sizes: Sizes
) -> tuple[TurnView, ...]:
    """Return the views of a trace's turns."""
    shown_turns = turns[:MOST_TURNS]
    by_index = {call.index: call for call in calls}
    views = []
    for turn, flag in zip(shown_turns, flagged(shown_turns), strict=True):
        own = [by_index[index] for index in turn.calls if index in by_index]
        views.append(
            TurnView(
                turn,
                _ACTION_NAMES.get(turn.kind, turn.kind),
                tuple((display_value(c.result, sizes), note_of(c)) for c in own if is_shown(c)),
                tuple(Counter(str(call.tool) for call in own).items()),
                flag.reason,
                turn.writing.prompt_tokens + turn.writing.completion_tokens,
            )
        )
    return tuple(views)
