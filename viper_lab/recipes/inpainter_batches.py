"""Training examples of the embedded inpainter: squares of stills, a mask, and a prompt.

A mask must not reveal the shape; otherwise a ball painted into a cube's outline would become a
cube. So most masks are boxes, and half of the outlines are merged with that of another object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from viper.models.vision.inpainter_diffusers import resize_mask, resize_square, window_around
from viper.models.vision.roles import Mask, Pixels
from viper.schema import PixelBox
from viper.tools.crops import clip_box
from viper_lab.recipes.object_views import ObjectView, ObjectViews
from viper_lab.recipes.object_words import GENERAL_NOUNS, attributes, phrase, some_attributes
from viper_lab.world.scene import SceneObject

# Shares of examples that mask bare table and an outline; the rest mask a box.
BARE, OUTLINED = 0.1, 0.35

# Share of prompts that name colour, material and shape.
FULL_PHRASE = 0.5

FRAMES = ("{}", "a {}", "the {}")
# Prompt for bare table.
NOTHING = ("nothing", "the bare table")

# Least number of pixels by which a masked box exceeds its object.
LEAST_GROWTH = 1.5

# Largest distance from the object's depth, in table units, for a pixel of its box to belong to it.
OBJECT_THICKNESS = 0.8


@dataclass(frozen=True)
class InpaintExample:
    """One training example.

    Attributes:
        square: uint8 [S, S, 3], the target.
        mask: bool [S, S], hidden from the model.
        prompt: content of the masked area.
    """

    square: Pixels
    mask: Mask
    prompt: str


def draw_example(views: ObjectViews, rng: np.random.Generator, side: int) -> InpaintExample:
    """Draw a random object or bare place of a random still, masked; mirror it half the time."""
    view = views.pick(rng)
    kind = rng.random()
    mask, named = None, prompt_for(view.thing, rng)
    prompt = named
    if kind < BARE:
        mask, prompt = _bare_place(views, view, rng), str(rng.choice(NOTHING))
    elif kind < BARE + OUTLINED:
        mask = _draw_outline(views, view, rng)
    if mask is None or not mask.any():
        mask, prompt = boxed(view.box, _shape(views, view), rng.uniform(0, 0.25)), named
    window = window_around(mask, side // 2)
    square = resize_square(window.cut(views.image(view)), side)
    masked = resize_mask(window.cut(mask), side)
    if rng.random() < 0.5:
        square, masked = square[:, ::-1], masked[:, ::-1]
    return InpaintExample(square, masked, prompt)


def prompt_for(thing: SceneObject, rng: np.random.Generator) -> str:
    """Describe the object as a person would request it, without naming every attribute."""
    if rng.random() < FULL_PHRASE:
        words = attributes(thing)
        del words["size"]
    else:
        words = some_attributes(thing, rng)
    frame = FRAMES[int(rng.integers(len(FRAMES)))]
    return frame.format(phrase(words, str(rng.choice(GENERAL_NOUNS))))


def boxed(box: PixelBox, shape: tuple[int, int], growth: float) -> Mask:
    """Return a mask bool ``[H, W]`` of a box, grown on each side by a share of its longer side."""
    x0, y0, x1, y1 = box
    by = max(growth * max(x1 - x0, y1 - y0), LEAST_GROWTH)
    left, top, right, bottom = clip_box((x0 - by, y0 - by, x1 + by, y1 + by), shape[1], shape[0])
    mask = np.zeros(shape, bool)
    mask[int(top) : int(np.ceil(bottom)), int(left) : int(np.ceil(right))] = True
    return mask


def dilated(mask: Mask, pixels: int) -> Mask:
    """Return the mask grown by ``pixels`` in every direction, ``bool [H, W]``."""
    from scipy.ndimage import binary_dilation

    return np.asarray(binary_dilation(mask, iterations=pixels)) if pixels else mask


def tensors(examples: Sequence[InpaintExample], device: str) -> tuple[Tensor, Tensor]:
    """Return squares, float [B, 3, S, S] in [-1, 1], and masks, float [B, 1, S, S]."""
    squares = torch.from_numpy(np.stack([example.square for example in examples])).to(device)
    masks = torch.from_numpy(np.stack([example.mask for example in examples])).to(device)
    return squares.permute(0, 3, 1, 2).float() / 127.5 - 1, masks[:, None].float()


def _shape(views: ObjectViews, view: ObjectView) -> tuple[int, int]:
    height, width = views.image(view).shape[:2]
    return height, width


def _outline(views: ObjectViews, view: ObjectView) -> Mask:
    """Return about the object's visible pixels: those of its box at about its depth."""
    still = views.stills[view.still]
    depth = np.asarray(still.depth, np.float32)
    own = still.object_depths[still.scene.objects.index(view.thing)]
    inside = boxed(view.box, (depth.shape[0], depth.shape[1]), 0)
    return inside & (np.abs(depth - own) < OBJECT_THICKNESS)


def _draw_outline(views: ObjectViews, view: ObjectView, rng: np.random.Generator) -> Mask:
    """Return the object's grown outline; half the time merged with another object's outline."""
    mask = _outline(views, view)
    if rng.random() < 0.5:
        mask = mask | _move(_outline(views, other := views.pick(rng)), other.box, view.box)
    return dilated(mask, int(rng.integers(2, 7)))


def _move(outline: Mask, box: PixelBox, target: PixelBox) -> Mask:
    """Return the content of a mask in one box, stretched to another box of the same picture."""
    from PIL import Image

    height, width = outline.shape
    x0, y0, x1, y1 = (round(edge) for edge in clip_box(target, width, height))
    stretched = Image.fromarray(outline.astype(np.uint8) * 255).resize(
        (max(x1 - x0, 1), max(y1 - y0, 1)), Image.Resampling.NEAREST, box=box
    )
    moved = np.zeros_like(outline)
    part = np.asarray(stretched) > 0
    moved[y0 : y0 + len(part), x0 : x0 + part.shape[1]] = part[: height - y0, : width - x0]
    return moved


def _bare_place(views: ObjectViews, view: ObjectView, rng: np.random.Generator) -> Mask | None:
    """Return a box of an object's size on bare table, or None if a few tries fail."""
    shape = height, width = _shape(views, view)
    across, down = view.box[2] - view.box[0], view.box[3] - view.box[1]
    boxes = views.stills[view.still].boxes
    for _ in range(8):
        x0 = float(rng.uniform(0, max(width - across, 1)))
        y0 = float(rng.uniform(0.3 * height, max(height - down, 0.3 * height + 1)))
        box = (x0, y0, x0 + across, y0 + down)
        apart = (
            (boxes[:, 2] < box[0])
            | (boxes[:, 0] > box[2])
            | (boxes[:, 3] < box[1])
            | (boxes[:, 1] > box[3])
        )
        if apart.all():
            return boxed(box, shape, 0)
    return None
