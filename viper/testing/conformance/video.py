"""The rules of the video role."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from viper.testing.conformance.rules import (
    TOLERANCE,
    is_chance,
    keeps_identity,
    leaves_arrays_alone,
    require,
    works_in_another_thread,
)
from viper.tools.roles import EventWindow, Pixels, VideoModel

EVENTS = ("the red cube hits the blue ball", "a dog jumps on the sofa")
MIN_SCORE = 0.01


def check_video(
    backend: Any,
    clips: Sequence[Pixels] | None = None,
    *,
    events: Sequence[str] = EVENTS,
    tolerance: float = TOLERANCE,
) -> None:
    """Checks a :class:`~viper.tools.roles.VideoModel`.

    Args:
        clips: uint8 [T, H, W, 3]; None takes a clip of noise and a single frame.
        events: what is looked for in each.
        tolerance: what a score may differ by between runs.

    Raises:
        AssertionError: a rule is broken; the message names it.
    """
    clips = _noise() if clips is None else clips
    with keeps_identity(backend, VideoModel):
        leaves_arrays_alone(lambda given: [backend.encode(clip) for clip in given], clips)
        agree = partial(_same, tolerance=tolerance)
        for clip in clips:
            encoding = backend.encode(clip)
            windows = _located(backend, encoding, events)
            for each in windows:
                _are_well_formed(each, len(clip))
            again = _located(backend, encoding, events)
            require(
                agree(windows, again), "an encoding must give the same windows when asked again"
            )
            _check_descriptions(backend, encoding, len(clip), events[0])
        works_in_another_thread(
            lambda: _located(backend, backend.encode(clips[0]), events),
            agree,
        )


def _noise() -> list[Pixels]:
    rng = np.random.default_rng(0)
    shapes = ((12, 48, 64, 3), (1, 40, 30, 3))
    return [rng.integers(0, 256, shape, dtype=np.uint8) for shape in shapes]


def _located(backend: Any, encoding: Any, events: Sequence[str]) -> list[list[EventWindow]]:
    return [backend.locate(encoding, event) for event in events]


def _are_well_formed(windows: Sequence[EventWindow], frames: int) -> None:
    for item in windows:
        whole = isinstance(item.start, int) and isinstance(item.end, int)
        inside = whole and 0 <= item.start < item.end <= frames
        require(
            inside,
            f"a window must hold whole frames of its clip of {frames}, end exclusive, "
            f"not [{item.start}, {item.end})",
        )
        good = is_chance(item.score) and item.score >= MIN_SCORE
        require(good, f"scores must lie in [{MIN_SCORE}, 1], not at {item.score!r}")
    ordered = all(one.score >= other.score for one, other in pairwise(windows))
    require(ordered, "windows must come best first")


def _check_descriptions(backend: Any, encoding: Any, frames: int, event: str) -> None:
    for start, question in ((0, None), (frames // 2, None), (0, f"what happens when {event}?")):
        said = backend.describe(encoding, start, frames, question)
        require(isinstance(said, str), f"a description must be text, not {said!r}")
        again = backend.describe(encoding, start, frames, question)
        require(said == again, "a range must be described alike when asked again")


def _same(
    one: Sequence[Sequence[EventWindow]], other: Sequence[Sequence[EventWindow]], tolerance: float
) -> bool:
    return all(
        len(first) == len(second)
        and all(
            (a.start, a.end) == (b.start, b.end) and abs(a.score - b.score) <= tolerance
            for a, b in zip(first, second, strict=True)
        )
        for first, second in zip(one, other, strict=True)
    )
