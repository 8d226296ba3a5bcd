"""Outputs that are not finite are an error of every backend, never an empty result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.vision.tiny_blip import tiny_blip
from tests.models.vision.tiny_open_clip import tiny_matcher
from tests.models.vision.tiny_owl import tiny_owl
from tests.models.vision.tiny_segmenters import maskformer, save
from viper.errors import ModelError
from viper.models.vision.boxes import require_finite, suppress
from viper.models.vision.detector_owlv2 import Owlv2Detector
from viper.models.vision.segmenter_maskformer import MaskFormerSegmenter
from viper.models.vision.vqa_blip import BlipAnswerer

PICTURE = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)


def detect(folder: Path) -> tuple[Any, Callable[[Any], Any]]:
    return Owlv2Detector.from_pretrained(tiny_owl(folder)), lambda backend: backend.detect(
        backend.encode([PICTURE])[0], ["cube"]
    )


def match(folder: Path) -> tuple[Any, Callable[[Any], Any]]:
    return tiny_matcher("clip-vit"), lambda backend: backend.encode_images([PICTURE])


def segment(folder: Path) -> tuple[Any, Callable[[Any], Any]]:
    segmenter = MaskFormerSegmenter.from_pretrained(save(maskformer, folder))
    return segmenter, lambda backend: backend.segments(backend.encode(PICTURE), None)


def answer(folder: Path) -> tuple[Any, Callable[[Any], Any]]:
    answerer = BlipAnswerer.from_pretrained(tiny_blip(folder))
    return answerer, lambda backend: backend.answer(backend.encode([PICTURE]), ["what is this?"])


@pytest.mark.parametrize("case", [detect, match, segment, answer], ids=lambda case: case.__name__)
def test_a_broken_network_is_an_error_with_the_next_step(case: Any, tmp_path: Path) -> None:
    import torch

    backend, use = case(tmp_path)
    use(backend)
    for weights in backend._model.parameters():
        torch.nn.init.constant_(weights, torch.nan)
    with pytest.raises(ModelError, match=r'not finite numbers; .*dtype = "float32"') as caught:
        use(backend)
    assert str(caught.value).startswith(f"{backend.model_id}: ")


def test_infinite_boxes_and_scores_are_errors_too() -> None:
    boxes, scores = np.array([[0, 0, 9, 9]], np.float32), np.array([0.5], np.float32)
    assert len(suppress(boxes, scores, "mine")) == 1
    for broken in ((boxes + np.inf, scores), (boxes, scores + np.inf)):
        with pytest.raises(ModelError, match="^mine: boxes that"):
            suppress(*broken, "mine")
    require_finite("mine", "depths")
