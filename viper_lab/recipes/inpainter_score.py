"""Scores of an inpainter that replaces objects, judged by the shipped matcher and detector.

The same judges also score the pictures before the edit and the renderer's version of the edited
scene, which shows how reliable they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from viper.embedded import WEIGHTS
from viper.models.vision.detector_owlv2 import Owlv2Detector
from viper.models.vision.matcher_open_clip import OpenClipMatcher
from viper.models.vision.roles import Detector, Inpainter, Mask, Matcher, Pixels
from viper.schema import PixelBox
from viper.tools.crops import object_crop
from viper_lab.recipes.detector_score import HIT_IOU, iou
from viper_lab.recipes.inpainter_batches import boxed, dilated
from viper_lab.recipes.object_words import FAMILIES, attributes
from viper_lab.world.edited_scene import other_looks, with_looks
from viper_lab.world.layout import sample_scene
from viper_lab.world.render import render_scene
from viper_lab.world.scene import SceneObject
from viper_lab.world.vocabulary import COLOURS, MATERIALS, SHAPES

# Growth of masks beyond the object: a share of a box's longer side, pixels of an outline.
BOX_GROWTH, OUTLINE_GROWTH = 0.15, 3

# Share of the requested object that must be visible in the rendered scene.
MIN_VISIBLE = 0.5

JUDGED = ("colour", "material", "shape")


@dataclass(frozen=True)
class Replacement:
    """One edit to make.

    Attributes:
        pixels: uint8 [H, W, 3], before.
        mask: bool [H, W], alternately the object's grown box and its grown outline.
        box: of the object, pixels from the top-left corner.
        old: the object before.
        target: the requested object, of another colour and another shape.
        rendered: uint8 [H, W, 3], the scene with the requested object, and its ``rendered_box``.
    """

    pixels: Pixels
    mask: Mask
    box: PixelBox
    old: SceneObject
    target: SceneObject
    rendered: Pixels
    rendered_box: PixelBox

    @property
    def prompt(self) -> str:
        return f"a {self.target.colour} {self.target.material} {self.target.shape}"


def replacements(count: int, split: str = "val", first: int = 0) -> Iterator[Replacement]:
    """Yield ``count`` edits of different scenes; the same arguments give the same edits."""
    index, number = first, 0
    while number < count:
        replacement = _replacement(split, index, outlined=number % 2 == 1)
        index += 1
        if replacement is not None:
            number += 1
            yield replacement


def evaluate(inpainter: Inpainter, count: int) -> dict[str, float]:
    """Return shares of validation edits that the judges accept.

    See :func:`judge`; ``_box`` and ``_outline`` cover masks of that kind, names that begin with
    ``unedited`` or ``rendered`` cover pictures without inpainting. ``unchanged`` is the share of
    edits that keep every pixel outside the mask.
    """
    requests = list(replacements(count))
    edited = edits(inpainter, requests)
    matcher = OpenClipMatcher.from_pretrained(WEIGHTS / "matcher")
    detector = Owlv2Detector.from_pretrained(WEIGHTS / "detector")
    pictures = {
        "": (edited, [each.box for each in requests]),
        "unedited_": ([each.pixels for each in requests], [each.box for each in requests]),
        "rendered_": (
            [each.rendered for each in requests],
            [each.rendered_box for each in requests],
        ),
    }
    figures = {"n": float(len(requests))}
    for prefix, (pixels, boxes) in pictures.items():
        verdicts = judge(matcher, detector, requests, pixels, boxes)
        figures |= {prefix + name: float(np.mean(right)) for name, right in verdicts.items()}
        if not prefix:
            for kind, rows in (("box", slice(0, None, 2)), ("outline", slice(1, None, 2))):
                right = verdicts["pair"][rows]
                figures |= {f"pair_{kind}": float(np.mean(right))} if right else {}
    untouched = [
        np.array_equal(after[~each.mask], each.pixels[~each.mask])
        for after, each in zip(edited, requests, strict=True)
    ]
    return figures | {"unchanged": float(np.mean(untouched))}


def edits(inpainter: Inpainter, requests: Sequence[Replacement]) -> list[Pixels]:
    """Return the pictures after the edits; the index of each edit is its seed."""
    return [
        inpainter.inpaint(each.pixels, each.mask, each.prompt, seed)
        for seed, each in enumerate(requests)
    ]


def judge(
    matcher: Matcher,
    detector: Detector,
    requests: Sequence[Replacement],
    pictures: Sequence[Pixels],
    boxes: Sequence[PixelBox],
) -> dict[str, list[bool]]:
    """Judge whether each picture shows the requested object in its box.

    Returns:
        For the matcher: ``colour``, ``material``, ``shape`` (the requested word beats all others of
        its family), ``pair`` (the requested colour and shape beat all other pairs), ``over_old``
        (they beat the old pair). For the detector: ``found`` (a box of the requested pair, above
        its default threshold, on the object's box).
    """
    seen = matcher.encode_images(
        [object_crop(image, box) for image, box in zip(pictures, boxes, strict=True)]
    )
    verdicts: dict[str, list[bool]] = {}
    for family in JUDGED:
        chosen = (seen @ matcher.encode_texts(FAMILIES[family]).T).argmax(axis=1)
        verdicts[family] = [
            FAMILIES[family][word] == attributes(each.target)[family]
            for word, each in zip(chosen, requests, strict=True)
        ]
    pairs = [(colour, shape) for colour in COLOURS for shape in SHAPES]
    scores = seen @ matcher.encode_texts([" ".join(pair) for pair in pairs]).T
    targets = [pairs.index((each.target.colour, each.target.shape)) for each in requests]
    old = [pairs.index((each.old.colour, each.old.shape)) for each in requests]
    rows = np.arange(len(requests))
    verdicts["pair"] = (scores.argmax(axis=1) == targets).tolist()
    verdicts["over_old"] = (scores[rows, targets] > scores[rows, old]).tolist()
    verdicts["found"] = [
        _finds(detector, image, each.target, box)
        for image, each, box in zip(pictures, requests, boxes, strict=True)
    ]
    return verdicts


def sheet(requests: Sequence[Replacement], edited: Sequence[Pixels], columns: int = 4) -> Pixels:
    """Return an overview, uint8 [H, W, 3]: each edit before, masked, after and rendered."""
    rows = []
    for each, after in zip(requests, edited, strict=True):
        masked = np.where(each.mask[..., None], np.uint8(128), each.pixels)
        rows.append(np.concatenate([each.pixels, masked, after, each.rendered], axis=1))
    blank = np.full_like(rows[0], 255)
    rows += [blank] * (-len(rows) % columns)
    lines = [np.concatenate(rows[i : i + columns], axis=1) for i in range(0, len(rows), columns)]
    return np.concatenate(lines, axis=0)


def _finds(detector: Detector, image: Pixels, thing: SceneObject, box: PixelBox) -> bool:
    phrase = f"{thing.colour} {thing.shape}"
    (detections,) = detector.detect(detector.encode([image])[0], [phrase])
    least = getattr(detector, "default_threshold", 0.0)
    target = np.asarray([box], np.float32)
    return any(
        detection.score >= least
        and float(iou(np.asarray(detection.box, np.float32), target)[0]) >= HIT_IOU
        for detection in detections
    )


def _replacement(split: str, index: int, outlined: bool) -> Replacement | None:
    """Return an edit of one scene, or None if the requested object would hardly be visible."""
    scene = sample_scene(split, index)
    rng = np.random.default_rng([scene.seed, 9])
    which = int(rng.integers(len(scene.objects)))
    old = scene.objects[which]
    changed = with_looks(scene, [which], _other_looks(old, split, rng))
    before = render_scene(scene)
    after = render_scene(changed)
    if after.visible[which] < MIN_VISIBLE:
        return None
    box, target = before.box(which), changed.objects[which]
    mask = dilated(before.masks[which], OUTLINE_GROWTH)
    if not outlined:
        height, width = before.image.shape[:2]
        mask = boxed(box, (height, width), BOX_GROWTH)
    return Replacement(before.image, mask, box, old, target, after.image, after.box(which))


def _other_looks(old: SceneObject, split: str, rng: np.random.Generator) -> dict[str, str]:
    """Draw another colour and shape than the object's, and any material."""
    fitting = other_looks(old, split)
    colour, shape = fitting[int(rng.integers(len(fitting)))]
    material = MATERIALS[int(rng.integers(len(MATERIALS)))]
    return {"colour": colour, "shape": shape, "material": material}
