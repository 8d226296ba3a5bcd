"""What models of pictures and words share: the parts to load, and pictures by the batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from viper.models.loading import LoadOptions, load_pretrained, load_processor, model_id
from viper.models.vision.roles import Pixels


class PictureModel(NamedTuple):
    """A loaded checkpoint in parts, in the order in which backends take them.

    Attributes:
        model: the network, on its device and ready to answer.
        name: what goes into traces and cache keys.
    """

    model: Any
    image_processor: Any
    tokenizer: Any
    name: str


def load_picture_model(kind: Any, source: str | Path, options: LoadOptions) -> PictureModel:
    """The parts of a folder or a published checkpoint.

    Args:
        kind: a class of transformers with ``from_pretrained``.

    Raises:
        ModelError: nothing loadable there, or it does not fit.
    """
    from transformers import AutoImageProcessor, AutoTokenizer

    return PictureModel(
        load_pretrained(kind, source, options),
        load_processor(AutoImageProcessor, source, options),
        load_processor(AutoTokenizer, source, options),
        model_id(source),
    )


def processed(image_processor: Any, images: Sequence[Pixels], **how: Any) -> Any:
    """What an image processor makes of pictures ``uint8 [H, W, 3]``: torch tensors by name."""
    copies = [np.array(image) for image in images]  # torch refuses read-only arrays
    how = {"input_data_format": "channels_last", "return_tensors": "pt", **how}
    return image_processor(images=copies, **how)
