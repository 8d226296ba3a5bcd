"""Monocular depth by a Depth Anything model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from viper.tools.loading import Loading, LoadOptions, LocalModel, load_pretrained, load_processor
from viper.tools.model_id import model_id
from viper.tools.roles import Floats, Pixels


class DepthAnythingEstimator(LocalModel):
    """A :class:`~viper.tools.roles.DepthEstimator` on ``DepthAnythingForDepthEstimation``.

    A *metric* model's output is passed on. A *relative* model predicts nearness
    (inverse depth up to scale and shift); it is turned round, so that larger is
    farther, and such values compare within one picture only.
    """

    def __init__(self, model: Any, processor: Any, name: str, batch_size: int = 8) -> None:
        self.model_id = name
        self._model = model.eval()
        self._processor = processor
        self._batch_size = batch_size
        self._relative = model.config.depth_estimation_type == "relative"

    @classmethod
    def from_pretrained(
        cls, source: str | Path, *, batch_size: int = 8, **loading: Unpack[Loading]
    ) -> DepthAnythingEstimator:
        """Loads a folder or a published checkpoint.

        Raises:
            ModelError: nothing loadable under that name.
        """
        from transformers import AutoImageProcessor, DepthAnythingForDepthEstimation

        options = LoadOptions(**loading)
        model = load_pretrained(DepthAnythingForDepthEstimation, source, options)
        processor = load_processor(AutoImageProcessor, source, options)
        return cls(model, processor, model_id(source), batch_size)

    def depth(self, images: Sequence[Pixels]) -> list[Floats]:
        """A map ``float32 [H, W]`` an image at the image's own size; larger is farther."""
        maps: dict[int, Floats] = {}
        for group in _same_size_groups(images, self._batch_size):
            maps.update(zip(group, self._forward([images[i] for i in group]), strict=True))
        return [maps[i] for i in range(len(images))]

    def _forward(self, images: Sequence[Pixels]) -> list[Floats]:
        import torch

        with torch.inference_mode():
            copies = [np.array(image) for image in images]  # torch refuses read-only arrays
            batch = self._processor(images=copies, return_tensors="pt")
            outputs = self._model(**self._fitted(batch))
            sized = self._processor.post_process_depth_estimation(
                outputs, target_sizes=[image.shape[:2] for image in images]
            )
        maps = [entry["predicted_depth"].float().cpu().numpy() for entry in sized]
        return [_nearness_to_depth(each) for each in maps] if self._relative else maps


def _nearness_to_depth(nearness: Floats) -> Floats:
    """A bounded, decreasing function of nearness: the farthest point is at most 100."""
    scale = max(float(nearness.max()), 1e-6)
    return np.asarray(1.0 / (np.maximum(nearness, 0) / scale + 0.01), dtype=np.float32)


def _same_size_groups(images: Sequence[Pixels], batch_size: int) -> list[list[int]]:
    """Indexes of images that may share a forward pass: equal in size, ``batch_size`` at most."""
    by_size: dict[tuple[int, ...], list[int]] = {}
    for index, image in enumerate(images):
        by_size.setdefault(image.shape, []).append(index)
    return [
        group[start : start + batch_size]
        for group in by_size.values()
        for start in range(0, len(group), batch_size)
    ]
