"""The depth model's architecture and its initial weights: the detector's trained image tower.

Where an object ends and which one it is decides how far away it is, and the detector has
learned just that. Its tower and a DINOv2 tower are the same transformer but for one layer
norm before the first block; folded into the patch embedding with the mean spread of real
tokens, that norm is met closely enough for a few steps to make up the difference.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from viper_lab.recipes.optim import save_half
from viper_lab.world.scene import IMAGE_HEIGHT, IMAGE_WIDTH

INPUT_HEIGHT, INPUT_WIDTH = IMAGE_HEIGHT, IMAGE_WIDTH
PATCH, WIDTH, LAYERS, HEADS = 16, 192, 4, 4
GRID = (INPUT_HEIGHT // PATCH, INPUT_WIDTH // PATCH)
"""Patches down and across."""

IMAGE_MEAN = (0.48145466, 0.4578275, 0.40821073)
IMAGE_STD = (0.26862954, 0.26130258, 0.27577711)
"""Those of the detector's image processor."""

MAX_DEPTH = 16.0
"""Farthest that the model can say, in table units; only the background lies beyond."""


def build_model() -> Any:
    """An untrained ``DepthAnythingForDepthEstimation`` on a small DINOv2 tower."""
    from transformers import DepthAnythingConfig, DepthAnythingForDepthEstimation, Dinov2Config

    make_tower: Any = Dinov2Config
    tower = make_tower(
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        mlp_ratio=3,
        image_size=INPUT_WIDTH,
        patch_size=PATCH,
        out_indices=list(range(1, LAYERS + 1)),
        reshape_hidden_states=False,
        apply_layernorm=True,
        layerscale_value=1.0,
        layer_norm_eps=1e-5,
    )
    config = DepthAnythingConfig(
        backbone_config=tower,
        patch_size=PATCH,
        reassemble_hidden_size=WIDTH,
        reassemble_factors=[4, 2, 1, 1],
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
    return model


def detector_tower(folder: Path) -> Any:
    """The image tower of a trained detector of this package, in float32."""
    from transformers import Owlv2ForObjectDetection

    detector: Any = Owlv2ForObjectDetection.from_pretrained(folder, dtype=torch.float32)
    return detector.owlv2.vision_model


@torch.no_grad()
def start_from_detector(model: Any, tower: Any, images: Tensor) -> None:
    """Gives the depth model's tower the weights of the detector's.

    Args:
        model: changed in place.
        tower: see :func:`detector_tower`.
        images: float [N, 3, H, W], normalised; their tokens tell what the norm before the
            first block divides by on average.
    """
    backbone, (rows, columns) = model.backbone, GRID
    filters = tower.embeddings.patch_embedding.weight
    # The detector pads its pictures below to a square: only the upper rows ever hold anything.
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


def normalised(pixels: Tensor) -> Tensor:
    """float [B, 3, H, W] as the model takes it, of uint8 [B, H, W, 3]."""
    mean, std = (
        torch.tensor(values, device=pixels.device).view(3, 1, 1)
        for values in (IMAGE_MEAN, IMAGE_STD)
    )
    return (pixels.permute(0, 3, 1, 2).float() / 255 - mean) / std


def save(model: Any, folder: Path) -> None:
    """Writes the folder that ``from_pretrained`` loads, in half precision."""
    from transformers import DPTImageProcessor

    processor = DPTImageProcessor(
        size={"height": INPUT_HEIGHT, "width": INPUT_WIDTH},
        keep_aspect_ratio=False,
        ensure_multiple_of=PATCH,
        image_mean=list(IMAGE_MEAN),
        image_std=list(IMAGE_STD),
    )
    save_half(model, folder, processor)
