"""Train the video model to name objects from crops."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from viper.embedded.video_events_model import CROP
from viper_lab.recipes.optim import FitOptions, fit
from viper_lab.world.clips import render_frames, sample_clip
from viper_lab.world.scene import CLIP_FRAMES, CLIP_HEIGHT, CLIP_WIDTH
from viper_lab.world.vocabulary import COLOURS, SHAPES

STEPS, BATCH = 1500, 64
CLIPS, FRAMES_A_CLIP, EMPTY_A_CLIP = 1500, 3, 1
# Side of a stored cut-out in pixels, larger than a crop so that its centre can move.
WINDOW = 56

# Standard deviation, in pixels, of a crop's centre.
JITTER = 2.0

# Share of crops in colours without a name. They teach shapes only: the model must not guess a shape
# from its colour, because some pairs never occur in training.
RECOLOURED = 0.5

UNKNOWN = -100
MIN_SIDE = 5
# Index of the first clip used here, after those that teach events.
FIRST_CLIP = 1_000_000


@dataclass(frozen=True)
class Cutouts:
    """Cut-outs uint8 [N, WINDOW, WINDOW, 3] around objects, their colour and shape ids [N].

    Around an empty place both ids are one past the last.
    """

    pixels: NDArray[np.uint8]
    colours: NDArray[np.int64]
    shapes: NDArray[np.int64]


def learn_looks(model: Any, work: Path, seed: int) -> Any:
    """Train only the crop tower of the model and return the model."""
    data = stored_cutouts(work / "cutouts.npz")
    device = next(model.parameters()).device

    def loss_at(step: int) -> tuple[Tensor, Mapping[str, float]]:
        rng = np.random.default_rng((seed, 5, step))
        rows = rng.integers(len(data.pixels), size=BATCH)
        crops = np.stack([varied_crop(data.pixels[row], rng) for row in rows])
        strange = rng.random(BATCH) < RECOLOURED
        crops[strange] = [recoloured(crop, rng) for crop in crops[strange]]
        outputs = model.looks(torch.from_numpy(crops).to(device))
        colours = np.where(strange, UNKNOWN, data.colours[rows])
        targets = [torch.from_numpy(ids).to(device) for ids in (colours, data.shapes[rows])]
        pairs = list(zip(outputs, targets, strict=True))
        nll = torch.nn.functional.nll_loss
        losses = [nll(guess, truth, ignore_index=UNKNOWN) for guess, truth in pairs]
        right = [float((g.argmax(-1) == t)[t != UNKNOWN].float().mean()) for g, t in pairs]
        return losses[0] + losses[1], {"colour": right[0], "shape": right[1]}

    plan = FitOptions(steps=STEPS, learning_rate=2e-3, warmup=40, ema=None, log_every=100)
    return fit(model, loss_at, plan, work / "looks.pt")


def stored_cutouts(path: Path, report: Callable[[str], None] = print) -> Cutouts:
    """Read the training cut-outs from the file, or render and store them."""
    if not path.exists():
        parts = []
        for index in range(CLIPS):
            parts.append(cutouts(index))
            if index % 300 == 0:
                report(f"cut objects out of {index} of {CLIPS} clips")
        joined = [np.concatenate(column) for column in zip(*parts, strict=True)]
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, pixels=joined[0], colours=joined[1], shapes=joined[2])
    with np.load(path) as stored:
        return Cutouts(stored["pixels"], stored["colours"], stored["shapes"])


def cutouts(index: int) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Return cut-outs, colour ids and shape ids from a few frames of one clip."""
    rng = np.random.default_rng((index, 11))
    clip = sample_clip("train", FIRST_CLIP + index)
    numbers = np.sort(rng.choice(CLIP_FRAMES, FRAMES_A_CLIP, replace=False))
    frames, boxes = render_frames(clip, numbers)
    pixels, colours, shapes = [], [], []
    for image, here in zip(frames, boxes, strict=True):
        sides = np.minimum(here[:, 2] - here[:, 0], here[:, 3] - here[:, 1])
        middles = (here[:, :2] + here[:, 2:]) / 2
        for i in np.flatnonzero(sides >= MIN_SIDE):
            pixels.append(_window(image, middles[i, 0], middles[i, 1]))
            colours.append(COLOURS.index(clip.objects[i].colour))
            shapes.append(SHAPES.index(clip.objects[i].shape))
        for _ in range(EMPTY_A_CLIP):
            x, y = rng.uniform(0, CLIP_WIDTH), rng.uniform(0, CLIP_HEIGHT)
            if not (np.hypot(middles[:, 0] - x, middles[:, 1] - y) < 20).any():
                pixels.append(_window(image, x, y))
                colours.append(len(COLOURS))
                shapes.append(len(SHAPES))
    return np.stack(pixels), np.array(colours), np.array(shapes)


def _window(image: NDArray[np.uint8], x: float, y: float) -> NDArray[np.uint8]:
    offsets = np.arange(WINDOW) - WINDOW // 2
    rows = np.clip(int(y) + offsets, 0, image.shape[0] - 1)
    return image[rows][:, np.clip(int(x) + offsets, 0, image.shape[1] - 1)]


def varied_crop(window: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Crop a cut-out with random offset, mirroring, brightness and compression."""
    from PIL import Image

    room = (WINDOW - CROP) // 2
    left, top = np.clip(np.round(rng.normal(0, JITTER, 2)), -room, room).astype(int) + room
    if rng.random() < 0.7:
        file = io.BytesIO()
        Image.fromarray(window).save(file, "JPEG", quality=int(rng.integers(25, 95)))
        window = np.asarray(Image.open(file))
    crop = window[top : top + CROP, left : left + CROP]
    levels = np.arange(256) * rng.uniform(0.9, 1.1) + rng.uniform(-8, 8)
    light = np.clip(levels, 0, 255).astype(np.uint8)
    return light[crop if rng.random() < 0.5 else crop[:, ::-1]]


def recoloured(crop: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Mix the colour channels of a crop at random."""
    mix = rng.dirichlet(np.full(3, 0.6), 3).T
    return np.asarray(crop @ mix, np.uint8)
