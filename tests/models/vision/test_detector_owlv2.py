from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.models.vision.swapping import answer_with
from viper.errors import ModelError
from viper.models.vision.boxes import MIN_SCORE, NMS_IOU, suppress
from viper.models.vision.detector_owlv2 import DEFAULT_THRESHOLD, Owlv2Detector, _pixel_boxes
from viper.models.vision.roles import Detector
from viper.storage.cache import RecentTexts
from viper.testing.conformance import check_detector


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny untrained checkpoint in the layout that ``from_pretrained`` reads."""
    import torch

    from viper_lab.recipes.detector import export
    from viper_lab.recipes.detector_model import DetectorShape, DetectorTrainer, new_model
    from viper_lab.recipes.text import train_tokenizer

    torch.manual_seed(0)
    shape = DetectorShape(
        image_size=64, width=32, layers=1, heads=2, mlp=64, text_width=32, text_mlp=64
    )
    tokenizer = train_tokenizer(["small red metal cube", "big blue ball"], 60, shape.text_length)
    trainer = DetectorTrainer(new_model(shape, tokenizer))
    torch.nn.init.constant_(trainer.model.class_head.logit_shift.bias, 0.0)
    target = tmp_path_factory.mktemp("weights") / "detector"
    export(trainer, shape, tokenizer, target)
    return target


@pytest.fixture(scope="module")
def detector(folder: Path) -> Owlv2Detector:
    return Owlv2Detector.from_pretrained(folder)


def picture(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def test_it_keeps_to_its_role(detector: Owlv2Detector) -> None:
    check_detector(detector)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_answers(folder: Path, dtype: str) -> None:
    half = Owlv2Detector.from_pretrained(folder, dtype=dtype, device="cpu")
    check_detector(half, tolerance=5e-2)


def test_it_plays_the_role(detector: Owlv2Detector) -> None:
    assert isinstance(detector, Detector)
    name, digest = detector.model_id.split("@")
    assert name == "detector" and len(digest) == 12


@pytest.mark.parametrize(("height", "width"), [(48, 64), (64, 48), (30, 100), (200, 200), (1, 1)])
def test_boxes_lie_in_the_picture_best_first(
    detector: Owlv2Detector, height: int, width: int
) -> None:
    encoding = detector.encode([picture(height, width)])[0]
    (found,) = detector.detect(encoding, ["red cube"])
    scores = [d.score for d in found]
    assert scores == sorted(scores, reverse=True)
    assert all(MIN_SCORE <= score <= 1 for score in scores)
    for x0, y0, x1, y1 in (d.box for d in found):
        assert 0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height


def test_each_phrase_stands_alone(detector: Owlv2Detector) -> None:
    encoding = detector.encode([picture(48, 64)])[0]
    together = detector.detect(encoding, ["red cube", "blue ball", "red cube"])
    assert together[0] == together[2]
    for found, phrase in zip(together, ["red cube", "blue ball"], strict=False):
        (alone,) = detector.detect(encoding, [phrase])
        assert [d.box for d in alone] == [d.box for d in found]
        np.testing.assert_allclose([d.score for d in alone], [d.score for d in found], rtol=1e-5)


def test_a_batch_gives_what_single_pictures_give(detector: Owlv2Detector) -> None:
    images = [picture(48, 64, 1), picture(64, 40, 2)]
    batched = detector.encode(images)
    for image, encoding in zip(images, batched, strict=True):
        single = detector.encode([image])[0]
        np.testing.assert_allclose(single.boxes, encoding.boxes, atol=1e-3)
        np.testing.assert_allclose(single.features, encoding.features, atol=1e-4)


def test_an_encoding_keeps_nothing_of_its_batch_alive(detector: Owlv2Detector) -> None:
    encoding, *_ = detector.encode([picture(48, 64, seed) for seed in range(4)])
    assert encoding.features.untyped_storage().nbytes() == encoding.features.nbytes
    for array in (encoding.boxes, encoding.objectness, encoding.kept):
        assert array.base is None or array.base.nbytes == array.nbytes


def test_a_phrase_is_encoded_once(detector: Owlv2Detector, monkeypatch: pytest.MonkeyPatch) -> None:
    tower, asked = detector._model.owlv2.text_model, []
    forward = tower.forward
    monkeypatch.setattr(
        tower, "forward", lambda *args, **kwargs: asked.append(1) or forward(*args, **kwargs)
    )
    encoding = detector.encode([picture(48, 64)])[0]
    for _ in range(3):
        detector.detect(encoding, ["green cone", "green cone"])
    assert len(asked) == 1


def test_a_very_long_phrase_is_cut_not_refused(detector: Owlv2Detector) -> None:
    encoding = detector.encode([picture(48, 64)])[0]
    assert len(detector.detect(encoding, ["red cube " * 100, "ünusual ☃"])) == 2


def test_nothing_in_nothing_out(detector: Owlv2Detector) -> None:
    assert detector.encode([]) == []
    assert detector.detect(detector.encode([picture(8, 8)])[0], []) == []


def test_shares_of_the_padded_square_become_pixels() -> None:
    shares = np.array([[0.5, 0.25, 0.5, 0.25], [0.95, 0.7, 0.3, 0.4]], np.float32)
    boxes = _pixel_boxes(shares, 150, 200)
    np.testing.assert_allclose(boxes[0], [50, 25, 150, 75])
    np.testing.assert_allclose(boxes[1], [160, 100, 200, 150])


def test_suppression_drops_near_copies_weak_and_empty_boxes() -> None:
    boxes = np.array(
        [[0, 0, 10, 10], [0, 0, 10, 9], [20, 0, 30, 10], [5, 5, 5, 9], [40, 0, 50, 10]], np.float32
    )
    scores = np.array([0.5, 0.9, 0.2, 0.8, MIN_SCORE / 2], np.float32)
    kept = suppress(boxes, scores)
    assert [d.box for d in kept] == [(0, 0, 10, 9), (20, 0, 30, 10)]
    assert NMS_IOU == 0.5


def test_the_calibrated_threshold_is_read(folder: Path, detector: Owlv2Detector) -> None:
    assert detector.default_threshold == DEFAULT_THRESHOLD
    (folder / "viper.json").write_text(json.dumps({"threshold": 0.37}))
    try:
        assert Owlv2Detector.from_pretrained(folder).default_threshold == 0.37
    finally:
        (folder / "viper.json").unlink()


def test_no_checkpoint_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such folder"):
        Owlv2Detector.from_pretrained(tmp_path / "absent")


def test_one_line_of_a_profile_gives_it_its_role(folder: Path, tmp_path: Path) -> None:
    line = f'{{ backend = "owlv2", model = "{folder}" }}'
    assert answer_with("detector", line, tmp_path) == "True"


def test_the_phrases_of_a_long_run_are_not_all_kept(detector: Owlv2Detector) -> None:
    (encoding,) = detector.encode([picture(48, 64)])
    phrases = [f"thing {number}" for number in range(40)]
    expected = detector.detect(encoding, phrases)
    before, detector._phrases = detector._phrases, RecentTexts(5)
    try:
        for first in range(0, 40, 4):
            found = detector.detect(encoding, phrases[first : first + 4])
            for boxes, right in zip(found, expected[first : first + 4], strict=True):
                assert [box.score for box in boxes] == pytest.approx([box.score for box in right])
        assert len(detector._phrases) == 5
    finally:
        detector._phrases = before


def test_examples_of_the_picture_stand_for_a_phrase(detector: Owlv2Detector) -> None:
    encoding, other = detector.encode([picture(64, 64), picture(64, 64, seed=1)])
    sides = encoding.boxes[:, 2:] - encoding.boxes[:, :2]
    largest = tuple(encoding.boxes[sides.prod(1).argmax()].tolist())
    (first, *_) = boxes = detector.detect_like(encoding, encoding, [largest])
    assert first.box == pytest.approx(largest, abs=0.01)
    assert [each.score for each in boxes] == sorted((each.score for each in boxes), reverse=True)
    two = detector.detect_like(other, encoding, [largest, (0.0, 0.0, 8.0, 8.0)])
    one = detector.detect_like(other, encoding, [largest])
    assert two[0].score >= one[0].score
