"""Depth estimators of transformers: the family of Depth Anything, and DPT.

Metric models are passed on; relative ones, which predict nearness, are turned round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viper.models.loading import Checkpoint, in_equal_groups, processed
from viper.models.vision.roles import Floats, Pixels


class DepthMaps(Checkpoint):
    """A :class:`~viper.models.vision.roles.DepthEstimator` on a depth model of transformers.

    A *metric* model's output is passed on. A *relative* model predicts nearness
    (inverse depth up to scale and shift); it is turned round, so that larger is
    farther, and such values compare within one picture only.

    Args:
        model: the network; its output holds ``predicted_depth``.
        processor: its image processor.
        name: what goes into traces and cache keys.
        relative: whether it predicts nearness.
        batch_size: pictures in one forward pass at most.
    """

    def __init__(
        self, model: Any, processor: Any, name: str, *, relative: bool, batch_size: int
    ) -> None:
        super().__init__(model, processor, name, batch_size=batch_size)
        self._relative = relative

    def depth(self, images: Sequence[Pixels]) -> list[Floats]:
        """A map ``float32 [H, W]`` an image at the image's own size; larger is farther."""
        return in_equal_groups(images, lambda one: one.shape, self._batch_size, self._forward)

    def _forward(self, images: Sequence[Pixels]) -> list[Floats]:
        import torch

        size = images[0].shape[:2]
        with torch.inference_mode():
            batch = processed(self._processor, images)
            outputs = self._model(**self._fitted(batch))
            seen = self._seen_size(size, batch["pixel_values"].shape[-2:])
            sized = self._processor.post_process_depth_estimation(
                outputs, target_sizes=[seen] * len(images)
            )
        maps = [_middle(entry["predicted_depth"].float().cpu().numpy(), size) for entry in sized]
        return [nearness_to_depth(each) for each in maps] if self._relative else maps

    def _seen_size(self, size: tuple[int, ...], given: Sequence[int]) -> tuple[int, ...]:
        """Height and width, in pixels of the picture, of what the model was given.

        Larger than the picture where the processor pads it without resizing it.
        """
        settings = self._processor
        pads = getattr(settings, "do_pad", False) and not settings.do_resize
        return tuple(given) if pads else tuple(size)


def nearness_to_depth(nearness: Floats) -> Floats:
    """A bounded, decreasing function of nearness: the farthest point is at most 100."""
    scale = max(float(nearness.max()), 1e-6)
    return np.asarray(1.0 / (np.maximum(nearness, 0) / scale + 0.01), dtype=np.float32)


def _middle(depth: Floats, size: Sequence[int]) -> Floats:
    """The picture's own part ``[H, W]`` of a map that was padded alike on all sides."""
    top, left = ((have - want) // 2 for have, want in zip(depth.shape, size, strict=True))
    return depth[top : top + size[0], left : left + size[1]]


class DepthAnythingEstimator(DepthMaps):
    """The ``DepthEstimator`` role on ``DepthAnythingForDepthEstimation``.

    The checkpoint's configuration states whether it is metric or relative.
    """

    network = "transformers:DepthAnythingForDepthEstimation"

    def __init__(self, model: Any, processor: Any, name: str, *, batch_size: int = 8) -> None:
        relative = model.config.depth_estimation_type == "relative"
        super().__init__(model, processor, name, relative=relative, batch_size=batch_size)


class DptEstimator(DepthMaps):
    """The :class:`~viper.models.vision.roles.DepthEstimator` role on ``DPTForDepthEstimation``.

    MiDaS checkpoints (``Intel/dpt-large``, ``Intel/dpt-beit-large-512``, …) predict
    nearness, those trained on metres (``facebook/dpt-dinov2-base-nyu``, …) predict depth.
    The configuration does not say which, so ``metric`` has to.

    Source: Ranftl et al. 2020, MiDaS; Ranftl et al. 2021, DPT.

    Args:
        metric: whether the model predicts depth, larger being farther.
    """

    network = "transformers:DPTForDepthEstimation"

    def __init__(self, *parts: Any, metric: bool = False, batch_size: int = 8) -> None:
        super().__init__(*parts, relative=not metric, batch_size=batch_size)
