"""Depth estimators of transformers: the family of Depth Anything, and DPT.

The output of metric models is unchanged. Relative models predict nearness, so theirs is inverted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viper.models.loading import Checkpoint, in_equal_groups, preprocess
from viper.models.vision.roles import Floats, Pixels


class DepthMaps(Checkpoint):
    """A :class:`~viper.models.vision.roles.DepthEstimator` on a depth model of transformers.

    A *metric* model's output is unchanged. A *relative* model predicts nearness (inverse depth up
    to scale and shift). Its output is inverted so that larger is farther, and its values compare
    within one picture only.

    Args:
        model: the network; its output holds ``predicted_depth``.
        processor: its image processor.
        name: goes into traces and cache keys.
        relative: True if it predicts nearness.
        batch_size: maximum number of pictures in one forward pass.
    """

    def __init__(
        self, model: Any, processor: Any, name: str, *, relative: bool, batch_size: int
    ) -> None:
        super().__init__(model, processor, name, batch_size=batch_size)
        self._relative = relative

    def depth(self, images: Sequence[Pixels]) -> list[Floats]:
        """Return a map ``float32 [H, W]`` per image at the image's own size; larger is farther."""
        return in_equal_groups(images, lambda image: image.shape, self._batch_size, self._forward)

    def _forward(self, images: Sequence[Pixels]) -> list[Floats]:
        import torch

        size = images[0].shape[:2]
        with torch.inference_mode():
            batch = preprocess(self._processor, images)
            outputs = self._model(**self._fitted(batch))
            input_size = self._input_size(size, batch["pixel_values"].shape[-2:])
            sized = self._processor.post_process_depth_estimation(
                outputs, target_sizes=[input_size] * len(images)
            )
        maps = [_middle(entry["predicted_depth"].float().cpu().numpy(), size) for entry in sized]
        return [nearness_to_depth(each) for each in maps] if self._relative else maps

    def _input_size(self, size: tuple[int, ...], padded: Sequence[int]) -> tuple[int, ...]:
        """Return height and width, in pixels of the picture, of the model's input.

        It is larger than the picture if the processor pads the picture without resizing it.
        """
        settings = self._processor
        pads = getattr(settings, "do_pad", False) and not settings.do_resize
        return tuple(padded) if pads else tuple(size)


def nearness_to_depth(nearness: Floats) -> Floats:
    """Return a bounded, decreasing function of nearness: the farthest point is at most 100."""
    scale = max(float(nearness.max()), 1e-6)
    return np.asarray(1.0 / (np.maximum(nearness, 0) / scale + 0.01), dtype=np.float32)


def _middle(depth: Floats, size: Sequence[int]) -> Floats:
    """Return the picture's own part ``[H, W]`` of a map that was padded equally on all sides."""
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
    The configuration does not say which, so ``metric`` must.

    Source: Ranftl et al. 2020, MiDaS; Ranftl et al. 2021, DPT.

    Args:
        metric: True if the model predicts depth, larger being farther.
    """

    network = "transformers:DPTForDepthEstimation"

    def __init__(self, *parts: Any, metric: bool = False, batch_size: int = 8) -> None:
        super().__init__(*parts, relative=not metric, batch_size=batch_size)
