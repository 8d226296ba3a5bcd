"""HTML of the demo's page. Templates escape all values."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from viper.evaluate.sample_result import SampleResult
from viper.models.media import write_mp4
from viper.models.vision.roles import Pixels
from viper.schema import PixelBox
from viper.web.demo.manager import AnswerEvent, AskEvent, ErrorEvent, Status, StopEvent, TrialEvent
from viper.web.demo.session import DemoMedia
from viper.web.pages import data_address, embedded, rendered

# A shown picture is sent with each change of it, also over slow connections.
PICTURE_BYTES = 400_000
# Longest side of a displayed clip's frames, in pixels: about the width of the column.
CLIP_SIDE = 480


def media_html(
    chosen: DemoMedia | None, box: PixelBox | None = None, *, draws: bool = False
) -> str:
    """Render the chosen media with name and size.

    Args:
        box: box of the answer.
        draws: let the visitor draw the right box on the picture.
    """
    if chosen is None:
        return rendered("demo_media.html", chosen=None)
    media = chosen.media
    if media.video is not None:
        frames, height, width, _ = media.video.shape
        address = _clip_address(media.video)
    else:
        frames, (height, width, _) = 0, media.images[0].shape
        address = next(iter(embedded(media, PICTURE_BYTES).values())).address
    shown = {"chosen": chosen, "address": address, "frames": frames, "box": box, "draws": draws}
    return rendered("demo_media.html", **shown, width=width, height=height)


def trials_html(trials: Sequence[TrialEvent], row: SampleResult | None = None) -> str:
    """Render the trials so far. The last one is unfolded.

    Args:
        row: result of the question, once it is answered.
    """
    return rendered("demo_trials.html", trials=trials, row=row) if trials else ""


def answer_html(event: AnswerEvent) -> str:
    """Render the answer, or the reason that there is none."""
    return rendered("demo_answer.html", row=event.row, warnings=event.warnings)


def status_html(event: AskEvent) -> str:
    """Render one line about the state of the question."""
    match event:
        case Status():
            return line_html(event.text, busy=True)
        case TrialEvent():
            ended = "answered" if event.failure is None else "failed"
            text = f"trial {event.trial.index + 1} {ended} after {event.seconds:.1f} s"
            return line_html(text, busy=True)
        case AnswerEvent():
            state = "answered" if event.row.prediction is not None else "no answer"
            return line_html(f"{state} after {event.seconds:.1f} s; kept as {event.row.sample_id}")
        case StopEvent():
            return line_html(f"stopped after {event.seconds:.1f} s")
        case ErrorEvent():
            return line_html(event.message, wrong=True)


def line_html(text: str, *, wrong: bool = False, busy: bool = False) -> str:
    """Render a line of text; ``busy`` while work is under way."""
    return rendered("demo_status.html", text=text, wrong=wrong, busy=busy)


def _clip_address(video: Pixels) -> str:
    """Return a clip as a data URL. Large frames keep every n-th pixel."""
    step = -(-max(video.shape[1:3]) // CLIP_SIDE)
    frames = video[:, ::step, ::step]
    # Even sides, as H.264 requires: a single row or column is padded, an odd one left out.
    more = [(0, max(0, 2 - side)) for side in frames.shape[1:3]]
    frames = np.pad(frames, ((0, 0), *more, (0, 0)))
    height, width = (side // 2 * 2 for side in frames.shape[1:3])
    with tempfile.TemporaryDirectory(prefix="viper-demo-") as folder:
        path = Path(folder) / "clip.mp4"
        write_mp4(path, np.ascontiguousarray(frames[:, :height, :width]))
        return data_address("video/mp4", path.read_bytes())
