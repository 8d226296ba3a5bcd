"""How well conditions are watched in long clips of the world, whose events have exact times.

    python -m benchmarks.watching [--split val] [--clips 10] [--seconds 300] [--times 0.5,2 1,4]

Each clip has ten conditions: eight in words, for which the writer of `embedded` writes a program on
the first frame, and two crossings of the middle by a given program with tracks. An event counts as
told if a row lies between half a second before it and its end (crossings: within a second); one
that lasts less than a second counts neither way. Prints precision, recall, delays and false alarms
by kind after each clip, for each pair of --hold and --gap.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viper.api.image_patch import ImagePatch
from viper.api.routines.tracks import crosses
from viper.api.runtime import ImageHandle
from viper.errors import ViperError
from viper.evaluate.campaign import bound_arenas
from viper.evaluate.intervals import proportion
from viper.models.media import CLIP_FPS
from viper.profiles import load_profile
from viper.reasoner import Reasoner, RunOptions
from viper.schema import Answer, Failure, Trace
from viper.watch.events import Event, EventLog
from viper.watch.watching import TASK, Condition, Watch, takes_video, written_program
from viper.watch.windows import Window
from viper_lab.world.long_clips import LongClip, long_clip, write_long_clip
from viper_lab.world.scene import CLIP_HEIGHT, CLIP_WIDTH

# A row may be this early: frames are shown for an eighth of a second, boxes tremble.
_EARLY_S = 0.5

# Shorter events need not be told, and may be.
_SHORT_S = 1.0

# Pixels between two centres from which one is left of the other.
_BESIDE = 3.0

CROSSING = """
def execute_command(video):
    middle = (({x}, 0), ({x}, {height}))
    times = []
    for track in VideoSegment(video).tracks({name!r}, rate=8):
        times += crosses(track, middle)
    return bool(times), {{"moments": times}}
"""

Span = tuple[float, float]


@dataclass
class Asked:
    """A condition with its events, from when to when in seconds."""

    kind: str
    words: str
    spans: list[Span]
    program: str = ""


@dataclass
class Score:
    conditions: int = 0
    told: int = 0
    right: int = 0
    needed: int = 0
    seen: int = 0
    hours: float = 0.0
    delays: list[float] = field(default_factory=list)


def asked_of(clip: LongClip, draw: Random) -> Iterator[Asked]:
    """Yield the conditions of a clip."""
    names, boxes = clip.names, clip.visible
    assert boxes is not None
    there = ~np.isnan(boxes[..., 0])
    middle = (boxes[..., 0] + boxes[..., 2]) / 2
    order = draw.sample(range(len(names)), len(names))
    for one in order[:3]:
        yield Asked("presence", f"there is a {names[one]}", spans(there[:, one]))
    yield Asked("absence", f"there is no {names[order[3]]}", spans(~there[:, order[3]]))
    for one, other, word in ((order[0], order[1], "left"), (order[2], order[4], "right")):
        sign = 1 if word == "left" else -1
        gap = sign * (middle[:, other] - middle[:, one])
        text = f"the {names[one]} is to the {word} of the {names[other]}"
        yield Asked("relation", text, spans(steady(gap, there[:, one] & there[:, other])))
    both = there[:, order[3]] & there[:, order[4]]
    text = f"there is a {names[order[3]]} and there is a {names[order[4]]}"
    yield Asked("both", text, spans(both))
    yield Asked("count", "there are 5 objects", spans(there.sum(1) == 5))
    for one in order[:2]:
        times = crossing_times(boxes[:, one])
        program = CROSSING.format(x=CLIP_WIDTH // 2, height=CLIP_HEIGHT, name=names[one])
        yield Asked("crossing", names[one], [(at - 0.5, at + 1.0) for at in times], program)


def spans(holds: NDArray[np.bool_]) -> list[Span]:
    """Return from when to when something holds, also from the start on."""
    changes = np.flatnonzero(np.diff(np.r_[False, holds, False].astype(int)))
    pairs = changes.reshape(-1, 2) / CLIP_FPS
    return [(float(start), float(end)) for start, end in pairs]


def steady(gap: NDArray[np.float32], there: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return where a gap is positive; near 0 it is what it was before."""
    holds, now = np.zeros(len(gap), bool), False
    for frame, (value, both) in enumerate(zip(gap, there, strict=True)):
        if not both:
            now = False
        elif abs(value) > _BESIDE:
            now = bool(value > 0)
        holds[frame] = now
    return holds


def crossing_times(boxes: NDArray[np.float32]) -> list[float]:
    """Return when an object's visible box crosses the middle, by the routine of programs."""
    handle = ImageHandle("clip-0-1-1#0", CLIP_WIDTH, CLIP_HEIGHT, lambda *_, **__: None)
    line = ((CLIP_WIDTH / 2, 0), (CLIP_WIDTH / 2, CLIP_HEIGHT))
    times: list[float] = []
    for start, end in spans(~np.isnan(boxes[:, 0])):
        frames = range(round(start * CLIP_FPS), round(end * CLIP_FPS))
        patches = [
            ImagePatch._at(handle, x0, CLIP_HEIGHT - y1, x1, CLIP_HEIGHT - y0)
            for x0, y0, x1, y1 in boxes[frames].tolist()
        ]
        track = {"times": [frame / CLIP_FPS for frame in frames], "patches": patches}
        times += crosses(track, line)
    return times


def count(score: Score, asked: Asked, told: list[float], held: float) -> None:
    """Add the rows of a condition to a score; they were told so many seconds after their time."""
    left = list(asked.spans)
    for at in told:
        found = next((s for s in left if s[0] - _EARLY_S <= at <= s[1]), None)
        if found is None:
            score.told += 1
            continue
        left.remove(found)
        if found[1] - found[0] >= _SHORT_S:
            score.told += 1
            score.right += 1
            score.seen += 1
            begin = found[0] + (0.5 if asked.kind == "crossing" else 0.0)
            score.delays.append(max(0.0, at + held - begin))
    score.needed += sum(end - start >= _SHORT_S for start, end in asked.spans)


@dataclass(frozen=True)
class KeptResult:
    """What a watch reads of a result, without the frames."""

    answer: Answer | None
    failure: Failure | None
    trace: Trace

    def html(self, target: Path) -> None:
        """Write no page."""


class Kept:
    """A reasoner that asks another once about a window: all pairs of times use its answers."""

    def __init__(self, reasoner: Reasoner) -> None:
        self._reasoner = reasoner
        self._results: dict[float, KeptResult] = {}
        self.start = 0.0

    def execute(self, *arguments: Any) -> KeptResult:
        if self.start not in self._results:
            result = self._reasoner.execute(*arguments)
            self._results[self.start] = KeptResult(result.answer, result.failure, result.trace)
        return self._results[self.start]


def watched(
    kept: tuple[Kept, Kept],
    path: Path,
    asked: Asked,
    program: str,
    every: float,
    times: Span,
    folder: Path,
) -> list[Event]:
    """Return the events that a watch tells."""
    found: list[Event] = []
    log = EventLog(folder, "benchmark")
    video = takes_video(program)
    reasoner: Any
    confirming: Any
    reasoner, confirming = kept

    def begin(window: Window) -> None:
        reasoner.start = confirming.start = window.start

    try:
        Watch(
            reasoner, program, Condition(asked.words),
            RunOptions(TASK, self_tune=False, checks=False), log, video,
            5.0 if video else every, 2.0, *times, 0.0, True, on_window=begin,
            on_event=found.append,
            say=lambda text: print(f"  {asked.words}: {text}", flush=True), confirming=confirming,
        ).run(path)  # fmt: skip
    finally:
        log.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--split", default="val", help="split of the objects")
    parser.add_argument("--clips", type=int, default=10, help="number of clips")
    parser.add_argument("--first", type=int, default=0, help="number of the first clip")
    parser.add_argument("--seconds", type=float, default=300, help="length of a clip")
    parser.add_argument("--every", type=float, default=0.5, help="seconds between two looks")
    parser.add_argument("--times", nargs="+", default=["0.5,2"], metavar="HOLD,GAP",
                        help="pairs of --hold and --gap; each is scored")  # fmt: skip
    options = parser.parse_args()
    bound_arenas()
    pairs: list[Span] = [tuple(map(float, pair.split(","))) for pair in options.times]
    scores = {pair: defaultdict[str, Score](Score) for pair in pairs}
    began = time.perf_counter()
    profile = load_profile("embedded").for_watching()
    with Reasoner(profile, preload=False) as reasoner:
        parts = reasoner.components.with_thresholds(profile.document.watch.confirm)
        confirming = Reasoner(parts, preload=False)
        for index in range(options.first, options.first + options.clips):
            with tempfile.TemporaryDirectory() as name:
                path = Path(name) / "clip.mp4"
                clip = write_long_clip(long_clip(options.split, index, options.seconds), path)
                for number, asked in enumerate(asked_of(clip, Random(f"conditions {index}"))):
                    kept, program = (Kept(reasoner), Kept(confirming)), asked.program
                    try:
                        program = program or written_program(reasoner, path, asked.words)
                    except ViperError as error:
                        print(f"  {asked.words}: {error}", flush=True)
                    for pair in pairs:
                        score = scores[pair][asked.kind]
                        score.conditions += 1
                        score.hours += options.seconds / 3600
                        folder = Path(name) / f"{number}-{pair}"
                        told = program and watched(
                            kept, path, asked, program, options.every, pair, folder
                        )
                        held = 0.0 if asked.kind == "crossing" else pair[0]
                        count(score, asked, [event.time for event in told or ()], held)
            print(f"clip {index}: {time.perf_counter() - began:.0f} s", flush=True)
            for pair in pairs:
                print(f"so far, --hold {pair[0]:g} --gap {pair[1]:g}:", flush=True)
                print_scores(scores[pair])


def print_scores(scores: dict[str, Score]) -> None:
    """Print a line for each kind, and one for all."""
    whole = Score()
    for score in scores.values():
        for key, value in vars(score).items():
            setattr(whole, key, getattr(whole, key) + value)
    for kind, score in (*sorted(scores.items()), ("all", whole)):
        parts = ((score.right, score.told), (score.seen, score.needed))
        shares = [proportion(right, of) for right, of in parts]
        precision, recall = (f"{e.value:.3f} [{e.low:.3f}, {e.high:.3f}]" for e in shares)
        prompt = sum(delay <= 1 for delay in score.delays) / max(1, len(score.delays))
        print(
            f"{kind:9} {score.conditions:3} conditions, {score.needed:4} events: "
            f"precision {precision}, recall {recall}, "
            f"median delay {statistics.median(score.delays or [0]):.2f} s, "
            f"{100 * prompt:.0f} % within 1 s, "
            f"{(score.told - score.right) / score.hours:.2f} false an hour",
            flush=True,
        )


if __name__ == "__main__":
    main()
