"""Monocular depth by a DPT model, MiDaS among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Unpack

from viper.models.loading import Loading, LoadOptions, load_pretrained, load_processor, model_id
from viper.models.vision.depth_maps import DepthMaps


class DptEstimator(DepthMaps):
    """The :class:`~viper.models.vision.roles.DepthEstimator` role on ``DPTForDepthEstimation``.

    MiDaS checkpoints (``Intel/dpt-large``, ``Intel/dpt-beit-large-512``, …) predict
    nearness, those trained on metres (``facebook/dpt-dinov2-base-nyu``, …) predict depth.
    The configuration does not say which, so ``metric`` has to.

    Source: Ranftl et al. 2020, MiDaS; Ranftl et al. 2021, DPT.

    Args:
        metric: whether the model predicts depth, larger being farther.
    """

    def __init__(
        self, model: Any, processor: Any, name: str, *, metric: bool = False, batch_size: int = 8
    ) -> None:
        super().__init__(model, processor, name, relative=not metric, batch_size=batch_size)

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path,
        *,
        metric: bool = False,
        batch_size: int = 8,
        **loading: Unpack[Loading],
    ) -> DptEstimator:
        """Loads a folder or a published checkpoint.

        Raises:
            ModelError: nothing loadable under that name.
        """
        from transformers import AutoImageProcessor, DPTForDepthEstimation

        options = LoadOptions(**loading)
        model = load_pretrained(DPTForDepthEstimation, source, options)
        processor = load_processor(AutoImageProcessor, source, options)
        return cls(model, processor, model_id(source), metric=metric, batch_size=batch_size)
