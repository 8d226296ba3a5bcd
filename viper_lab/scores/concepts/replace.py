"""Measure how well the inpainter paints concepts: replace an object and judge the result.

Objects of scenes without the concept are replaced, through the tool that programs call, by the
concept alone or with an old word beside it. The judge is :mod:`.replace_judge`. Old phrases are
judged by the shipped matcher, as in :mod:`viper_lab.recipes.inpainter_score`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viper.models.media import media_from
from viper.models.vision.roles import Pixels
from viper.schema import PixelBox
from viper.tools.crops import object_crop
from viper.tools.toolbox import Toolbox
from viper_lab.scores.concepts.measurement import SEED_STRIDE, ToolAnswer, is_reserved, seen, whole
from viper_lab.scores.concepts.replace_judge import shipped_judge
from viper_lab.world.layout import sample_scene
from viper_lab.world.render import render_scene
from viper_lab.world.reserved import CONCEPTS, reserved_scene
from viper_lab.world.scene import Scene
from viper_lab.world.splits import combinations
from viper_lab.world.vocabulary import COLOURS, SHAPES

# Growth of the mask beyond the object, as a share of its longer side.
GROWTH = 0.15

# First scene with old words alone in a split.
_KNOWN_FIRST = 300_000_000


@dataclass(frozen=True)
class _Edit:
    """An object to replace.

    Attributes:
        pixels: uint8 [H, W, 3].
        box: of the object, pixels from the top-left corner.
        rng: source of the edit's other choices.
    """

    sample: str
    pixels: Pixels
    box: PixelBox
    rng: np.random.Generator


def about(toolbox: Toolbox, concept: str, *, split: str, count: int, seed: int) -> list[ToolAnswer]:
    """Return questions on a reserved concept, of two kinds per edit.

    ``replace``: was the concept painted? ``beside``: was the old word painted, which half of the
    prompts name beside it?
    """
    family = CONCEPTS[concept]
    scenes = (
        (f"replace:{split}:{concept}:{i}", reserved_scene(split, i, concept, present=False))
        for i in range(seed * SEED_STRIDE, (seed + 1) * SEED_STRIDE)
    )
    edits = _edits(scenes, count)
    prompts, olds = zip(*(_wording(concept, edit, i) for i, edit in enumerate(edits)), strict=True)
    pictures = [_paint(toolbox, edit, prompt) for edit, prompt in zip(edits, prompts, strict=True)]
    words = shipped_judge().words(_crops(edits, pictures))
    answers = [
        ToolAnswer("replace", concept, edit.sample, float(word == concept))
        for edit, word in zip(edits, words[family], strict=True)
    ]
    beside = "colour" if family == "shape" else "shape"
    return answers + [
        ToolAnswer("beside", concept, edit.sample, float(word == old))
        for edit, old, word in zip(edits, olds, words[beside], strict=True)
        if old
    ]


def about_old(
    toolbox: Toolbox, concepts: Sequence[str], *, split: str, count: int, seed: int
) -> list[ToolAnswer]:
    """Return replacements by old phrases, half of them in scenes with one of the concepts."""
    edits = _edits(_scenes(concepts, split, seed), count)
    pairs = list(combinations(split))
    phrases = [pairs[int(edit.rng.integers(len(pairs)))] for edit in edits]
    pictures = [
        _paint(toolbox, edit, f"the {colour} {shape}")
        for edit, (colour, shape) in zip(edits, phrases, strict=True)
    ]
    every = [(colour, shape) for colour in COLOURS for shape in SHAPES]
    with toolbox.models.using("matcher") as matcher:
        texts = matcher.encode_texts([" ".join(pair) for pair in every])
        embeddings = matcher.encode_images(_crops(edits, pictures))
    best = (embeddings @ texts.T).argmax(axis=1)
    return [
        ToolAnswer("replace", f"{pair[0]} {pair[1]}", edit.sample, float(every[chosen] == pair))
        for edit, pair, chosen in zip(edits, phrases, best, strict=True)
    ]


def _wording(concept: str, edit: _Edit, turn: int) -> tuple[str, str]:
    """Return the prompt, and the old word in it ("" if none)."""
    if turn % 2 == 0:
        return (f"the {concept}" if CONCEPTS[concept] == "shape" else f"the {concept} thing"), ""
    if CONCEPTS[concept] == "shape":
        old = COLOURS[int(edit.rng.integers(len(COLOURS)))]
        return f"the {old} {concept}", old
    old = SHAPES[int(edit.rng.integers(len(SHAPES)))]
    return f"the {concept} {old}", old


def _scenes(concepts: Sequence[str], split: str, seed: int) -> Iterator[tuple[str, Scene]]:
    """Yield alternately a scene of old words alone and one with a concept."""
    for i in range(seed * SEED_STRIDE, (seed + 1) * SEED_STRIDE):
        concept = concepts[i % len(concepts)]
        yield f"replace:{split}:known:{i}", sample_scene(split, _KNOWN_FIRST + i)
        yield f"replace:{split}:beside-{concept}:{i}", reserved_scene(split, i, concept)


def _edits(scenes: Iterator[tuple[str, Scene]], count: int) -> list[_Edit]:
    """Return ``count`` edits, each of one object of old words in a scene."""
    edits: list[_Edit] = []
    for sample, scene in scenes:
        if len(edits) == count:
            break
        still = render_scene(scene)
        rng = np.random.default_rng([scene.seed, 13])
        old = [int(i) for i in np.flatnonzero(seen(still)) if not is_reserved(scene.objects[i])]
        if old:
            box = still.box(old[int(rng.integers(len(old)))])
            edits.append(_Edit(sample, still.image, box, rng))
    return edits


def _paint(toolbox: Toolbox, edit: _Edit, prompt: str) -> Pixels:
    """Return the picture after the tool ``replace`` on the object's grown box."""
    session = toolbox.session(media_from(edit.pixels))
    height, width = edit.pixels.shape[:2]
    x0, y0, x1, y1 = edit.box
    by = GROWTH * max(x1 - x0, y1 - y0)
    box = (max(x0 - by, 0), max(y0 - by, 0), min(x1 + by, width), min(y1 + by, height))
    patches = [session.patch_ref("image0", box)]
    result: Any = session.call("replace", (whole(edit.pixels), patches, prompt), {}, None)
    return session.media.pixels(str(result.fields[0]))


def _crops(edits: Sequence[_Edit], pictures: Sequence[Pixels]) -> list[Pixels]:
    return [object_crop(picture, edit.box) for edit, picture in zip(edits, pictures, strict=True)]
