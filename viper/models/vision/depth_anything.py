"""Monocular depth by a Depth Anything model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Unpack

from viper.models.loading import Loading, LoadOptions, load_pretrained, load_processor, model_id
from viper.models.vision.depth_maps import DepthMaps


class DepthAnythingEstimator(DepthMaps):
    """The ``DepthEstimator`` role on ``DepthAnythingForDepthEstimation``.

    The checkpoint's configuration states whether it is metric or relative.
    """

    def __init__(self, model: Any, processor: Any, name: str, batch_size: int = 8) -> None:
        relative = model.config.depth_estimation_type == "relative"
        super().__init__(model, processor, name, relative=relative, batch_size=batch_size)

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
