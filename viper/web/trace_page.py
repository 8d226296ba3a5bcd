"""Page of one trace in a single file, which opens from disk and needs no network.

:func:`run_page` replays the programs of a run, and :func:`trace_page` renders their views with all
pictures inside.

Templates escape all queries, programs, model outputs and file names. The page's policy forbids
scripts and resources from outside the page.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from markupsafe import Markup

from viper.api.library import Library
from viper.evaluate.runs.learning_record import LearningRecord
from viper.models.media import Media
from viper.plugins import Registry
from viper.sandbox.sandbox import Mode
from viper.schema import PixelBox, Trace, clip_id
from viper.strategies.replay import Replay, Replayer
from viper.tools.tool_functions import depth_map
from viper.tools.toolbox import Toolbox, with_pictures_of
from viper.web.pages import asset, embedded, rendered, shades
from viper.web.seek_path import path_view
from viper.web.trace_view import (
    DEPTH_TOOL,
    Sizes,
    clip_frames,
    shown_pictures,
    trial_views,
    turn_views,
)

# A function of an installed package that turns a strategy's part of the trace, under the same name,
# into HTML for its page. The page's policy forbids scripts and resources from elsewhere.
PAGE_PARTS = Registry("viper.page_parts", "page part")

# Bytes of all pictures of a page together, before base64 adds a third: the page stays near 2 MB and
# can be sent by mail.
MOST_BYTES = 1_600_000


@dataclass(frozen=True)
class Truth:
    """Right answer: words, a box in pixels from the top-left corner, or both."""

    text: str = ""
    box: PixelBox | None = None


@dataclass(frozen=True)
class FeedbackForm:
    """Feedback form, with earlier remarks.

    Attributes:
        address: address that takes the form.
        right_is: form of the right answer, in words.
        known: the right answer, the comment and the time of each earlier remark.
        refused: why the last remark was not stored; ``answer`` and ``comment`` then repeat it.
    """

    address: str
    right_is: str
    known: Sequence[tuple[str, str, str]] = ()
    refused: str = ""
    answer: str = ""
    comment: str = ""


@dataclass(frozen=True)
class Extras:
    """Parts of a page beside the trace.

    Attributes:
        command: a command line that repeats the run.
        truth: the right answer; None if unknown.
        depth: maps ``[H, W]`` by picture, larger is farther.
        score: score of the answer by the data set's metric.
        back: address of the page that lists this one.
        record: learning record of the answer; None if no run learned from it.
        most_bytes: limit for all pictures together.
        saying: feedback form; a page on disk has none.
        steps_only: leave out an answer and media that the page around this one shows.
    """

    command: str = ""
    truth: Truth | None = None
    depth: Mapping[str, np.ndarray] = field(default_factory=dict)
    score: float | None = None
    back: str = ""
    record: LearningRecord | None = None
    most_bytes: int = MOST_BYTES
    saying: FeedbackForm | None = None
    steps_only: bool = False


def trace_page(trace: Trace, media: Media, replays: Sequence[Replay], extras: Extras) -> str:
    """Render the page of a trace.

    Args:
        media: media of the query.
        replays: replays of the trials, in their order.
    """
    shown, closer = shown_pictures(trace), clip_frames(trace)
    moment = None if trace.answer is None or media.video is None else trace.answer.moment
    evidence = "" if moment is None else f"{clip_id(moment, 1, 1)}#0"
    if moment is not None and media.source and moment < media.seconds:
        closer = [evidence, *closer]
    if not all(name in media.edits for name in shown):  # of a stored run
        media = with_pictures_of(media, (call for one in trace.trials for call in one.tool_calls))
    pictures, depth = embedded(media, extras.most_bytes, [*shown, *closer]), shades(extras.depth)
    frames = 0 if media.video is None else len(media.video)
    sizes = Sizes({name: (image.width, image.height) for name, image in pictures.items()}, frames)
    trials, prompts = trial_views(trace, replays, sizes)
    script, style = asset("trace.js"), asset("trace.css")
    sends_to = "none" if extras.saying is None else "self"
    number = trace.answer.image_index or 0 if trace.answer is not None else 0
    if moment is not None and media.times:
        number = min(range(frames), key=lambda frame: abs(media.times[frame] - moment))
    return rendered(
        "trace.html",
        trace=trace,
        trials=trials,
        prompts=prompts,
        path=path_view(trace.path),
        turns=turn_views(trace.turns, trace.tool_calls, sizes),
        # Show the trial that answered first, else the last trial.
        chosen=len(trace.trials) - 1 if trace.chosen is None else trace.chosen,
        pictures=pictures,
        depth=depth,
        added=[
            Markup(point.load()(trace.parts[name]))
            for name, point in PAGE_PARTS.installed().items()
            if name in trace.parts
        ],
        frames=frames,
        moment=moment,
        evidence=evidence if evidence in pictures else "",
        names=media.names,
        answer_picture=f"image{number}" if media.video is None else f"video0#{number}",
        extras=extras,
        script=Markup(script),
        style=Markup(style),
        policy=(
            f"default-src 'none'; img-src data:; base-uri 'none'; form-action '{sends_to}'; "
            f"script-src {_csp_hash(script)}; style-src {_csp_hash(style)}"
        ),
    )


def replay_all(trace: Trace, media: Media, replayer: Replayer) -> list[Replay]:
    """Replay every trial line by line. A trial without a program gives an empty replay."""
    return [
        replayer.replay(trial.program, trial.tool_calls, trace.query, media)
        if trial.program
        else Replay((), whole=False)
        for trial in trace.trials
    ]


def run_page(
    trace: Trace, media: Media, command: str = "", *, library: Library, toolbox: Toolbox, mode: Mode
) -> str:
    """Render the page of a run; its programs run again in a separate sandbox.

    Args:
        command: a command line that repeats the run.
        toolbox: gives the depth maps that the programs asked for, from its cache.
    """
    session = toolbox.session(media)
    calls = [call for trial in trace.trials for call in trial.tool_calls]
    asked = [call for call in calls if call.tool == DEPTH_TOOL and call.error is None and call.args]
    image_names = dict.fromkeys(call.args[0]["fields"][0] for call in asked)
    depth = {name: depth_map(session, name) for name in image_names}
    with Replayer(library, mode) as replayer:
        replays = replay_all(trace, media, replayer)
    return trace_page(trace, media, replays, Extras(command, depth=depth))


def _csp_hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
    return f"'sha256-{digest}'"
