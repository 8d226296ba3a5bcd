"""The segmenter's architecture, its initial weights, its training loss, and its batches.

The architecture is the library's stock MaskFormer on a small ResNet. Each query starts with a place
to look at: its embedding is the sine position of a point of a grid, one point per cell of the
coarsest features. Cross-attention compares such positions, so a query first sees the features near
its point, and learns to represent the object whose middle is there. Differs: the library draws both
at random, from which a query takes long to locate its objects.

A batch is augmented pictures with the mask and the label of every object. Labels are shapes, so a
picture with exchanged colour channels is as good as a new one: no shape can be learned from its
colours in training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from viper.models.vision.roles import Pixels
from viper_lab.recipes.object_views import normalised
from viper_lab.recipes.optim import save_half
from viper_lab.world.id_maps import Ids
from viper_lab.world.scene import IMAGE_HEIGHT, IMAGE_WIDTH
from viper_lab.world.vocabulary import SHAPES

# Labels of segments; a label's number is its index here.
LABELS = (*SHAPES, "background")

# Pixels along a side of one cell of the coarsest features.
_STRIDE = 16

# Number of position frequencies, from the highest, that attention starts with.
_WAVES = 3


@dataclass(frozen=True)
class SegmenterShape:
    """Sizes of the model; ``anchors`` is the grid of the queries' points, across and down."""

    widths: tuple[int, int, int] = (32, 64, 144)
    depths: tuple[int, int, int] = (1, 2, 2)
    features: int = 64
    embedding: int = 32
    width: int = 128
    heads: int = 8
    layers: int = 2
    mlp: int = 256
    anchors: tuple[int, int] = (IMAGE_WIDTH // 16, IMAGE_HEIGHT // 16)


def new_model(shape: SegmenterShape) -> Any:
    """Build a ``MaskFormerForInstanceSegmentation`` that is ready to train from scratch."""
    from transformers import (
        MaskFormerConfig,
        MaskFormerDetrConfig,
        MaskFormerForInstanceSegmentation,
        ResNetConfig,
    )

    make_backbone: Any = ResNetConfig
    backbone = make_backbone(
        embedding_size=shape.widths[0] * 3 // 4,
        hidden_sizes=list(shape.widths),
        depths=list(shape.depths),
        layer_type="basic",
        out_features=["stage1", "stage2", "stage3"],
    )
    decoder = MaskFormerDetrConfig(
        d_model=shape.width,
        num_queries=shape.anchors[0] * shape.anchors[1] + 1,
        encoder_layers=0,
        decoder_layers=shape.layers,
        encoder_attention_heads=shape.heads,
        decoder_attention_heads=shape.heads,
        encoder_ffn_dim=shape.mlp,
        decoder_ffn_dim=shape.mlp,
        dropout=0.0,
    )
    make_config: Any = MaskFormerConfig
    config = make_config(
        backbone_config=backbone,
        decoder_config=decoder,
        fpn_feature_size=shape.features,
        mask_feature_size=shape.embedding,
        no_object_weight=0.25,
        cross_entropy_weight=2.0,
        mask_weight=20.0,
        dice_weight=2.0,
        num_labels=len(LABELS),
        id2label=dict(enumerate(LABELS)),
        label2id={label: number for number, label in enumerate(LABELS)},
    )
    model = MaskFormerForInstanceSegmentation(config)
    _initialise(model, shape)
    return model


@torch.no_grad()
def _initialise(model: Any, shape: SegmenterShape) -> None:
    # The library draws batch norm scales around 0, which suits loaded weights only.
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.ones_(module.weight)
        elif isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    transformer = model.model.transformer_module
    _place_queries(transformer, shape)
    for layer in transformer.decoder.layers:
        _compare_positions(layer.encoder_attn, shape)
    # Attention starts by position, so the position channels hold no content.
    channels = _position_channels(shape.width)
    nn.init.xavier_uniform_(transformer.input_projection.weight)
    transformer.input_projection.weight[channels] = 0
    nn.init.normal_(model.class_predictor.weight, std=0.02)
    # Masks start undecided; otherwise the first losses are ten times the later ones.
    list(model.mask_embedder.parameters())[-2].mul_(0.2)


def _place_queries(transformer: Any, shape: SegmenterShape) -> None:
    """Place the queries on a grid of points; the last one, for the background, has no position."""
    across, down = shape.anchors
    size = (1, shape.width, IMAGE_HEIGHT // _STRIDE, IMAGE_WIDTH // _STRIDE)
    positions = transformer.position_embedder(torch.Size(size), "cpu", torch.float32)
    # The library counts cells from 1, so the value at cell i stands for its far edge.
    rows, columns = (
        ((torch.arange(count) + 0.5) / count * cells - 0.5).round().long()
        for count, cells in ((down, size[2]), (across, size[3]))
    )
    points = positions[0][:, rows][:, :, columns].flatten(1).T
    transformer.queries_embedder.weight.zero_()
    transformer.queries_embedder.weight[: across * down] = points


def _position_channels(width: int) -> list[int]:
    """Return channels of the fastest waves: sines and cosines of the row, then of the column."""
    first = list(range(2 * _WAVES))
    return [*first, *(width // 2 + channel for channel in first)]


def _compare_positions(attention: Any, shape: SegmenterShape, gain: float = 4.5) -> None:
    """Initialise every head to attend around the query's own point."""
    channels = _position_channels(shape.width)
    head_width = shape.width // shape.heads
    for projection in (attention.q_proj, attention.k_proj):
        nn.init.normal_(projection.weight, std=0.3 * shape.width**-0.5)
        for head in range(shape.heads):
            rows = [head * head_width + i for i in range(len(channels))]
            projection.weight[rows] = 0
            projection.weight[rows, channels] = gain


class SegmenterTrainer(nn.Module):
    """The model with a part that only training uses: linear probes of its pixel embeddings."""

    def __init__(self, model: Any, shape: SegmenterShape) -> None:
        super().__init__()
        self.model, self.anchors = model, shape.anchors
        width = model.config.mask_feature_size
        self.label_reader = nn.Conv2d(width, len(LABELS), 1)
        self.place_reader = nn.Conv2d(width, 8, 1)

    def losses(self, batch: SegmenterBatch) -> dict[str, Tensor]:
        """Return the weighted parts of the loss; training minimises their sum."""
        inner = self.model.model
        features = inner.pixel_level_module(batch.pixels)
        embeddings = features.decoder_last_hidden_state  # (B, C, H / 4, W / 4)
        decoded = inner.transformer_module(features.encoder_last_hidden_state, True)
        norm = inner.transformer_module.decoder.layernorm
        # The first state is the input; the last one is normed already.
        states = [*map(norm, decoded.hidden_states[1:-1]), decoded.last_hidden_state]
        return {
            **self._set_losses(states, embeddings, batch),
            **self._pixel_losses(embeddings, batch),
        }

    def _set_losses(
        self, states: list[Tensor], embeddings: Tensor, batch: SegmenterBatch
    ) -> dict[str, Tensor]:
        """Return the library's loss after every layer, with the last layer's assignment."""
        from transformers.models.maskformer.modeling_maskformer import dice_loss, sigmoid_focal_loss

        model = self.model
        chances = model.class_predictor(states[-1].detach()).detach().softmax(-1).cpu()
        pairs = [
            assigned(*each, self.anchors)
            for each in zip(chances, batch.masks, batch.labels, strict=True)
        ]
        count = model.criterion.get_num_masks(batch.labels, embeddings.device)
        targets = torch.cat([m[rows] for m, (_, rows) in zip(batch.masks, pairs, strict=True)])
        total: dict[str, Tensor] = {}
        for state in states:
            # The loss ignores masks of other queries, so they are not computed.
            predicted = [
                model.mask_embedder(state[i, queries]) @ embeddings[i].flatten(1)
                for i, (queries, _) in enumerate(pairs)
            ]
            parts = {
                "mask": sigmoid_focal_loss(torch.cat(predicted), targets.flatten(1), count),
                "dice": dice_loss(torch.cat(predicted), targets.flatten(1), count),
                **model.criterion.loss_labels(model.class_predictor(state), batch.labels, pairs),
            }
            for name, part in parts.items():
                short = name.removeprefix("loss_")
                weight = model.weight_dict[f"loss_{short}"] / len(states)
                total[short] = total.get(short, 0) + part * weight
        return total

    def _pixel_losses(self, embeddings: Tensor, batch: SegmenterBatch) -> dict[str, Tensor]:
        """Return losses of each pixel's prediction of its object's label and middle."""
        targets = [_pixel_targets(*each) for each in zip(batch.masks, batch.labels, strict=True)]
        labels = torch.stack([labels for labels, _ in targets])
        places = torch.stack([places for _, places in targets])
        error = (self.place_reader(embeddings) - places).square().mean(1)
        weight = (labels != BACKGROUND).float()
        shares = labels.new_ones(len(LABELS), dtype=torch.float32)
        shares[BACKGROUND] = 0.3
        return {
            "pixels": functional.cross_entropy(self.label_reader(embeddings), labels, shares),
            "places": (error * weight).sum() / weight.sum().clamp(min=1),
        }


def assigned(
    chances: Tensor, masks: Tensor, labels: Tensor, anchors: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """Assign queries to masks: int64 [N + 1] each; the last query is the background's.

    An object goes to a query whose point is near its middle. Among equally near queries the one
    with the highest chance of the label wins. Differs: the library compares masks instead of
    places. Every query near an object soon predicts its mask, so the library's assignment changes
    all the time.

    Args:
        chances: float [Q, L + 1], of every label, by query.
        masks: float [N + 1, h, w]; the last is the background's.
        labels: int64 [N + 1].
        anchors: points across and down.
    """
    from scipy.optimize import linear_sum_assignment

    across, down = anchors
    middles = _middles(masks[:-1].cpu()) * torch.tensor([down, across])  # (N, 2), in cells
    rows, columns = torch.meshgrid(torch.arange(down), torch.arange(across), indexing="ij")
    points = torch.stack([rows, columns], dim=-1).flatten(0, 1) + 0.5
    cost = torch.cdist(points, middles) - chances[:-1, labels[:-1].cpu()]
    queries, objects = (torch.as_tensor(each) for each in linear_sum_assignment(cost))
    last = torch.tensor([len(chances) - 1]), torch.tensor([len(labels) - 1])
    return torch.cat([queries, last[0]]), torch.cat([objects, last[1]])


def _middles(masks: Tensor) -> Tensor:
    """Return mean row and column of each mask [N, h, w] as shares of its sides, float [N, 2]."""
    rows, columns = (
        (torch.arange(side, device=masks.device) + 0.5) / side for side in masks.shape[1:]
    )
    areas = masks.sum((1, 2)).clamp(min=1e-6)
    return torch.stack([(masks.sum(2) @ rows) / areas, (masks.sum(1) @ columns) / areas], dim=1)


def _pixel_targets(masks: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return pixel labels, int64 [h, w], and waves of object middles, float [8, h, w]."""
    owner = masks.argmax(0)
    middle = _middles(masks)
    angles = torch.pi * torch.cat([middle, 2 * middle], dim=1)  # (N, 4)
    waves = torch.cat([angles.sin(), angles.cos()], dim=1)
    return labels[owner], waves[owner].permute(2, 0, 1)


def save(model: Any, folder: Path) -> None:
    """Write the folder that ``from_pretrained`` loads, in half precision."""
    from transformers import MaskFormerImageProcessor

    processor = MaskFormerImageProcessor(
        size={"height": IMAGE_HEIGHT, "width": IMAGE_WIDTH},
        size_divisor=_STRIDE,
        image_mean=list(IMAGE_MEAN),
        image_std=list(IMAGE_STD),
        num_labels=len(LABELS),
    )
    save_half(model, folder, processor)


BACKGROUND = len(SHAPES)

# Values of the library's image processor.
IMAGE_MEAN, IMAGE_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

# Pixels along a side of one value of a target mask, as in the model's own masks.
TARGET_STRIDE = 4

# Shares of pictures with exchanged colour channels, and with an enlarged part.
RECOLOURED, WINDOWED = 0.5, 0.2

# Least pixels of a cropped object; a smaller rest counts as background.
_LEAST_AREA = 24


class Segmented(NamedTuple):
    """One picture: uint8 [H, W, 3], ids uint8 [H, W] (0: no object), and a label per object."""

    image: Pixels
    ids: Ids
    labels: NDArray[np.int64]


class SegmenterBatch(NamedTuple):
    """Batch of one step; the background is the last mask of every picture.

    Attributes:
        pixels: float [B, 3, H, W], normalised.
        masks: for each picture float [N + 1, H / 4, W / 4], the share of each object in each cell.
        labels: for each picture int64 [N + 1].
    """

    pixels: Tensor
    masks: list[Tensor]
    labels: list[Tensor]

    def to(self, device: torch.device | str) -> SegmenterBatch:
        """Return the batch on a device."""
        masks, labels = ([each.to(device) for each in part] for part in self[1:])
        return SegmenterBatch(self.pixels.to(device), masks, labels)


def segmenter_batch(pictures: Sequence[Segmented], rng: np.random.Generator) -> SegmenterBatch:
    """Return augmented views of some pictures, all of one size."""
    views = [_view(picture, rng) for picture in pictures]
    targets = [_targets(view) for view in views]
    images = torch.from_numpy(np.stack([view.image for view in views]))
    return SegmenterBatch(
        normalised(images, IMAGE_MEAN, IMAGE_STD),
        [masks for masks, _ in targets],
        [labels for _, labels in targets],
    )


def _view(picture: Segmented, rng: np.random.Generator) -> Segmented:
    """Mirror half of the time, change the brightness, maybe recolour or enlarge a part."""
    image, ids = picture.image, picture.ids
    if rng.random() < WINDOWED:
        image, ids = _enlarge(image, ids, rng)
    if rng.random() < 0.5:
        image, ids = image[:, ::-1], ids[:, ::-1]
    if rng.random() < RECOLOURED:
        image = image[:, :, rng.permutation(3)]
    light = image.astype(np.float32) * rng.uniform(0.85, 1.15) + rng.uniform(-10, 10)
    return Segmented(np.clip(light, 0, 255).astype(np.uint8), ids, picture.labels)


def _enlarge(image: Pixels, ids: Ids, rng: np.random.Generator) -> tuple[Pixels, Ids]:
    """Return a window of at least 60% per side, resized to the picture's own size."""
    height, width = ids.shape
    wide, high = (int(side * rng.uniform(0.6, 1.0)) for side in (width, height))
    left, top = int(rng.integers(width - wide + 1)), int(rng.integers(height - high + 1))
    window = (slice(top, top + high), slice(left, left + wide))
    pixels = torch.from_numpy(np.array(image[window])).permute(2, 0, 1)[None].float()
    large = functional.interpolate(pixels, (height, width), mode="bilinear", align_corners=False)
    rows, columns = (
        (np.arange(count) + 0.5) * part / count for count, part in ((height, high), (width, wide))
    )
    near = ids[window][rows.astype(int)[:, None], columns.astype(int)]
    return large[0].permute(1, 2, 0).round().numpy().astype(np.uint8), near


def _targets(view: Segmented) -> tuple[Tensor, Tensor]:
    """Return masks float [N + 1, h, w] and labels int64 [N + 1] of the visible objects."""
    numbers = np.arange(1, len(view.labels) + 1)
    masks = view.ids[None] == numbers[:, None, None]
    big = masks.sum(axis=(1, 2)) >= _LEAST_AREA
    masks = masks[big]
    everything = np.concatenate([masks, ~masks.any(axis=0, keepdims=True)])
    pooled = functional.avg_pool2d(torch.from_numpy(everything).float(), TARGET_STRIDE)
    labels = np.append(view.labels[big], BACKGROUND)
    return pooled, torch.from_numpy(labels)
