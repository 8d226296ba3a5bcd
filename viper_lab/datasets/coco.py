"""Questions about photographs whose boxes are known, generated from a file in COCO's form.

Files: ``instances.json`` beside ``images/``, or the official ``annotations/instances_val2017.json``
beside ``val2017/`` (else ``train2017``). Any file in COCO's form does.

Kinds of question (group ``query_type``), all with exact truth:

- ``count``: "How many dogs are there?", for every category that occurs.
- ``exists``: "Are there any dogs in the picture?"; half of the answers are no, about the categories
  that most often occur together with those of the picture.
- ``compare``: "Are there more dogs than cats?", for neighbours in the order of the file.
- ``left``: "Is the dog left of the cat?", where each occurs once and their columns do not overlap.
- ``largest``: "the largest dog", to ground, where it has 1.5 times the area of the second.
- ``color``: "What color is the car?", where it occurs once and one color has most of its middle, by
  :func:`viper.models.vision.colors.color_chances`. Pictures are read for it, so it is in no split
  but its own.

A category with the box of a group (``iscrowd``) is left out of its picture: its number is unknown.
Splits: ``all``, ``rest`` and ``held`` (the third that :func:`.held_back.is_held_back`
keeps for judging), each also by kind: ``rest:count``. The id of a sample is
``PICTURE-KIND-CATEGORY…``, its cluster the picture.

Source: Lin et al., ECCV 2014; the absent categories of ``exists`` as in POPE (Li et al. 2023),
"adversarial".
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viper.data.coco_file import CocoFile
from viper.data.layout import OfficialSet, first_there, of_files
from viper.data.sample import Sample
from viper.data.source import SourceFile
from viper.models.media import read_picture
from viper.models.vision.colors import COLORS, color_chances
from viper.schema import PixelBox
from viper.tools.crops import clip_box
from viper_lab.datasets.held_back import is_held_back

ORIGIN = "https://cocodataset.org/#download (2017 Train/Val annotations)"
PICTURES = "https://cocodataset.org/#download (2017 Train and Val images)"

# Annotation file below the root, and the folder of its pictures.
_LAYOUTS = {
    "instances.json": "images",
    "annotations/instances_val2017.json": "val2017",
    "annotations/instances_train2017.json": "train2017",
}

# Areas of boxes follow the objects loosely; at half as much again the eye agrees.
CLEARLY_LARGER = 1.5

# Share of a box's middle; the rest is shade, and what lies before or behind.
CLEAR_COLOR = 0.7

# Plurals that the endings of :func:`plural` do not give.
_PLURALS = {"person": "people", "mouse": "mice", "knife": "knives", "sheep": "sheep"}


def plural(name: str) -> str:
    """Return the plural of a category's name; a name in -s, as ``skis``, is one already."""
    if name in _PLURALS:
        return _PLURALS[name]
    if name.endswith(("ss", "us", "sh", "ch", "x")):
        return f"{name}es"
    return name if name.endswith("s") else f"{name}s"


@dataclass(frozen=True)
class _Scene:
    """One picture.

    Attributes:
        boxes: by the id of a category, of those whose boxes are complete, in the order of ids.
        absent: categories that do not occur, those that best go with the others first.
    """

    image: int
    path: Path
    boxes: Mapping[int, Sequence[PixelBox]]
    names: Mapping[int, str]
    absent: Sequence[int]

    def pairs(self, categories: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield neighbours, every second pair the other way round, so that no side wins."""
        for number, (a, b) in enumerate(itertools.pairwise(categories), self.image):
            yield (a, b) if number % 2 else (b, a)

    @property
    def single(self) -> list[int]:
        return [category for category, boxes in self.boxes.items() if len(boxes) == 1]


# Categories that a question is about, its text and the right answer.
_Question = tuple[tuple[int, ...], str, Any]


def _count(scene: _Scene) -> Iterator[_Question]:
    for category, boxes in scene.boxes.items():
        text = f"How many {plural(scene.names[category])} are there?"
        yield (category,), text, str(len(boxes))


def _exists(scene: _Scene) -> Iterator[_Question]:
    for pair in zip(scene.boxes, scene.absent, strict=False):
        for category, answer in zip(pair, ("yes", "no"), strict=True):
            text = f"Are there any {plural(scene.names[category])} in the picture?"
            yield (category,), text, answer


def _compare(scene: _Scene) -> Iterator[_Question]:
    for a, b in scene.pairs([*scene.boxes]):
        text = f"Are there more {plural(scene.names[a])} than {plural(scene.names[b])}?"
        yield (a, b), text, "yes" if len(scene.boxes[a]) > len(scene.boxes[b]) else "no"


def _left(scene: _Scene) -> Iterator[_Question]:
    for a, b in scene.pairs(scene.single):
        (one,), (other,) = scene.boxes[a], scene.boxes[b]
        if one[2] <= other[0] or other[2] <= one[0]:
            text = f"Is the {scene.names[a]} left of the {scene.names[b]}?"
            yield (a, b), text, "yes" if one[2] <= other[0] else "no"


def _largest(scene: _Scene) -> Iterator[_Question]:
    def area(box: PixelBox) -> float:
        return (box[2] - box[0]) * (box[3] - box[1])

    for category, boxes in scene.boxes.items():
        first, *others = sorted(boxes, key=area, reverse=True)
        if others and area(first) >= CLEARLY_LARGER * area(others[0]):
            yield (category,), f"the largest {scene.names[category]}", first


def _color(scene: _Scene) -> Iterator[_Question]:
    pixels = read_picture(scene.path)
    for category in scene.single:
        box = clip_box(scene.boxes[category][0], *pixels.shape[1::-1])
        if box[0] == box[2] or box[1] == box[3]:
            continue  # it lies outside the picture, whatever size the file states
        x0, y0, x1, y1 = map(int, box)
        shares = color_chances(pixels[y0 : y1 + 1, x0 : x1 + 1])[1]
        if shares.max() >= CLEAR_COLOR:
            text = f"What color is the {scene.names[category]}?"
            yield (category,), text, COLORS[int(shares.argmax())]


_KINDS: Mapping[str, Callable[[_Scene], Iterator[_Question]]] = {
    "count": _count,
    "exists": _exists,
    "compare": _compare,
    "left": _left,
    "largest": _largest,
    "color": _color,
}

_PARTS = ("all", "rest", "held")


def _files(root: Path, split: str) -> list[SourceFile]:
    return [SourceFile(root, first_there(root, [*_LAYOUTS]), ORIGIN)]


def _read(sources: Sequence[SourceFile], split: str) -> Iterator[Sample]:
    part, _, kind = split.partition(":")
    coco, folder = CocoFile.read(sources[0]), _LAYOUTS[sources[0].name]
    names = {category: spoken[0] for category, spoken in coco.categories.items()}
    shown = {
        image: {thing.category for thing in coco.things.get(image, ())} for image in coco.pictures
    }
    together = Counter(pair for ids in shown.values() for pair in itertools.permutations(ids, 2))
    for image, picture in coco.pictures.items():
        if part != "all" and is_held_back(image) != (part == "held"):
            continue
        boxes: dict[int, list[PixelBox]] = defaultdict(list)
        for thing in sorted(coco.things.get(image, ()), key=lambda each: each.category):
            if thing.category not in picture.incomplete:
                boxes[thing.category].append(thing.box)
        score = {c: sum(together[c, each] for each in boxes) for c in names}
        unseen = names.keys() - shown[image] - {*picture.incomplete}
        unseen &= names.keys() if picture.absent is None else {*picture.absent}
        absent = sorted((c for c in unseen if score[c]), key=lambda c: (-score[c], c))
        scene = _Scene(image, sources[0].root / folder / picture.file, boxes, names, absent)
        for name, questions in _KINDS.items():
            asked = name == kind or (not kind and name != "color")
            for categories, text, target in questions(scene) if asked else ():
                yield of_files(
                    sources[0].root,
                    [f"{folder}/{picture.file}"],
                    sample_id="-".join(map(str, (image, name, *categories))),
                    text=text,
                    task="ground" if name == "largest" else "question",
                    target=target,
                    groups={"query_type": name},
                    cluster=str(image),
                )


COCO = OfficialSet(
    "coco",
    (*_PARTS, *(f"{part}:{kind}" for part in _PARTS for kind in _KINDS)),
    "mixed",
    "questions about photographs, generated from COCO's boxes",
    PICTURES,
    _files,
    _read,
)
