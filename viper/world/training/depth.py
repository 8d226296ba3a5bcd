"""The embedded depth model: a small Depth Anything that predicts metric depth.

Trained in two stages on the exact depth of rendered stills. First the tower alone,
with a linear head on its tokens that training only uses: an object on a stand is as
far away as the foot of its stand, and finding that takes many, therefore cheap,
steps. Then the whole model, on maps. Half of the loss looks at objects only, each
counting alike and those that do not stand on the table more: elsewhere the height
in the picture gives the depth away.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from viper.tools.crops import box_depth
from viper.tools.roles import DepthEstimator, Floats
from viper.world.render_shapes import half_height
from viper.world.training.grid_positions import grid_positions
from viper.world.training.object_views import ObjectViews
from viper.world.training.optim import Plan, TrainOptions, fit

if TYPE_CHECKING:
    from torch import Tensor

    from viper.world.stills import StillTruth

INPUT_HEIGHT, INPUT_WIDTH = 144, 192
PATCH, WIDTH, LAYERS = 12, 96, 4
MAX_DEPTH = 16.0
"""Farthest that the model can say, in table units; only the background lies beyond."""

TOKEN_STEPS, TOKEN_BATCH = 1800, 16
STEPS, BATCH = 400, 8

PAIR_GAP = 0.05
"""Pairs closer in depth than this, in table units, have no order worth asking for."""

OBJECT_THICKNESS = 0.8
"""Pixels of a box this near to the object's depth, in table units, are taken for the object."""

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
    head = torch.nn.Linear(WIDTH, 1)
    torch.nn.init.constant_(head.bias, 2.0)
    tower = torch.nn.ModuleDict({"backbone": model.backbone, "head": head}).to(options.device)
    _learn_tokens(tower, views, options, steps * TOKEN_STEPS // STEPS)
    trained = _learn_maps(model, views, options, steps)
    save(trained, options.out)
    return evaluate(
        DepthAnythingEstimator.from_pretrained(options.out), ObjectViews.load("val", options.work)
    )


def _learn_tokens(tower: Any, views: ObjectViews, options: TrainOptions, steps: int) -> None:
    """First stage: each token says the depth at the middle of its patch."""
    backbone, head = tower["backbone"], tower["head"]
    middle = slice(PATCH // 2, None, PATCH)

    def loss_at(step: int) -> tuple[Tensor, Mapping[str, float]]:
        rng = np.random.default_rng((options.seed, step))
        images, depths, weights = _batch(views, rng, TOKEN_BATCH, options.device)
        tokens = backbone(pixel_values=images).feature_maps[-1][:, 1:]
        said = head(tokens)[..., 0].unflatten(1, depths[:, middle, middle].shape[1:])
        return _loss(said, depths[:, middle, middle].log(), weights[:, middle, middle])

    plan = Plan(steps=steps, learning_rate=1e-3, weight_decay=0.05, ema=None)
    fit(tower, loss_at, plan, options.work / "depth" / "tokens.pt")


def _learn_maps(model: Any, views: ObjectViews, options: TrainOptions, steps: int) -> Any:
    """Second stage: the whole model says a map."""

    def loss_at(step: int) -> tuple[Tensor, Mapping[str, float]]:
        rng = np.random.default_rng((options.seed + 1, step))
        images, depths, weights = _batch(views, rng, BATCH, options.device)
        said = model(pixel_values=images).predicted_depth.clamp(min=0.1).log()
        return _loss(said, depths.log(), weights)

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


def _batch(
    views: ObjectViews, rng: np.random.Generator, count: int, device: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Pictures ``[B, 3, h, w]``, depths and object weights ``[B, h, w]``."""
    import torch
    from PIL import Image

    images, depths, weights = [], [], []
    for _ in range(count):
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
    """Weights that sum to the object's importance over what its box shows at about its depth."""
    weights = np.zeros(depth.shape, dtype=np.float32)
    facts = zip(truth.scene.objects, truth.boxes, truth.object_depths, strict=True)
    for thing, box, middle in facts:
        x0, y0, x1, y1 = (int(value) for value in box)
        inside = np.abs(depth[y0:y1, x0:x1] - middle) < OBJECT_THICKNESS
        gap = thing.position[2] - half_height(thing.shape, thing.size)
        importance = RAISED_WEIGHT if gap > 0.1 else 1.0
        weights[y0:y1, x0:x1] += importance * inside / max(int(inside.sum()), 1)
    return weights


def _shrunk(array: Any) -> Floats:
    """The array at the model's input size, nearest pixels (depths must not blend at edges)."""
    height, width = array.shape
    rows = ((np.arange(INPUT_HEIGHT) + 0.5) * height / INPUT_HEIGHT).astype(int)
    columns = ((np.arange(INPUT_WIDTH) + 0.5) * width / INPUT_WIDTH).astype(int)
    return np.asarray(array[rows[:, None], columns[None, :]], dtype=np.float32)
