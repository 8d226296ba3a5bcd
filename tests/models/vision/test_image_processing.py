"""Large pictures are made smaller before a processor scales them down; small ones are not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from viper.models.vision.image_processing import preprocess


class Processor(SimpleNamespace):
    def __call__(self, images: list[Any], **how: Any) -> Any:
        return [image.shape[:2] for image in images]


SQUARE = {"height": 192, "width": 192}


@pytest.mark.parametrize(
    ("shape", "size", "pads", "given"),
    [
        ((1000, 1499), SQUARE, True, (1000, 1499)),
        ((3000, 4000), SQUARE, True, (300, 400)),
        ((500, 4000), SQUARE, True, (50, 400)),  # a square of 4,000 would be made of it
        ((500, 4000), SQUARE, False, (500, 4000)),
        ((3000, 4000), {"shortest_edge": 224}, False, (500, 667)),
        ((3000, 4000), {"height": 1008, "width": 1008}, True, (3000, 4000)),
        ((3000, 4000), None, False, (3000, 4000)),
    ],
)
def test_what_a_processor_gets(
    shape: tuple[int, int], size: dict[str, int] | None, pads: bool, given: tuple[int, int]
) -> None:
    processor = Processor(size=size, do_pad=pads)
    assert preprocess(processor, [np.zeros((*shape, 3), np.uint8)]) == [given]


def test_a_picture_looks_the_same_to_the_network() -> None:
    import transformers

    processor = transformers.Owlv2ImageProcessor(size={"height": 96, "width": 96})
    coarse = np.random.default_rng(0).integers(0, 255, (12, 16, 3), np.uint8)
    large = np.kron(coarse, np.ones((125, 125, 1), np.uint8))
    ours = preprocess(processor, [large])["pixel_values"]
    whole = processor(images=[large], return_tensors="pt", input_data_format="channels_last")
    assert ours.shape == whole["pixel_values"].shape
    assert float((ours - whole["pixel_values"]).abs().mean()) < 0.05
