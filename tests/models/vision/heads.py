"""Heads of vision models that see one bright rectangle on black, whatever the weights are.

The patches change a loaded network so that its output follows from its input. The whole network
still runs; only its last output is replaced. What they guarantee, if the backend is right:

* :func:`see_boxes`: the best box of every phrase is the rectangle, score .95, in pixels.
* :func:`see_depths`: the rectangle is nearer (relative) or farther (metric) than the rest.
* :func:`see_masks`: the mask is the rectangle, within the prompted box for SAM 2, score .95.

The place is read from the pixels that the network receives, so preprocessing, geometry and
post-processing must agree. They work for tiny and for full-size networks of
:mod:`tests.models.vision.built`, and take the network itself (``backend._model``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

SHAPES = ((30, 40), (40, 30), (41, 97), (64, 64), (80, 17), (35, 120))
"""(height, width) of pictures in which a rectangle must come out at the right pixel."""


def rectangle(shape: tuple[int, int]) -> tuple[np.ndarray, tuple[int, int, int, int]]:
    """A black picture with a white rectangle off its centre, and the rectangle's box."""
    height, width = shape
    box = (width // 2, height // 8, width - width // 8, height // 2)
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[box[1] : box[3], box[0] : box[2]] = 255
    return pixels, box


def coverage(pixels: Any) -> Any:
    """How bright each place of a network's input ``[B, 3, H, W]`` is, from 0 to 1."""
    grey = pixels.float().mean(dim=1)
    low, high = grey.amin(dim=(1, 2), keepdim=True), grey.amax(dim=(1, 2), keepdim=True)
    return (grey - low) / (high - low).clamp(min=1e-6)


def bright_box(cover: Any) -> Any:
    """The bright rectangle's box ``[B, 4]``: centre and size as shares of ``cover`` [B, H, W]."""
    import torch

    parts = []
    for profile in (cover.amax(dim=1), cover.amax(dim=2)):
        places = (torch.arange(profile.shape[1], device=profile.device) + 0.5) / profile.shape[1]
        whole = profile.sum(dim=1)
        parts.append(((profile * places).sum(dim=1) / whole, whole / profile.shape[1]))
    (x, width), (y, height) = parts
    return torch.stack([x, y, width, height], dim=1)


def see_boxes(model: Any) -> None:
    """Make a detector of :data:`DETECTORS` see the bright rectangle for every phrase."""
    import torch

    forward, family = model.forward, model.config.model_type
    keeps_tower = family.endswith("grounding-dino")
    if keeps_tower:  # the place travels in the tower's first map, which the backend may keep
        tower = model.model.backbone.conv_encoder
        look = tower.forward

        def look_again(pixel_values: Any, pixel_mask: Any) -> Any:
            maps = look(pixel_values, pixel_mask)
            maps[0][0][:, :4, 0, 0] = bright_box(coverage(pixel_values)).to(maps[0][0].dtype)
            return maps

        tower.forward = look_again

    def see(*args: Any, **kwargs: Any) -> Any:
        output = forward(*args, **kwargs)
        if keeps_tower:
            maps = model.model.backbone.conv_encoder(kwargs["pixel_values"], kwargs["pixel_mask"])
            box = maps[0][0][:, :4, 0, 0]
        else:
            box = bright_box(coverage(kwargs["pixel_values"]))
        scores, boxes = "logits", "pred_boxes"
        if family == "omdet-turbo":
            scores, boxes = "decoder_class_logits", "decoder_coord_logits"
        output[boxes][:] = box[:, None].to(output[boxes].dtype)
        output[scores][:] = -3.0
        output[scores][:, 0] = torch.logit(torch.tensor(0.95))
        return output

    model.forward = see


def see_depths(model: Any) -> None:
    """Make a depth model of :data:`DEPTHS` predict 1 inside the bright rectangle, 0.1 outside.

    The prediction is a nearness for relative models and for Depth Pro, whose processor inverts it.
    """
    from torch.nn import functional

    forward = model.forward

    def see(pixel_values: Any, **kwargs: Any) -> Any:
        output = forward(pixel_values, **kwargs)
        size = output.predicted_depth.shape[-2:]
        cover = functional.interpolate(coverage(pixel_values)[:, None], size, mode="bilinear")
        output.predicted_depth[:] = 0.1 + 0.9 * cover[:, 0].to(output.predicted_depth.dtype)
        if getattr(output, "field_of_view", None) is not None:
            output.field_of_view[:] = 60.0
        return output

    model.forward = see


def see_masks(model: Any) -> None:
    """Make a SAM 2 or SAM 3 model outline the bright rectangle: SAM 3 for every text, SAM 2 in so
    far as it lies within a prompted box.

    The place travels in the first channel of the finest feature map, which the backend keeps.
    """
    import torch
    from torch.nn import functional

    text_prompts = hasattr(model, "text_encoder")
    name = "get_vision_features" if text_prompts else "get_image_embeddings"
    look, forward = getattr(model, name), model.forward

    def finest(features: Any) -> Any:
        return features.fpn_hidden_states[0] if text_prompts else features[0]

    def look_again(pixel_values: Any, **kwargs: Any) -> Any:
        features = look(pixel_values, **kwargs)
        where = finest(features)
        cover = coverage(pixel_values)[:, None]
        where[:, :1] = functional.interpolate(cover, where.shape[-2:], mode="area").to(where.dtype)
        return features

    def see(**kwargs: Any) -> Any:
        kept = kwargs["vision_embeds" if text_prompts else "image_embeddings"]
        output = forward(**kwargs)
        masks = output.pred_masks
        cover = functional.interpolate(finest(kept)[:, :1].float(), masks.shape[-2:])[:, 0]
        sure = torch.logit(torch.tensor(0.95))
        if text_prompts:
            masks[:] = -20.0
            masks[:, 0] = ((cover - 0.5) * 20).to(masks.dtype)
            output.pred_logits[:] = -20.0
            output.pred_logits[:, 0] = sure
            output.presence_logits[:] = 20.0
            return output
        side = model.prompt_encoder.input_image_size
        places = (torch.arange(masks.shape[-1], device=masks.device) + 0.5) * side / masks.shape[-1]
        x0, y0, x1, y1 = kwargs["input_boxes"][0].float().unbind(dim=1)
        across = (places >= x0[:, None]) & (places <= x1[:, None])
        down = (places >= y0[:, None]) & (places <= y1[:, None])
        inside = (down[:, :, None] & across[:, None, :]).float()  # (N, h, w)
        masks[:] = ((cover * inside - 0.5) * 20)[None, :, None].to(masks.dtype)
        output.iou_scores[:] = 0.95
        return output

    setattr(model, name, look_again)
    model.forward = see
