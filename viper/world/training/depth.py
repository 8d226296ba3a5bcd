"""The embedded depth model: a small Depth Anything that predicts metric depth.

Trained on the exact depth of rendered stills. Part of the loss looks at objects
only, each counting alike: the table fills most of a picture and would drown them,
and what stands raised or stacked is what a picture's height does not give away.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from viper.tools.crops import box_depth
from viper.tools.roles import DepthEstimator, Floats
from viper.world.training.grid_positions import grid_positions
from viper.world.training.object_views import ObjectViews
from viper.world.training.optim import Plan, TrainOptions, fit

if TYPE_CHECKING:
    from torch import Tensor

    from viper.world.stills import StillTruth

INPUT_HEIGHT, INPUT_WIDTH = 108, 144
PATCH, WIDTH, LAYERS = 12, 96, 4
MAX_DEPTH = 16.0
"""Farthest that the model can say, in table units; only the background lies beyond."""

STEPS, BATCH = 1500, 12
PAIR_GAP = 0.05
"""Pairs closer in depth than this, in table units, have no order worth asking for."""

OBJECT_THICKNESS = 0.8
"""Pixels of a box this near to the object's depth, in table units, are taken for the object."""


def train(options: TrainOptions) -> dict[str, float]:
    """Trains on rendered stills, writes the weights, and returns what they reach on validation."""
    import torch

    from viper.tools.depth_anything import DepthAnythingEstimator

    torch.manual_seed(options.seed)
    model = build_model().to(options.device, memory_format=torch.channels_last)
    views = ObjectViews.load("train", options.work)

    def loss_at(step: int) -> tuple[Tensor, Mapping[str, float]]:
        rng = np.random.default_rng((options.seed, step))
        images, depths, weights = _batch(views, rng, options.device)
        predicted = model(pixel_values=images).predicted_depth
        difference = (predicted.clamp(min=0.1).log() - depths.log()).abs()
        everywhere = difference.mean()
        objects = (difference * weights).sum() / weights.sum().clamp(min=1e-6)
        loss = 5 * everywhere + 10 * objects
        return loss, {"everywhere": float(everywhere.detach()), "objects": float(objects.detach())}

    plan = Plan(steps=options.steps or STEPS, learning_rate=1e-3, weight_decay=0.05, ema=0.99)
    trained = fit(model, loss_at, plan, options.work / "depth" / "checkpoint.pt")
    save(trained, options.out)
    return evaluate(
        DepthAnythingEstimator.from_pretrained(options.out), ObjectViews.load("val", options.work)
    )


def evaluate(estimator: DepthEstimator, views: ObjectViews, limit: int = 300) -> dict[str, float]:
    """How often the model tells which of two objects is farther.

    ``order`` counts all pairs, ``order_hard`` those where the lower box is not the nearer
    object, ``lower_is_nearer`` what that rule alone would reach, ``relative_error`` the
    mean error of an object's depth as a share of it.

    Args:
        estimator: the model under test.
        views: scenes to look at, e.g. of the test split.
        limit: how many scenes at most.
    """
    right: list[bool] = []
    by_rule: list[bool] = []
    errors: list[float] = []
    for index in views.scenes(limit):
        truth = views.stills[index].object_depths
        boxes = views.stills[index].boxes
        depth = estimator.depth([views.stills.image(index)])[0]
        seen = [box_depth(depth, (x0, y0, x1, y1)) for x0, y0, x1, y1 in boxes.tolist()]
        errors.extend(abs(s - t) / t for s, t in zip(seen, truth, strict=True))
        for i, j in itertools.combinations(range(len(truth)), 2):
            if abs(truth[i] - truth[j]) < PAIR_GAP:
                continue
            farther = truth[i] > truth[j]
            right.append((seen[i] > seen[j]) == farther)
            by_rule.append((boxes[i][3] < boxes[j][3]) == farther)
    hard = [hit for hit, rule in zip(right, by_rule, strict=True) if not rule]
    return {
        "pairs": float(len(right)),
        "order": float(np.mean(right)),
        "order_hard": float(np.mean(hard)),
        "lower_is_nearer": float(np.mean(by_rule)),
        "relative_error": float(np.mean(errors)),
    }


def build_model() -> Any:
    """An untrained ``DepthAnythingForDepthEstimation`` on a small DINOv2 tower."""
    import torch
    from transformers import DepthAnythingConfig, DepthAnythingForDepthEstimation, Dinov2Config

    make_tower: Any = Dinov2Config
    tower = make_tower(
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=3,
        image_size=INPUT_WIDTH,
        patch_size=PATCH,
        out_indices=list(range(1, LAYERS + 1)),
        reshape_hidden_states=False,
        apply_layernorm=True,
        layerscale_value=0.5,
        initializer_range=0.04,
    )
    config = DepthAnythingConfig(
        backbone_config=tower,
        patch_size=PATCH,
        reassemble_hidden_size=WIDTH,
        reassemble_factors=[2, 1, 1, 0.5],
        neck_hidden_sizes=[24, 32, 48, 64],
        fusion_hidden_size=32,
        head_hidden_size=16,
        depth_estimation_type="metric",
        max_depth=int(MAX_DEPTH),
    )
    model: Any = DepthAnythingForDepthEstimation(config)
    for module in model.modules():
        if isinstance(module, torch.nn.Conv2d | torch.nn.ConvTranspose2d):
            torch.nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    torch.nn.init.normal_(model.head.conv3.weight, std=0.05)
    torch.nn.init.constant_(model.head.conv3.bias, 0.0)
    side = INPUT_WIDTH // PATCH
    with torch.no_grad():
        positions = model.backbone.embeddings.position_embeddings
        positions[0, 1:] = 0.5 * grid_positions(side, side, WIDTH)
    return model


def save(model: Any, folder: Path) -> None:
    """Writes the folder that ``from_pretrained`` loads, in half precision."""
    import copy

    from transformers import DPTImageProcessor

    copy.deepcopy(model).half().save_pretrained(folder)
    DPTImageProcessor(
        size={"height": INPUT_HEIGHT, "width": INPUT_WIDTH},
        keep_aspect_ratio=False,
        ensure_multiple_of=PATCH,
        image_mean=[0.5, 0.5, 0.5],
        image_std=[0.5, 0.5, 0.5],
    ).save_pretrained(folder)


def _batch(
    views: ObjectViews, rng: np.random.Generator, device: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Pictures ``[B, 3, h, w]``, depths and object weights ``[B, h, w]``."""
    import torch
    from PIL import Image

    images, depths, weights = [], [], []
    for _ in range(BATCH):
        index = views.pick(rng).still
        picture = Image.fromarray(views.stills.image(index))
        small = np.asarray(picture.resize((INPUT_WIDTH, INPUT_HEIGHT), Image.Resampling.BICUBIC))
        whole = views.stills.depths([index])[0]
        depth, weight = _shrunk(whole), _shrunk(_object_weights(whole, views.stills[index]))
        step = -1 if rng.random() < 0.5 else 1
        images.append(small[:, ::step])
        depths.append(depth[:, ::step])
        weights.append(weight[:, ::step])
    pixels = torch.from_numpy(np.stack(images)).to(device).permute(0, 3, 1, 2)
    return (
        pixels.float() / 127.5 - 1.0,
        torch.from_numpy(np.stack(depths)).float().clamp(0.1, MAX_DEPTH).to(device),
        torch.from_numpy(np.stack(weights)).float().to(device),
    )


def _object_weights(depth: Any, truth: StillTruth) -> Floats:
    """Weights that sum to 1 over each object: what its box shows at about its depth."""
    weights = np.zeros(depth.shape, dtype=np.float32)
    for box, middle in zip(truth.boxes, truth.object_depths, strict=True):
        x0, y0, x1, y1 = (int(value) for value in box)
        inside = np.abs(depth[y0:y1, x0:x1] - middle) < OBJECT_THICKNESS
        weights[y0:y1, x0:x1] += inside / max(int(inside.sum()), 1)
    return weights


def _shrunk(array: Any) -> Floats:
    """The array at the model's input size, nearest pixels (depths must not blend at edges)."""
    height, width = array.shape
    rows = ((np.arange(INPUT_HEIGHT) + 0.5) * height / INPUT_HEIGHT).astype(int)
    columns = ((np.arange(INPUT_WIDTH) + 0.5) * width / INPUT_WIDTH).astype(int)
    return np.asarray(array[rows[:, None], columns[None, :]], dtype=np.float32)
