"""The detector's architecture, its initial weights and its training loss.

The architecture is the library's stock OWLv2 at a small size. The published initialisation relies
on pre-training, so this module sets weights that train from scratch in minutes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import Owlv2Config, Owlv2ForObjectDetection

from viper_lab.recipes.detector_phrases import FAMILIES
from viper_lab.recipes.wordpieces import token_ids


@dataclass(frozen=True)
class DetectorShape:
    """Sizes of the model; pixels are those of the padded input square."""

    image_size: int = 192
    patch_size: int = 16
    width: int = 192
    layers: int = 4
    heads: int = 4
    mlp: int = 576
    text_width: int = 128
    text_layers: int = 2
    text_heads: int = 4
    text_mlp: int = 384
    text_length: int = 16

    @property
    def grid(self) -> int:
        """Return the number of patches along a side."""
        return self.image_size // self.patch_size


@dataclass(frozen=True)
class DetectorTargets:
    """Targets of one batch; T patches of the grid, Q phrases.

    Attributes:
        positive: float [B, T, Q], 1 if the patch represents an object that the phrase names.
        weight: float [B, T, Q], weight of each entry of the class loss.
        boxes: float [B, T, 4], (cx, cy, w, h) as shares of the padded square.
        box_weight: float [B, T], 0 if no object is near.
        attributes: int64 [B, T, 4], of the object near the patch.
        main: float [B, T], 1 if a patch represents an object.
        valid: float [B, T], 0 if the patch must not count (a cropped object).
        inside: float [B, T], 1 if an object's box overlaps the patch.
    """

    positive: Tensor
    weight: Tensor
    boxes: Tensor
    box_weight: Tensor
    attributes: Tensor
    main: Tensor
    valid: Tensor
    inside: Tensor

    def at(self, patches: Tensor) -> DetectorTargets:
        """Return the targets of some patches: int64 [B, K], indices among the T patches."""
        rows = torch.arange(len(patches), device=patches.device)[:, None]
        parts = {f.name: getattr(self, f.name)[rows, patches] for f in dataclasses.fields(self)}
        return DetectorTargets(**parts)

    def to(self, device: torch.device) -> DetectorTargets:
        """Return the targets on a device."""
        parts = {f.name: getattr(self, f.name).to(device) for f in dataclasses.fields(self)}
        return DetectorTargets(**parts)


def new_model(shape: DetectorShape, tokenizer: Any) -> Owlv2ForObjectDetection:
    """Build a stock OWLv2 of that shape with initial weights that train from scratch."""
    config = Owlv2Config(
        text_config={
            "hidden_size": shape.text_width,
            "intermediate_size": shape.text_mlp,
            "num_hidden_layers": shape.text_layers,
            "num_attention_heads": shape.text_heads,
            "max_position_embeddings": shape.text_length,
            "hidden_act": "gelu",
            **token_ids(tokenizer),
        },
        vision_config={
            "image_size": shape.image_size,
            "patch_size": shape.patch_size,
            "hidden_size": shape.width,
            "intermediate_size": shape.mlp,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "hidden_act": "gelu",
        },
        projection_dim=shape.text_width,
    )
    model = Owlv2ForObjectDetection(config)
    _initialise(model, shape)
    return model


@torch.no_grad()
def _initialise(model: Owlv2ForObjectDetection, shape: DetectorShape) -> None:
    vision: Any = model.owlv2.vision_model
    text: Any = model.owlv2.text_model
    places = _waves(shape)
    vision.embeddings.position_embedding.weight.zero_()
    vision.embeddings.position_embedding.weight[1:, : places.shape[1]] = places
    for index, layer in enumerate(vision.encoder.layers):
        _attend_to_neighbours(layer.self_attn, shape, _OFFSETS[index % len(_OFFSETS)])
    # Phrases must differ from the start: the end token carries what it attends to, not itself.
    for table, std in (
        (text.embeddings.token_embedding, 0.5),
        (text.embeddings.position_embedding, 0.05),
    ):
        nn.init.normal_(table.weight, std=std)
    for mark in (text.config.bos_token_id, text.config.eos_token_id):
        text.embeddings.token_embedding.weight[mark] *= 0.1
    for layer in text.encoder.layers:
        layer.self_attn.v_proj.weight *= 4
    # The library leaves the heads at N(0, 1): the first losses are hundreds of times too large.
    for head in (model.class_head, model.box_head, model.objectness_head):
        for part in head.modules():
            if isinstance(part, nn.Linear):
                nn.init.xavier_uniform_(part.weight)
                nn.init.zeros_(part.bias)
    for last in (model.box_head.dense2, model.objectness_head.dense2):
        nn.init.normal_(last.weight, std=0.01)
    nn.init.constant_(model.objectness_head.dense2.bias, -4.0)
    for scalar, start in (
        (model.class_head.logit_scale, 10.0),
        (model.class_head.logit_shift, -0.4),
    ):
        nn.init.normal_(scalar.weight, std=0.001)
        nn.init.constant_(scalar.bias, start)


def _frequencies(shape: DetectorShape) -> Tensor:
    """Return radians per patch for wavelengths of 4 to 48 patches, float [width / 16]."""
    count = shape.width // 16
    lengths = 4 * 12 ** (torch.arange(count) / max(1, count - 1))
    return 2 * math.pi / lengths


def _waves(shape: DetectorShape) -> Tensor:
    """Return sines and cosines of a patch's column, then of its row.

    They are float [grid * grid, width / 4] and have the first quarter of the channels to
    themselves; see :func:`whiten_patches`.
    """
    angles = torch.arange(shape.grid)[:, None] * _frequencies(shape)[None]
    wave = 2**0.5 * torch.cat((angles.sin(), angles.cos()), dim=1)  # (grid, width / 8)
    columns = wave[None].expand(shape.grid, shape.grid, -1)
    rows = wave[:, None].expand(shape.grid, shape.grid, -1)
    return torch.cat((columns, rows), dim=-1).flatten(0, 1)


_OFFSETS = (((-1, 0), (1, 0), (0, -1), (0, 1)), ((-1, -1), (1, 1), (1, -1), (-1, 1)))


def _attend_to_neighbours(
    attention: Any, shape: DetectorShape, offsets: Sequence[tuple[int, int]], gain: float = 1.3
) -> None:
    """Initialise each head to attend to the patch at one offset (columns, rows).

    A shift of position rotates each sine-cosine pair, so a query can match the key of a neighbour.
    Differs: the library starts with almost uniform attention, and learning the right offsets from
    there takes thousands of steps.
    """
    frequencies = _frequencies(shape)
    count, noise = len(frequencies), 0.1 * attention.embed_dim**-0.5
    for projection in (attention.q_proj, attention.k_proj):
        nn.init.normal_(projection.weight, std=noise)
    for head in range(attention.num_heads):
        first = head * attention.head_dim
        for axis in range(2):
            turn = frequencies * offsets[head % len(offsets)][axis]
            for i in range(min(count, attention.head_dim // 4)):
                sine, cosine = 2 * axis * count + i, (2 * axis + 1) * count + i
                query, key = attention.q_proj.weight, attention.k_proj.weight
                key[first + sine, sine] += gain
                key[first + cosine, cosine] += gain
                query[first + sine, sine] += gain * turn[i].cos()
                query[first + sine, cosine] += gain * turn[i].sin()
                query[first + cosine, cosine] += gain * turn[i].cos()
                query[first + cosine, sine] -= gain * turn[i].sin()


@torch.no_grad()
def whiten_patches(model: Owlv2ForObjectDetection, images: Tensor, power: float = 0.75) -> None:
    """Set the patch embedding to the whitened principal components of real patches.

    Random filters nearly all respond to a patch's mean colour. The first quarter of the channels is
    reserved for the position. The mean patch also goes into the position embedding, because the
    library's convolution has no bias.

    Args:
        model: changed in place.
        images: float [N, 3, H, W], normalised as for the model, without padding.
        power: 1 gives all components the same variance, 0 leaves them unchanged.
    """
    embeddings: Any = model.owlv2.vision_model.embeddings
    filters, size = embeddings.patch_embedding.weight, embeddings.patch_size
    patches = functional.unfold(images, size, stride=size).transpose(1, 2).flatten(0, 1)
    mean = patches.mean(0)
    centred = patches - mean
    variances, axes = torch.linalg.eigh(centred.T @ centred / len(centred))
    free = len(filters) - len(filters) // 4
    variances, axes = variances.flip(0)[:free], axes.flip(1)[:, :free]
    scales = variances.clamp(min=1e-5) ** (-power / 2)
    scales /= (variances * scales**2).mean().sqrt()
    # A rotation spreads every component over all channels, as layer norms like.
    rotation = torch.linalg.qr(torch.randn(free, len(scales)))[0]
    weights = torch.zeros(len(filters), len(mean))
    weights[-free:] = rotation @ (axes * scales).T
    filters.copy_(weights.reshape(filters.shape))
    embeddings.position_embedding.weight[1:] -= weights @ mean


class DetectorTrainer(nn.Module):
    """The model with a part that only training uses: linear probes of each attribute."""

    def __init__(self, model: Owlv2ForObjectDetection) -> None:
        super().__init__()
        self.model = model
        width = model.class_head.query_dim
        self.readers = nn.ModuleList(nn.Linear(width, len(values)) for values in FAMILIES)

    def features(self, pixels: Tensor, patches: Tensor) -> Tensor:
        """Return features of some patches, float [B, K, D], as the library computes them for all.

        Other patches are skipped. Most show bare table or padding, and skipping them in the first
        part of the training more than halves its cost.

        Args:
            pixels: float [B, 3, S, S].
            patches: int64 [B, K], patches of the grid to keep.
        """
        vision = self.model.owlv2.vision_model
        hidden = vision.embeddings(pixels)
        rows = torch.arange(len(patches), device=patches.device)[:, None]
        hidden = torch.cat((hidden[:, :1], hidden[rows, patches + 1]), dim=1)
        hidden = vision.pre_layernorm(hidden)
        hidden = vision.encoder(inputs_embeds=hidden).last_hidden_state
        hidden = vision.post_layernorm(hidden)
        mixed: Tensor = self.model.layer_norm(hidden[:, 1:] * hidden[:, :1])
        return mixed

    def text_embeddings(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return normalised text embeddings, float [Q, D]."""
        pooled = self.model.owlv2.get_text_features(ids, mask).pooler_output
        return functional.normalize(pooled, dim=-1)

    def losses(
        self, pixels: Tensor, ids: Tensor, mask: Tensor, targets: DetectorTargets, patches: Tensor
    ) -> dict[str, Tensor]:
        """Return the weighted parts of the loss; training minimises their sum.

        ``targets`` cover only ``patches`` (int64 [B, K]).
        """
        features = self.features(pixels, patches)
        phrases = self.text_embeddings(ids, mask).expand(len(pixels), -1, -1)
        logits, _ = self.model.class_head(features, phrases, None)
        biased = self.model.box_head(features) + self.model.box_bias[patches]
        objectness = self.model.objectness_predictor(features)
        box = _box_loss(biased.sigmoid(), targets.boxes, targets.box_weight)
        return {
            "class": _focal(logits, targets.positive, targets.weight),
            "box": box,
            "objectness": 0.5 * _focal(objectness, targets.main, targets.valid),
            "attributes": self._attribute_loss(features, targets),
        }

    def _attribute_loss(self, features: Tensor, targets: DetectorTargets) -> Tensor:
        near = targets.box_weight > 0
        weight = targets.box_weight[near]
        total = features.new_zeros(())
        for family, reader in enumerate(self.readers):
            loss = functional.cross_entropy(
                reader(features[near]), targets.attributes[near][:, family], reduction="none"
            )
            share = 0.4 if family == len(FAMILIES) - 1 else 0.2
            total = total + share * (loss * weight).sum() / weight.sum().clamp(min=1)
        return total


def _focal(logits: Tensor, positive: Tensor, weight: Tensor, gamma: float = 1.5) -> Tensor:
    """Return binary cross-entropy per positive entry, with less weight on correct entries."""
    plain = functional.binary_cross_entropy_with_logits(logits, positive, reduction="none")
    wrong = (logits.sigmoid() - positive).abs()
    return (wrong**gamma * plain * weight).sum() / positive.sum().clamp(min=1)


def _box_loss(predicted: Tensor, targets: Tensor, weight: Tensor) -> Tensor:
    """Return 5 L1 + 2 GIoU over the patches near an object; boxes are (cx, cy, w, h)."""
    near = weight > 0
    predicted, targets, weight = predicted[near], targets[near], weight[near]
    distance = (predicted - targets).abs().sum(-1)
    overlap = generalised_iou(corners(predicted), corners(targets))
    return ((5 * distance + 2 * (1 - overlap)) * weight).sum() / weight.sum().clamp(min=1)


def corners(boxes: Tensor) -> Tensor:
    """Convert (cx, cy, w, h) to (x0, y0, x1, y1)."""
    centre, half = boxes[..., :2], boxes[..., 2:] / 2
    return torch.cat((centre - half, centre + half), dim=-1)


def generalised_iou(a: Tensor, b: Tensor) -> Tensor:
    """Return the GIoU of box i of ``a`` and box i of ``b``, float [N] in [-1, 1]."""

    def area(lower: Tensor, upper: Tensor) -> Tensor:
        return (upper - lower).clamp(min=0).prod(-1)

    shared = area(torch.maximum(a[:, :2], b[:, :2]), torch.minimum(a[:, 2:], b[:, 2:]))
    union = area(a[:, :2], a[:, 2:]) + area(b[:, :2], b[:, 2:]) - shared
    hull = area(torch.minimum(a[:, :2], b[:, :2]), torch.maximum(a[:, 2:], b[:, 2:]))
    tiny = 1e-7
    return shared / (union + tiny) - (hull - union) / (hull + tiny)
