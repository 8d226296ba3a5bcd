"""The embedded depth model: a small Depth Anything that predicts metric depth.

Trained in two stages on the exact depth of rendered stills. First the tower alone,
with a linear head on its tokens that training only uses: an object on a stand is as
far away as the foot of its stand, and finding that takes many, therefore cheap,
steps. The head also says where the foot is, which is the easier lesson. Then the
whole model, on maps. Half of the loss looks at objects only, each
counting alike and those that do not stand on the table more: elsewhere the height
in the picture gives the depth away.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from viper.tools.crops import box_depth
from viper.tools.roles import DepthEstimator, Floats
from viper.world.render_camera import Camera
from viper.world.render_shapes import half_height
from viper.world.scene import IMAGE_HEIGHT, IMAGE_WIDTH
from viper.world.training.grid_positions import grid_positions
from viper.world.training.object_views import ObjectViews
from viper.world.training.optim import Plan, TrainOptions, fit

if TYPE_CHECKING:
    from torch import Tensor

    from viper.world.stills import StillTruth

INPUT_HEIGHT, INPUT_WIDTH = IMAGE_HEIGHT, IMAGE_WIDTH
PATCH, WIDTH, LAYERS = 12, 96, 4
MAX_DEPTH = 16.0
"""Farthest that the model can say, in table units; only the background lies beyond."""

TOKEN_STEPS, TOKEN_BATCH = 5000, 12
STEPS, BATCH = 500, 8

PAIR_GAP = 0.05
"""Pairs closer in depth than this, in table units, have no order worth asking for."""

OBJECT_THICKNESS = 0.8
"""Pixels of a box this near to the object's depth, in table units, are taken for the object."""

FOOT_UNIT = 100.0
"""Pixels; about so many change an object's log depth by 1."""

RAISED_WEIGHT = 2.5
"""How much more an object counts that does not stand on the table itself."""


def train(options: TrainOptions) -> dict[str, float]:
    """Trains on rendered stills, writes the weights, and returns what they reach on validation.

    ``options.steps`` counts the steps of the second stage; the first takes
    ``TOKEN_STEPS / STEPS`` times as many.
    """
    import torch

    from viper.tools.depth_anything import DepthAnythingEstimator

    torch.manual_seed(options.seed)
    views = ObjectViews.load("train", options.work)
    steps = options.steps or STEPS
    model = build_model().to(options.device, memory_format=torch.channels_last)
    head = torch.nn.Linear(WIDTH, 3)
    with torch.no_grad():
        head.bias.copy_(torch.tensor([2.0, 0.0, 0.0]))
    tower = torch.nn.ModuleDict({"backbone": model.backbone, "head": head}).to(options.device)
    _learn_tokens(tower, views, options, steps * TOKEN_STEPS // STEPS)
    trained = _learn_maps(model, views, options, steps)
    save(trained, options.out)
    return evaluate(
        DepthAnythingEstimator.from_pretrained(options.out), ObjectViews.load("val", options.work)
    )


def _learn_tokens(tower: Any, views: ObjectViews, options: TrainOptions, steps: int) -> None:
    """First stage: a token says the depth at the middle of its patch, and where the foot is."""
    backbone, head = tower["backbone"], tower["head"]
    middle = slice(PATCH // 2, None, PATCH)

    def loss_at(step: int) -> tuple[Tensor, Mapping[str, float]]:
        rng = np.random.default_rng((options.seed, step))
        batch = _batch(views, rng, TOKEN_BATCH, options.device)
        depths, weights, feet = (part[:, middle, middle] for part in batch[1:])
        tokens = backbone(pixel_values=batch.images).feature_maps[-1][:, 1:]
        said = head(tokens).unflatten(1, depths.shape[1:])
        loss, figures = _loss(said[..., 0], depths.log(), weights)
        missed = (said[..., 1:] - feet).abs().sum(dim=-1)
        astray = (missed * weights).sum() / weights.sum().clamp(min=1e-6)
        return loss + 2 * astray, {**figures, "feet": float(astray.detach())}

    plan = Plan(steps=steps, learning_rate=1e-3, weight_decay=0.05, ema=None)
    fit(tower, loss_at, plan, options.work / "depth" / "tokens.pt")


def _learn_maps(model: Any, views: ObjectViews, options: TrainOptions, steps: int) -> Any:
    """Second stage: the whole model says a map."""

    def loss_at(step: int) -> tuple[Tensor, Mapping[str, float]]:
        rng = np.random.default_rng((options.seed + 1, step))
        batch = _batch(views, rng, BATCH, options.device)
        said = model(pixel_values=batch.images).predicted_depth.clamp(min=0.1).log()
        return _loss(said, batch.depths.log(), batch.weights)

    plan = Plan(steps=steps, learning_rate=6e-4, weight_decay=0.05, ema=0.98)
    return fit(model, loss_at, plan, options.work / "depth" / "checkpoint.pt")


def _loss(said: Tensor, truth: Tensor, weights: Tensor) -> tuple[Tensor, Mapping[str, float]]:
    """Error of log depth, everywhere and on objects; all arguments ``[B, h, w]``."""
    difference = (said - truth).abs()
    everywhere = difference.mean()
    objects = (difference * weights).sum() / weights.sum().clamp(min=1e-6)
    figures = {"everywhere": float(everywhere.detach()), "objects": float(objects.detach())}
    return everywhere + 4 * objects, figures


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
        head_hidden_size=8,
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


class _Batch(NamedTuple):
    """Pictures with what is to be learned about their pixels.

    Attributes:
        images: [B, 3, h, w] in [-1, 1].
        depths: [B, h, w], table units.
        weights: [B, h, w], how much a pixel counts as part of its object.
        feet: [B, h, w, 2], way from an object's pixel to where it stands, (x, y) in
            :data:`FOOT_UNIT` pixels; 0 elsewhere.
    """

    images: Tensor
    depths: Tensor
    weights: Tensor
    feet: Tensor


def _batch(views: ObjectViews, rng: np.random.Generator, count: int, device: str) -> _Batch:
    import torch

    rows = []
    for _ in range(count):
        index = views.pick(rng).still
        depth = views.stills.depths([index])[0].astype(np.float32)
        row = [views.stills.image(index), depth, *_object_maps(depth, views.stills[index])]
        if rng.random() < 0.5:
            row = [array[:, ::-1] for array in row]
            row[3] = row[3] * np.array([-1, 1], np.float32)
        rows.append(row)
    images, depths, weights, feet = (
        torch.from_numpy(np.stack(arrays)).to(device) for arrays in zip(*rows, strict=True)
    )
    pixels = images.permute(0, 3, 1, 2).float() / 127.5 - 1.0
    return _Batch(pixels, depths.clamp(0.1, MAX_DEPTH), weights, feet)


def _object_maps(depth: Floats, truth: StillTruth) -> tuple[Floats, Floats]:
    """Weights ``[H, W]`` that sum to each object's importance, and ways to its foot ``[H, W, 2]``.

    An object's pixels are what its box shows at about its depth.
    """
    height, width = depth.shape
    weights = np.zeros((height, width), dtype=np.float32)
    feet = np.zeros((height, width, 2), dtype=np.float32)
    places = np.array([thing.position for thing in truth.scene.objects]) * (1, 1, 0)
    stands = Camera.for_scene(truth.scene).project(places, width, height)[:, :2]
    facts = zip(truth.scene.objects, truth.boxes, truth.object_depths, stands, strict=True)
    for thing, box, middle, stand in facts:
        x0, y0, x1, y1 = (int(value) for value in box)
        inside = np.abs(depth[y0:y1, x0:x1] - middle) < OBJECT_THICKNESS
        gap = thing.position[2] - half_height(thing.shape, thing.size)
        importance = RAISED_WEIGHT if gap > 0.1 else 1.0
        weights[y0:y1, x0:x1] += importance * inside / max(int(inside.sum()), 1)
        columns, rows = np.meshgrid(np.arange(x0, x1), np.arange(y0, y1))
        feet[y0:y1, x0:x1][inside] = (stand - np.stack([columns, rows], axis=-1))[inside]
    return weights, feet / FOOT_UNIT
