"""Jobs of the embedded world: a question, and its answer by the truth of a scene or clip.

Eighteen ask in plain words. In six the words do not tell what is meant; only the labels do. What
those mean was written down before any was fitted, and two of them (``safe``, ``matched``) are about
relations that no measure of :mod:`viper.jobs.rules` has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from viper.jobs.cases import Label
from viper.models.media import write_mp4
from viper_lab.jobs.study import save_png
from viper_lab.world.clips import render_clip, sample_clip
from viper_lab.world.layout import sample_scene
from viper_lab.world.render import render_scene
from viper_lab.world.scene import RenderedClip, SceneObject

# Least visible share of an object that a question may be about.
_SEEN = 0.3


class Seen(NamedTuple):
    """A visible object with its box, pixels from the top-left corner, and its depth."""

    thing: SceneObject
    box: tuple[float, ...]
    depth: float

    @property
    def middle(self) -> float:
        return (self.box[0] + self.box[2]) / 2


Truth = Callable[[Sequence[Seen]], Any]


@dataclass(frozen=True)
class WorldJob:
    """A question with its truth.

    Attributes:
        truth: answer about the visible objects, or about a clip.
        vague: whether only labels tell what the words mean.
        clip: whether it is about clips.
    """

    name: str
    query: str
    truth: Callable[[Any], Any]
    task: str = "question"
    vague: bool = False
    clip: bool = False


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _number(test: Callable[[SceneObject], bool]) -> Truth:
    return lambda seen: str(sum(test(each.thing) for each in seen))


def _any(test: Callable[[SceneObject], bool]) -> Truth:
    return lambda seen: _yes(any(test(each.thing) for each in seen))


def _left(seen: Sequence[Seen]) -> Seen:
    return min(seen, key=lambda each: each.middle)


def _gap(one: Seen, other: Seen) -> float:
    """Return the distance of two boxes in pixels; negative if they overlap."""
    across = max(one.box[0], other.box[0]) - min(one.box[2], other.box[2])
    down = max(one.box[1], other.box[1]) - min(one.box[3], other.box[3])
    return max(across, down)


def _pairs(seen: Sequence[Seen]) -> list[tuple[Seen, Seen]]:
    return [(one, other) for place, one in enumerate(seen) for other in seen[:place]]


def _shapes(seen: Sequence[Seen], shape: str) -> list[Seen]:
    return [each for each in seen if each.thing.shape == shape]


def _happens(kind: str) -> Callable[[RenderedClip], str]:
    return lambda clip: _yes(any(event.kind == kind for event in clip.events))


JOBS: Sequence[WorldJob] = (
    WorldJob("things", "how many things are there?", lambda seen: str(len(seen))),
    WorldJob("red", "how many red things are there?", _number(lambda o: o.colour == "red")),
    WorldJob("cubes", "how many cubes are there?", _number(lambda o: o.shape == "cube")),
    WorldJob("small metal", "how many small metal things are there?",
             _number(lambda o: o.size == "small" and o.material == "metal")),
    WorldJob("metal, no cube", "how many metal things are not cubes?",
             _number(lambda o: o.material == "metal" and o.shape != "cube")),
    WorldJob("colors", "how many different colors are there?",
             lambda seen: str(len({each.thing.colour for each in seen}))),
    WorldJob("ball", "is there a ball?", _any(lambda o: o.shape == "ball")),
    WorldJob("blue cone", "is there anything blue or any cone?",
             _any(lambda o: o.colour == "blue" or o.shape == "cone")),
    WorldJob("no ring", "is the table free of rings?",
             lambda seen: _yes(not _shapes(seen, "ring"))),
    WorldJob("more cubes", "are there more cubes than balls?",
             lambda seen: _yes(len(_shapes(seen, "cube")) > len(_shapes(seen, "ball")))),
    WorldJob("left of", "is a cube left of a ball?",
             lambda seen: _yes(any(one.middle < other.middle for one in _shapes(seen, "cube")
                                   for other in _shapes(seen, "ball")))),
    WorldJob("leftmost color", "what color is the leftmost thing?",
             lambda seen: _left(seen).thing.colour),
    WorldJob("rightmost shape", "what shape is the rightmost thing?",
             lambda seen: max(seen, key=lambda each: each.middle).thing.shape),
    WorldJob("nearest color", "what color is the thing nearest to the camera?",
             lambda seen: min(seen, key=lambda each: each.depth).thing.colour),
    WorldJob("rightmost metal", "is the rightmost thing metal?",
             lambda seen: _yes(max(seen, key=lambda e: e.middle).thing.material == "metal")),
    WorldJob("leftmost", "the leftmost thing", lambda seen: _left(seen).box, task="ground"),
    WorldJob("falls", "does anything fall off the table?", _happens("fall"), clip=True),
    WorldJob("hits", "does anything hit another thing?", _happens("hit"), clip=True),
    WorldJob("ours", "how many of ours are there?",
             _number(lambda o: o.colour in ("blue", "green")), vague=True),
    WorldJob("dangerous", "is it dangerous?", _any(lambda o: o.colour == "red"), vague=True),
    WorldJob("tidy", "is it tidy?",
             lambda seen: _yes(all(_gap(*pair) > 4 for pair in _pairs(seen))), vague=True),
    WorldJob("line", "which line is it from?",
             lambda seen: "A" if 2 * sum(e.thing.material == "metal" for e in seen) > len(seen)
             else "B", vague=True),
    WorldJob("safe", "is it safe?",
             lambda seen: _yes(not any(_gap(one, other) < 20 for one, other in _pairs(seen)
                                       if {one.thing.shape, other.thing.shape} == {"cone", "ball"}
                                       or "cone" == one.thing.shape == other.thing.shape)),
             vague=True),
    WorldJob("matched", "do they match?",
             lambda seen: _yes(any(one.thing.colour == other.thing.colour
                                   for one, other in _pairs(seen))), vague=True),
)  # fmt: skip

# Largest share of one of two answers; a question that is nearly always "no" needs no fitting.
_MOST = 0.6


def draw(job: WorldJob, split: str, first: int, count: int, folder: Path) -> list[Label]:
    """Render pictures or clips from a number on, and label them; the rest is found again.

    Args:
        folder: for the files; several jobs share the same pictures.
    """
    folder.mkdir(parents=True, exist_ok=True)
    counts: Counter[Any] = Counter()
    found: list[Label] = []
    number = first
    while len(found) < count:
        path, seen = (_clip if job.clip else _picture)(split, number, folder)
        number += 1
        if seen == []:
            continue
        answer = job.truth(seen)
        if answer in ("yes", "no", "A", "B") and counts[answer] >= _MOST * count:
            continue
        counts[answer] += 1
        kind = "video" if job.clip else "image"
        found.append(Label((str(path.resolve()),), job.query, job.task, answer, kind=kind))
    return found


def _picture(split: str, number: int, folder: Path) -> tuple[Path, Any]:
    path, scene = folder / f"{split}-{number}.png", sample_scene(split, number)
    rendered = render_scene(scene)
    if not path.is_file():
        save_png(path, Image.fromarray(rendered.image))
    things = enumerate(scene.objects)
    return path, [
        Seen(thing, rendered.box(i), float(rendered.object_depths[i]))
        for i, thing in things
        if rendered.visible[i] > _SEEN
    ]


def _clip(split: str, number: int, folder: Path) -> tuple[Path, Any]:
    path, clip = folder / f"{split}-{number}.mp4", render_clip(sample_clip(split, number))
    if not path.is_file():
        write_mp4(path, clip.frames)
    return path, clip
