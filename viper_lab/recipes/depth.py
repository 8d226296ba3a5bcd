"""The embedded depth model: a small Depth Anything that predicts metric depth.

Training on the exact depth of rendered stills has two stages and starts from the detector's image
tower. The first stage trains the tower alone, with a linear head on its tokens that only training
uses. An object on a stand is as far away as the foot of its stand. Learning that takes many steps,
which are cheap in this stage. The head also predicts the foot, which is easier to learn. The second
stage trains neck and head on maps. Most of the loss is about objects. Each counts alike, and
objects that do not stand on the table count more, because elsewhere the height in the picture
reveals the depth. Of the maps, the deepest features are read at full resolution, because an object
is hardly larger than a patch.

The detector already knows the outline and the class of an object, and both determine its depth. Its
tower and a DINOv2 tower are the same transformer except for one layer norm before the first block.
That norm is folded into the patch embedding with the mean spread of real tokens. A few training
steps make up for the small difference.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.functional import avg_pool2d

from viper.embedded import WEIGHTS
from viper.models.vision.depth import DepthMaps
from viper.models.vision.roles import DepthEstimator, Floats
from viper.tools.crops import box_depth
from viper_lab.recipes.detector_batches import IMAGE_MEAN, IMAGE_STD
from viper_lab.recipes.object_views import ObjectViews, normalised
from viper_lab.recipes.optim import FitOptions, TrainOptions, fit, save_half
from viper_lab.world.render_camera import Camera
from viper_lab.world.render_shapes import half_height
from viper_lab.world.scene import IMAGE_HEIGHT, IMAGE_WIDTH
from viper_lab.world.stills import StillTruth

# Trained detector whose image tower is reused.
DETECTOR = WEIGHTS / "detector"

TOKEN_STEPS, TOKEN_BATCH = 5500, 16
STEPS, BATCH = 1500, 8

# Ratio of depths below which a pair counts as ``order_close``. It is the widest margin, on
# validation, at which "the lower box is nearer" is right for at most 85% of the pairs.
PAIR_RATIO = 1.03

# Smallest difference of depth, in table units, at which the order of a pair is asked for.
PAIR_GAP = 0.05

# Largest distance from the object's depth, in table units, for a pixel of its box to belong to it.
OBJECT_THICKNESS = 0.8

# Number of pixels that change an object's log depth by about 1.
FOOT_UNIT = 100.0

# Weight of an object that does not stand on the table itself.
RAISED_WEIGHT = 2.5


def train(options: TrainOptions) -> dict[str, float]:
    """Train on rendered stills, write the weights, and return the validation figures.

    ``options.steps`` counts the steps of the second stage; the first takes ``TOKEN_STEPS / STEPS``
    times as many.
    """
    torch.manual_seed(options.seed)
    views = ObjectViews.load("train", options.work)
    steps = options.steps or STEPS
    model = build_model()
    few = torch.from_numpy(np.stack([views.stills.image(i) for i in views.scenes(32)]))
    start_from_detector(model, detector_tower(DETECTOR), normalised(few, IMAGE_MEAN, IMAGE_STD))
    model.to(options.device, memory_format=torch.channels_last)
    head = torch.nn.Linear(WIDTH, 3)
    with torch.no_grad():
        head.weight.mul_(0.3)
        head.bias.copy_(torch.tensor([2.0, 0.0, 0.0]))
    tower = torch.nn.ModuleDict({"backbone": model.backbone, "head": head}).to(options.device)
    _learn_tokens(tower, views, options, steps * TOKEN_STEPS // STEPS)
    trained = _learn_maps(model, views, options, steps)
    save(trained, options.out)
    return evaluate(DepthMaps.from_pretrained(options.out), ObjectViews.load("val", options.work))


def _learn_tokens(tower: Any, views: ObjectViews, options: TrainOptions, steps: int) -> None:
    """Train the first stage: each token predicts depth and foot of the objects in its patch."""
    backbone, head = tower["backbone"], tower["head"]

    def in_patches(pixels: Tensor) -> Tensor:
        return avg_pool2d(pixels[:, None], PATCH)[:, 0]

    def loss_at(step: int) -> tuple[Tensor, Mapping[str, float]]:
        rng = np.random.default_rng((options.seed, step))
        batch = _batch(views, rng, TOKEN_BATCH, options.device)
        log_depths = batch.depths.log()
        weights = in_patches(batch.weights)
        shares = batch.weights / _spread_out(weights.clamp(min=1e-9))
        depths = in_patches(shares * log_depths)
        feet = [in_patches(shares * batch.feet[..., axis]) for axis in range(2)]
        tokens = backbone(pixel_values=batch.images).feature_maps[-1][:, 1:]
        predicted = head(tokens).unflatten(1, depths.shape[1:]).unbind(-1)

        def error(index: int, truth: Tensor) -> Tensor:
            return ((predicted[index] - truth).abs() * weights).sum() / weights.sum().clamp(
                min=1e-6
            )

        objects, astray = error(0, depths), error(1, feet[0]) + error(2, feet[1])
        bare = (predicted[0] - in_patches(log_depths)).abs()[weights < 1e-7].mean()
        parts = {"objects": objects, "feet": astray, "bare": bare}
        loss = 4 * objects + astray + 0.3 * bare
        return loss, {name: float(part.detach()) for name, part in parts.items()}

    plan = FitOptions(steps=steps, learning_rate=6e-4, weight_decay=0.05, ema=None)
    fit(tower, loss_at, plan, options.work / "depth" / "tokens.pt")


def _spread_out(patches: Tensor) -> Tensor:
    """Repeat each patch's value for all its pixels; return ``[B, H, W]``."""
    return patches.repeat_interleave(PATCH, 1).repeat_interleave(PATCH, 2)


def _learn_maps(model: Any, views: ObjectViews, options: TrainOptions, steps: int) -> Any:
    """Train the second stage: neck and head predict a map; the tower is frozen."""
    model.backbone.requires_grad_(False)

    def loss_at(step: int) -> tuple[Tensor, Mapping[str, float]]:
        rng = np.random.default_rng((options.seed + 1, step))
        batch = _batch(views, rng, BATCH, options.device)
        predicted = model(pixel_values=batch.images).predicted_depth.clamp(min=0.1).log()
        return _loss(predicted, batch.depths.log(), batch.weights)

    plan = FitOptions(steps=steps, learning_rate=1.5e-3, weight_decay=0.02, ema=0.99)
    return fit(model, loss_at, plan, options.work / "depth" / "checkpoint.pt")


def _loss(predicted: Tensor, truth: Tensor, weights: Tensor) -> tuple[Tensor, Mapping[str, float]]:
    """Return the error of log depth, everywhere and on objects; all arguments ``[B, h, w]``."""
    difference = (predicted - truth).abs()
    everywhere = difference.mean()
    objects = (difference * weights).sum() / weights.sum().clamp(min=1e-6)
    figures = {"everywhere": float(everywhere.detach()), "objects": float(objects.detach())}
    return everywhere + 4 * objects, figures


def evaluate(estimator: DepthEstimator, views: ObjectViews, limit: int = 300) -> dict[str, float]:
    """Return how often the model tells which of two objects is farther.

    ``order`` counts pairs whose depths differ by at least ``PAIR_RATIO`` (queries ask about pairs
    1.045 apart or more), ``order_hard`` those of them in which the lower box is not the nearer
    object. ``lower_is_nearer`` is the score of that rule alone. ``order_close`` counts the
    remaining, closer pairs. ``relative_error`` is the mean error of an object's depth divided by
    that depth.

    Args:
        estimator: the model under test.
        views: scenes to use, e.g. of the test split.
        limit: maximum number of scenes.
    """
    right: list[bool] = []
    by_rule: list[bool] = []
    close: list[bool] = []
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
            hit = (seen[i] > seen[j]) == farther
            if abs(np.log(truth[i] / truth[j])) < np.log(PAIR_RATIO):
                close.append(hit)
                continue
            right.append(hit)
            by_rule.append((boxes[i][3] < boxes[j][3]) == farther)
    hard = [hit for hit, rule in zip(right, by_rule, strict=True) if not rule]
    return {
        "pairs": float(len(right)),
        "order": float(np.mean(right)),
        "order_hard": float(np.mean(hard)),
        "hard_pairs": float(len(hard)),
        **(
            {"order_close": float(np.mean(close)), "close_pairs": float(len(close))}
            if close
            else {}
        ),
        "lower_is_nearer": float(np.mean(by_rule)),
        "relative_error": float(np.mean(errors)),
        "objects": float(len(errors)),
    }


class _Batch(NamedTuple):
    """Pictures with their training targets per pixel.

    Attributes:
        images: [B, 3, h, w], normalised.
        depths: [B, h, w], table units.
        weights: [B, h, w], weight of a pixel as part of its object.
        feet: [B, h, w, 2], offset from an object's pixel to its foot, (x, y) in :data:`FOOT_UNIT`
            pixels; 0 elsewhere.
    """

    images: Tensor
    depths: Tensor
    weights: Tensor
    feet: Tensor


def _batch(views: ObjectViews, rng: np.random.Generator, count: int, device: str) -> _Batch:
    rows = []
    for _ in range(count):
        index = views.pick(rng).still
        depth = views.stills.depth(index).astype(np.float32)
        row: list[Any] = [
            views.stills.image(index),
            depth,
            *_object_maps(depth, views.stills[index]),
        ]
        if rng.random() < 0.5:
            row = [array[:, ::-1] for array in row]
            row[3] = row[3] * np.array([-1, 1], np.float32)
        rows.append(row)
    images, depths, weights, feet = (
        torch.from_numpy(np.stack(arrays)).to(device) for arrays in zip(*rows, strict=True)
    )
    return _Batch(
        normalised(images, IMAGE_MEAN, IMAGE_STD), depths.clamp(0.1, MAX_DEPTH), weights, feet
    )


def _object_maps(depth: Floats, truth: StillTruth) -> tuple[Floats, Floats]:
    """Return weights ``[H, W]`` that sum to each object's importance, and offsets to its foot.

    The offsets are ``[H, W, 2]``. An object's pixels are those of its box at about its depth.
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


INPUT_HEIGHT, INPUT_WIDTH = IMAGE_HEIGHT, IMAGE_WIDTH
_CONFIG = tomllib.loads(Path(__file__).with_name("depth.toml").read_text("utf-8"))
PATCH, WIDTH = _CONFIG["tower"]["patch_size"], _CONFIG["tower"]["hidden_size"]
# Number of patches down and across.
GRID = (INPUT_HEIGHT // PATCH, INPUT_WIDTH // PATCH)

# Largest depth that the model can predict, in table units; only the background lies beyond.
MAX_DEPTH = float(_CONFIG["model"]["max_depth"])


def build_model() -> Any:
    """Build an untrained ``DepthAnythingForDepthEstimation`` on a small DINOv2 tower."""
    from transformers import DepthAnythingConfig, DepthAnythingForDepthEstimation, Dinov2Config

    make_tower: Any = Dinov2Config
    config = DepthAnythingConfig(backbone_config=make_tower(**_CONFIG["tower"]), **_CONFIG["model"])
    model: Any = DepthAnythingForDepthEstimation(config)
    for module in model.modules():
        if isinstance(module, torch.nn.Conv2d | torch.nn.ConvTranspose2d):
            torch.nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    torch.nn.init.normal_(model.head.conv3.weight, std=0.05)
    torch.nn.init.constant_(model.head.conv3.bias, 0.0)
    return model


def detector_tower(folder: Path) -> Any:
    """Load the image tower of a trained detector of this package, in float32."""
    from transformers import Owlv2ForObjectDetection

    detector: Any = Owlv2ForObjectDetection.from_pretrained(folder, dtype=torch.float32)
    return detector.owlv2.vision_model


@torch.no_grad()
def start_from_detector(model: Any, tower: Any, images: Tensor) -> None:
    """Copy the weights of the detector's tower to the depth model's tower.

    Args:
        model: changed in place.
        tower: see :func:`detector_tower`.
        images: float [N, 3, H, W], normalised; their tokens give the mean divisor of the norm
            before the first block.
    """
    backbone, (rows, columns) = model.backbone, GRID
    filters = tower.embeddings.patch_embedding.weight
    # The detector pads pictures below to a square, so only the upper rows have content.
    places = tower.embeddings.position_embedding.weight[1 : 1 + rows * columns]
    seen = functional.conv2d(images, filters, stride=PATCH).flatten(2).transpose(1, 2) + places
    spread = seen.std(dim=-1, unbiased=False).mean()
    norm = tower.pre_layernorm
    fold = (norm.weight / spread)[:, None] * (torch.eye(WIDTH) - 1 / WIDTH)
    patches = backbone.embeddings.patch_embeddings.projection
    patches.weight.copy_(torch.einsum("ij,jchw->ichw", fold, filters))
    patches.bias.zero_()
    grid = (places @ fold.T + norm.bias).T.reshape(1, WIDTH, rows, columns)
    # The library resizes a square table of positions to the picture's grid.
    square = functional.interpolate(grid, size=(columns, columns), mode="bicubic")
    positions = backbone.embeddings.position_embeddings
    positions[0, 1:] = square.flatten(2)[0].T
    positions[0, 0] = 0
    first = tower.embeddings.class_embedding + tower.embeddings.position_embedding.weight[0]
    backbone.embeddings.cls_token[0, 0] = norm(first)
    for layer, source in zip(backbone.encoder.layer, tower.encoder.layers, strict=True):
        pairs = [
            (layer.norm1, source.layer_norm1),
            (layer.norm2, source.layer_norm2),
            (layer.attention.q_proj, source.self_attn.q_proj),
            (layer.attention.k_proj, source.self_attn.k_proj),
            (layer.attention.v_proj, source.self_attn.v_proj),
            (layer.attention.o_proj, source.self_attn.out_proj),
            (layer.mlp.fc1, source.mlp.fc1),
            (layer.mlp.fc2, source.mlp.fc2),
        ]
        for target, trained in pairs:
            target.load_state_dict(trained.state_dict())
    backbone.layernorm.load_state_dict(tower.post_layernorm.state_dict())


def save(model: Any, folder: Path) -> None:
    """Write the folder that ``from_pretrained`` loads, in half precision."""
    from transformers import DPTImageProcessor

    processor = DPTImageProcessor(
        size={"height": INPUT_HEIGHT, "width": INPUT_WIDTH},
        keep_aspect_ratio=False,
        ensure_multiple_of=PATCH,
        image_mean=list(IMAGE_MEAN),
        image_std=list(IMAGE_STD),
    )
    save_half(model, folder, processor)
