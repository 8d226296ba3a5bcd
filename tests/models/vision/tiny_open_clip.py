"""Tiny untrained open_clip models of each family of published ones."""

from __future__ import annotations

import hashlib
from typing import Any

from viper.models.vision.matcher_open_clip import OpenClipMatcher

WIDTH = 8
"""D of the embeddings."""

_TOWERS: dict[str, dict[str, Any]] = {
    "clip-resnet": {"layers": [1, 1, 1, 1], "width": 8, "head_width": 64, "image_size": 32},
    "timm-resnet": {"timm_model_name": "test_resnet", "image_size": 32},
    "clip-vit": {"layers": 4, "width": 16, "head_width": 8, "patch_size": 8, "image_size": 32},
    "timm-vit": {"timm_model_name": "test_vit", "image_size": 160, "timm_pool": ""},
    "timm-convnext": {"timm_model_name": "test_convnext", "image_size": 32},
}

RESNETS, TRANSFORMERS = ("clip-resnet", "timm-resnet"), ("clip-vit", "timm-vit")


def tiny_matcher(kind: str) -> OpenClipMatcher:
    """A matcher of that kind; the weights are always the same."""
    import torch
    from open_clip import SimpleTokenizer, image_transform
    from open_clip.model import CLIP, CustomTextCLIP

    torch.manual_seed(0)
    vision = dict(_TOWERS[kind])
    text = {"context_length": 16, "width": 16, "heads": 2, "layers": 1}
    model = (CLIP if kind.startswith("clip") else CustomTextCLIP)(WIDTH, vision, text)
    size = vision["image_size"]
    preprocess = image_transform(size, is_train=False, mean=(0.5,) * 3, std=(0.5,) * 3)
    tokenizer = SimpleTokenizer(context_length=16)
    return OpenClipMatcher(model, preprocess, tokenizer, f"tiny-{kind}@0", batch_size=4)


def digest(matcher: OpenClipMatcher) -> str:
    """Of all weights and statistics of the model."""
    found = hashlib.sha256()
    for name, tensor in sorted(matcher._model.state_dict().items()):
        found.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return found.hexdigest()
