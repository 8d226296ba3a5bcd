"""Depth estimation with the depth models of transformers.

``depth`` pads thin pictures, runs pictures of one size together, brings the maps back to the size
of the picture by the library's post-processing, and cuts the padding off.

The output of metric models is unchanged. Relative models predict nearness, so theirs is inverted.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from viper.errors import ProfileError
from viper.models.libraries import torch
from viper.models.loading import Checkpoint, in_equal_groups
from viper.models.vision.boxes import require_finite
from viper.models.vision.image_processing import padded, prepared
from viper.models.vision.roles import Floats, Pixels

# Families that always predict depth in metres.
METRIC_FAMILIES = frozenset({"depth_pro", "glpn", "tipsv2_dpt", "zoedepth"})

# Families that fail on pictures with a side below so many pixels, which are therefore padded. GLPN
# rounds sides down to multiples of 32, and ZoeDepth mirrors more pixels than a thin one has.
LEAST_SIDES = MappingProxyType({"glpn": 32, "zoedepth": 32})


@dataclass(frozen=True)
class DepthInput:
    """Picture as a depth model takes it.

    Attributes:
        pixel_values: float [3, h, w].
        size: (height, width) of the picture.
        frame: the same after padding right and below.
    """

    pixel_values: Any
    size: tuple[int, int]
    frame: tuple[int, int]


class DepthMaps(Checkpoint):
    """The ``DepthEstimator`` role on a family of ``AutoModelForDepthEstimation``.

    A *metric* model's output is unchanged. A *relative* model predicts nearness (inverse depth up
    to scale and shift). Its output is inverted so that larger is farther, and its values compare
    within one picture only.

    The configuration of Depth Anything states which one it is, and :data:`METRIC_FAMILIES` are
    metric. DPT is taken for relative: MiDaS checkpoints (``Intel/dpt-large``, …) are, but those
    trained on metres (``facebook/dpt-dinov2-base-nyu``, …) need ``metric``.

    Source: Ranftl et al. 2020, MiDaS; Ranftl et al. 2021, DPT; Yang et al. 2024, Depth Anything V2.

    Args:
        model: the network; its output holds ``predicted_depth``.
        processor: its image processor.
        name: goes into traces and cache keys.
        metric: True if it predicts depth, False if nearness; None reads the configuration.
        batch_size: maximum number of pictures in one forward pass.

    Raises:
        ProfileError: the configuration does not say which, and ``metric`` is None.
    """

    network = "transformers:AutoModelForDepthEstimation"

    def __init__(self, *parts: Any, metric: bool | None = None, batch_size: int = 8) -> None:
        super().__init__(*parts, batch_size=batch_size)
        family = self._model.config.model_type
        stated = getattr(self._model.config, "depth_estimation_type", None)
        if metric is None and stated is not None:
            metric = stated == "metric"
        if metric is None:
            metric = family in METRIC_FAMILIES
            if not metric and family != "dpt":
                raise ProfileError(
                    f"{self.model_id}: a {family} model does not say whether larger is farther; "
                    "set metric = true or metric = false in its options"
                )
        self._relative = not metric

    def depth(self, images: Sequence[Pixels]) -> list[Floats]:
        """Return a map ``float32 [H, W]`` per image at the image's own size; larger is farther.

        Raises:
            ModelError: a depth is not finite.
        """
        return self.encode_prepared([self.prepare(image) for image in images])

    @property
    def prepare(self) -> Callable[[Pixels], DepthInput]:
        """See :class:`~viper.models.vision.roles.PreparesPictures`."""
        least = LEAST_SIDES.get(self._model.config.model_type, 0)
        return partial(_prepared, self._processor, least)

    def encode_prepared(self, inputs: Sequence[DepthInput]) -> list[Floats]:
        """Return what :meth:`depth` returns, for prepared pictures."""
        return in_equal_groups(inputs, lambda each: each.size, self._batch_size, self._forward)

    def _forward(self, inputs: Sequence[DepthInput]) -> list[Floats]:
        (height, width), frame = inputs[0].size, inputs[0].frame
        settings, finish = self._processor, self._processor.post_process_depth_estimation
        with torch.inference_mode():
            pixels = torch.stack([each.pixel_values for each in inputs])
            outputs = self._model(**self._fitted({"pixel_values": pixels}))
            # A processor that pads without resizing makes the input larger than the picture.
            pads = getattr(settings, "do_pad", False) and not settings.do_resize
            input_size = tuple(pixels.shape[-2:]) if pads else frame
            sizes = {"target_sizes": [input_size] * len(inputs)}
            if "source_sizes" in inspect.signature(finish).parameters:
                sizes["source_sizes"] = sizes["target_sizes"]  # ZoeDepth cuts its padding off
            sized = finish(outputs, **sizes)
        # The picture's own part: the input may be padded on all sides, its frame right and below.
        top, left = ((have - want) // 2 for have, want in zip(input_size, frame, strict=True))
        wholes = [entry["predicted_depth"].float().cpu().numpy() for entry in sized]
        own = np.s_[top : top + height, left : left + width]
        maps = [whole.reshape(input_size)[own] for whole in wholes]
        require_finite(self.model_id, "depths", *maps)
        return [nearness_to_depth(each) for each in maps] if self._relative else maps


def _prepared(image_processor: Any, least: int, image: Pixels) -> DepthInput:
    framed = padded(image, least, mode="edge")
    return DepthInput(prepared(image_processor, framed), image.shape[:2], framed.shape[:2])


def nearness_to_depth(nearness: Floats) -> Floats:
    """Return a bounded, decreasing function of nearness: the farthest point is at most 100."""
    # A relative model's zero point is arbitrary; .01 keeps the inverse finite there and hardly
    # changes what is near.
    scale = max(float(nearness.max()), 1e-6)
    return np.asarray(1.0 / (np.maximum(nearness, 0) / scale + 0.01), dtype=np.float32)
