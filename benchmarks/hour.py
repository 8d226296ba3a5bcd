"""Questions about a video of an hour, in which one event is to be found.

    python -m benchmarks.hour [--split val] [--hours 4] [--step 8] [--within 0.5]

An hour is twelve long clips of the world, one after the other, with a key frame at least every
eight seconds, as most files have. In each of ten clips one object is there once for 10 to 30 s, and
nowhere else in the hour. The question is when. The writer of `embedded` writes the condition for
the first frame, as for `viper watch`. A given program looks for it with `moments`, has the matcher
agree with the detector about what is found, and returns the begin of the longest time that it
holds, which must be right within a second. Prints how often it
is, with the shares of frames that were decoded and that a model was asked about; then the same with
as many looks at even distances.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.watching import spans
from viper.errors import ViperError
from viper.evaluate.campaign import bound_arenas
from viper.evaluate.intervals import proportion
from viper.models import media, media_files
from viper.models.decoding import Decoded
from viper.models.media import CLIP_FPS, media_from, write_mp4
from viper.profiles import load_profile
from viper.reasoner import Reasoner, RunOptions
from viper.run_result import RunResult
from viper.storage.json_lines import dumps
from viper.watch.watching import written_program
from viper_lab.world.clips import render_frames
from viper_lab.world.long_clips import LongClip, long_clip
from viper_lab.world.vocabulary import COLOURS, SHAPES

CLIPS, CLIP_S, ASKED = 12, 300.0, 10

# Seconds of the event, and the most that its begin may be missed by.
_EVENT_S, _RIGHT_S = (10.0, 30.0), 1.0

_KEYS = 8 * CLIP_FPS

# A look may take two or three; the profile allows 200, enough for clips of seconds.
_CALLS = 5_000

SEARCH = """
def is_sure(frame):
    if holds(frame) != "yes":
        return False
    patches = frame.find({thing!r})
    return bool(patches) and patches[0].best_text_match({alike!r}) == {thing!r}
def execute_command(video):
    found = VideoSegment(video).moments(is_sure, step={step}, within={within})
    if not found:
        return "never"
    start, end = max(found, key=lambda span: span[1] - span[0])
    return f"{{start:.1f}} s", {{"moment": start}}
"""


@dataclass
class Score:
    right: int = 0
    asked: int = 0
    looks: int = 0
    decoded: int = 0


class Counting:
    """Counts the frames that FFmpeg decodes, by decoding in this process."""

    def __init__(self) -> None:
        self.frames = 0
        opened = media_files.av.open
        counting = self

        class Container:
            def __init__(self, *given: Any, **options: Any) -> None:
                self._container = opened(*given, **options)

            def __getattr__(self, name: str) -> Any:
                return getattr(self._container, name)

            def __enter__(self) -> Container:
                return self

            def __exit__(self, *_: Any) -> None:
                self._container.close()

            def decode(self, **which: Any) -> Iterator[Any]:
                for frame in self._container.decode(**which):
                    counting.frames += 1
                    yield frame

        def decode(path: Path, page: int = 1, **asked: Any) -> Decoded:
            with media_files.opened(path, page, False, **asked) as file:
                pixels = file.decode(file)
            return Decoded(pixels, tuple(file.times), file.seconds, tuple(file.notes), file.pages)

        media_files.av.open = Container
        vars(media)["decode"] = decode


def an_hour(split: str, number: int, draw: Random) -> Iterator[tuple[LongClip, int]]:
    """Yield clips, each with the number of the object that is asked about; -1 for none."""
    clips = [long_clip(split, 1_000 + CLIPS * number + each, CLIP_S) for each in range(CLIPS)]
    chosen: dict[int, int] = {}
    taken = set[str]()
    for each in draw.sample(range(CLIPS), CLIPS):
        free = [i for i, name in enumerate(clips[each].names) if name not in taken]
        if free and len(chosen) < ASKED:
            chosen[each] = draw.choice(free)
            taken.add(clips[each].names[chosen[each]])
    for each, clip in enumerate(clips):
        one = chosen.get(each, -1)
        positions = clip.clip.positions.copy()
        for index, name in enumerate(clip.names):
            if index != one and name in taken:
                positions[:, index] = np.nan
        if one >= 0:
            there = positions[:, one].copy()
            positions[:, one] = np.nan
            seconds = draw.uniform(*_EVENT_S)
            begins = [start for start, end in spans(~np.isnan(there[:, 0]))
                      if end - start >= seconds]  # fmt: skip
            begin = round(draw.choice(begins or [0.0]) * CLIP_FPS)
            begin += draw.randrange(4 * CLIP_FPS)
            part = slice(begin, begin + round(seconds * CLIP_FPS))
            positions[part, one] = there[part]
        yield replace(clip, clip=replace(clip.clip, positions=positions)), one


def drawn(hour: Sequence[tuple[LongClip, int]], path: Path) -> dict[str, float]:
    """Write the hour; return for each object that is asked about when it begins to be seen."""
    frames: list[NDArray[np.uint8]] = []
    begins: dict[str, float] = {}
    for number, (clip, one) in enumerate(hour):
        for first in range(0, len(clip.clip.positions), 256):
            numbers = range(first, min(first + 256, len(clip.clip.positions)))
            pixels, boxes = render_frames(clip.clip, numbers)
            frames.append(pixels)
            if one >= 0 and clip.names[one] not in begins:
                seen = np.flatnonzero(~np.isnan(boxes[:, one, 0]))
                if len(seen):
                    begins[clip.names[one]] = number * CLIP_S + (first + seen[0]) / CLIP_FPS
    write_mp4(path, np.concatenate(frames), keys=_KEYS)
    return begins


def searching(condition: str, thing: str, step: float, within: float | None) -> str:
    """Return a program that looks for the times at which a program for a frame says yes."""
    holds = re.sub(r"def execute_command\((\w+)[^)]*\)", r"def holds(\1)", condition, count=1)
    mine = set(thing.split())
    alike = [f"{colour} {shape}" for colour in COLOURS for shape in SHAPES
             if mine & {colour, shape}]  # fmt: skip
    return holds + SEARCH.format(thing=thing, alike=alike, step=step, within=within)


def frames_of(result: RunResult) -> set[str]:
    """Return the frames that a model was asked about."""
    calls = [call.args for trial in result.trace.trials for call in trial.tool_calls]
    return {*re.findall(r"clip-[-a-z0-9]+#[0-9]+", dumps(calls))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--split", default="val", help="split of the objects")
    parser.add_argument("--hours", type=int, default=4, help="number of hours")
    parser.add_argument("--step", type=float, default=8.0, help="seconds between the first looks")
    parser.add_argument("--within", type=float, default=0.5, help="seconds to find a begin to")
    options = parser.parse_args()
    bound_arenas()
    counting = Counting()
    scores = {"coarse, then close": Score(), "as many, evenly": Score()}
    began = time.perf_counter()
    profile = load_profile("embedded")
    limits = replace(profile.document.limits, calls=_CALLS)
    profile = replace(profile, document=replace(profile.document, limits=limits))
    with Reasoner(profile, preload=False) as reasoner:
        for number in range(options.hours):
            with tempfile.TemporaryDirectory() as name:
                path = Path(name) / "hour.mp4"
                draw = Random(f"hour {options.split} {number}")
                for thing, begin in drawn([*an_hour(options.split, number, draw)], path).items():
                    ask(reasoner, path, thing, begin, options, counting, scores)
            print(f"hour {number}: {time.perf_counter() - began:.0f} s", flush=True)
            for kind, score in scores.items():
                right = proportion(score.right, score.asked)
                whole = CLIPS * CLIP_S * CLIP_FPS * score.asked / 100
                print(f"{kind}: right {score.right} of {score.asked}, {right.value:.3f} "
                      f"[{right.low:.3f}, {right.high:.3f}]; {score.decoded / whole:.2f} % "
                      f"decoded, {score.looks / whole:.2f} % asked", flush=True)  # fmt: skip


def ask(
    reasoner: Reasoner,
    path: Path,
    thing: str,
    begin: float,
    options: argparse.Namespace,
    counting: Counting,
    scores: dict[str, Score],
) -> None:
    """Ask about one thing in both ways, and add to their scores."""
    words = f"there is a {thing}"
    try:
        condition = written_program(reasoner, path, words)
    except ViperError as error:
        print(f"  {words}: {error}", flush=True)
        condition = "def execute_command(image):\n    return False\n"
    step: float = options.step
    within: float | None = options.within
    run = RunOptions("question", self_tune=False, checks=False)
    for score in scores.values():
        counting.frames = 0
        program = searching(condition, thing, step, within)
        result = reasoner.execute(program, media_from(path), words, run)
        moment = None if result.answer is None else result.answer.moment
        looks = len(frames_of(result))
        score.asked += 1
        score.right += moment is not None and abs(moment - begin) <= _RIGHT_S
        score.looks += looks
        score.decoded += counting.frames
        print(f"  {words}: from {begin:.1f} s, found {moment}, {looks} looks, "
              f"{counting.frames} decoded {result.failure or ''}", flush=True)  # fmt: skip
        step, within = CLIPS * CLIP_S / max(1, looks), None


if __name__ == "__main__":
    main()
