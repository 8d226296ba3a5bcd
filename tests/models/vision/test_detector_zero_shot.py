"""The zero-shot detectors of transformers on tiny checkpoints with random weights."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.models.vision.built import DETECTORS, save
from tests.models.vision.heads import SHAPES, rectangle, see_boxes
from tests.models.vision.swapping import answer_with
from viper.errors import ModelError
from viper.models.vision.boxes import MIN_SCORE
from viper.models.vision.detector_zero_shot import ZeroShotDetector, as_prompt, detections
from viper.models.vision.image_processing import MAX_ASPECT
from viper.models.vision.roles import Detector
from viper.testing.conformance import check_detector

KEPT = ("grounding_dino", "mm_grounding_dino")
WHOLE = ("omdet_turbo", "owlvit", "owlv2")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    weights = tmp_path_factory.mktemp("weights")
    return {family: save(family, weights / family) for family in DETECTORS}


@pytest.fixture(scope="module", params=KEPT)
def folder(request: pytest.FixtureRequest, folders: dict[str, Path]) -> Path:
    return folders[request.param]


@pytest.fixture(scope="module")
def detector(folder: Path) -> ZeroShotDetector:
    return ZeroShotDetector.from_pretrained(folder)


@pytest.fixture(scope="module", params=WHOLE)
def whole(request: pytest.FixtureRequest, folders: dict[str, Path]) -> ZeroShotDetector:
    return ZeroShotDetector.from_pretrained(folders[request.param])


def picture(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def test_it_keeps_to_its_role(detector: ZeroShotDetector) -> None:
    check_detector(detector, weak=0.3)


def test_it_plays_the_role(detector: ZeroShotDetector, folder: Path) -> None:
    assert isinstance(detector, Detector)
    assert detector.model_id.startswith(f"{folder.name}@")
    weights = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    assert detector.memory_bytes == pytest.approx(weights, rel=0.2)


@pytest.mark.parametrize(("height", "width"), [(48, 96), (90, 40), (64, 64)])
@pytest.mark.parametrize("phrase", ["red cube", "two dogs on the sofa"])
def test_it_finds_what_the_library_finds(
    detector: ZeroShotDetector, height: int, width: int, phrase: str
) -> None:
    import torch

    processor, image = detector._processor, picture(height, width)
    inputs = processor(images=image, text=f"{phrase}.", return_tensors="pt")
    with torch.inference_mode():
        output = detector._model(**inputs)
    theirs = processor.post_process_grounded_object_detection(
        output, inputs["input_ids"], threshold=MIN_SCORE, target_sizes=[(height, width)]
    )[0]
    limit = [width, height, width, height]
    boxes = np.clip(theirs["boxes"].numpy(), 0, limit)
    (ours,) = detector.detect(detector.encode([image])[0], [phrase])
    assert len(ours) > 3
    for item in ours:
        nearest = np.abs(boxes - np.array(item.box)).max(axis=1).argmin()
        np.testing.assert_allclose(boxes[nearest], item.box, atol=1e-2)
        assert item.score == pytest.approx(float(theirs["scores"][nearest]), abs=1e-4)
    assert ours[0].score == pytest.approx(float(theirs["scores"].max()), abs=1e-4)


@pytest.mark.parametrize(
    ("size", "expected"),
    [((100, 400), (100, 20, 300, 60)), ((400, 100), (25, 80, 75, 240))],
    ids=["wide", "tall"],
)
def test_shares_of_the_picture_become_pixels_of_it(size, expected) -> None:
    import torch

    shares = torch.tensor([[[0.5, 0.4, 0.5, 0.4], [0.95, 0.5, 0.3, 0.2]]])
    logits = torch.full((1, 2, 8), -torch.inf)
    logits[0, 0, 3], logits[0, 0, 2], logits[0, 1, 2] = 2.0, 1.0, -1.0
    (found,) = detections(SimpleNamespace(logits=logits, pred_boxes=shares), size)
    assert found[0].box == pytest.approx(expected)
    assert found[0].score == pytest.approx(1 / (1 + np.exp(-2)))
    height, width = size
    assert found[1].box == pytest.approx((0.8 * width, 0.4 * height, width, 0.6 * height))


def test_shares_of_a_padded_picture_refer_to_its_frame() -> None:
    import torch

    output = SimpleNamespace(
        logits=torch.zeros(1, 1, 4), pred_boxes=torch.tensor([[[0.5, 0.25, 0.5, 0.5]]])
    )
    (found,) = detections(output, (10, 320), (20, 320))
    assert found[0].box == pytest.approx((80, 0, 240, 10))


@pytest.mark.parametrize("shape", [(1, 300), (300, 1), (2, 2), (3, 40)])
def test_very_thin_pictures_are_looked_at(detector: ZeroShotDetector, shape) -> None:
    encoding = detector.encode([picture(*shape)])[0]
    assert max(encoding.frame) <= MAX_ASPECT * min(encoding.frame)
    (found,) = detector.detect(encoding, ["red cube"])
    for x0, y0, x1, y1 in (item.box for item in found):
        assert 0 <= x0 < x1 <= shape[1] and 0 <= y0 < y1 <= shape[0]


def test_the_backbone_runs_once_a_picture(
    detector: ZeroShotDetector, monkeypatch: pytest.MonkeyPatch
) -> None:
    tower, runs = detector._backbone().model, []
    forward = tower.forward
    monkeypatch.setattr(
        tower, "forward", lambda *args, **kwargs: runs.append(1) or forward(*args, **kwargs)
    )
    encoding = detector.encode([picture(48, 64)])[0]
    detector.detect(encoding, ["red cube", "a dog"])
    detector.detect(encoding, ["ball"])
    assert len(runs) == 1
    detector.encode([picture(48, 64, seed) for seed in range(3)])
    assert len(runs) == 2


def test_pictures_differ(detector: ZeroShotDetector) -> None:
    one, other = detector.encode([picture(48, 64, 1), picture(48, 64, 2)])
    assert detector.detect(one, ["red cube"]) != detector.detect(other, ["red cube"])


def test_phrases_differ(detector: ZeroShotDetector) -> None:
    encoding = detector.encode([picture(48, 64)])[0]
    cube, ball = detector.detect(encoding, ["red cube", "blue ball"])
    assert cube != ball


@pytest.mark.parametrize(
    ("phrase", "prompt"),
    [("Red Cube", "red cube."), (" dog. ", "dog."), ("no. 5 bus?", "no 5 bus."), ("", ".")],
)
def test_a_phrase_is_put_as_the_model_expects(phrase: str, prompt: str) -> None:
    assert as_prompt(phrase) == prompt


def test_a_very_long_phrase_is_cut_not_refused(detector: ZeroShotDetector) -> None:
    encoding = detector.encode([picture(48, 64)])[0]
    assert len(detector.detect(encoding, ["red cube " * 100, "ünusual ☃", ""])) == 3


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("family", WHOLE)
def test_families_that_run_whole_answer_in_half_precision(
    family: str, dtype: str, folders: dict[str, Path]
) -> None:
    detector = ZeroShotDetector.from_pretrained(folders[family], dtype=dtype, device="cpu")
    (encoding,) = detector.encode([picture(48, 96)])
    (boxes,) = detector.detect(encoding, ["red cube"])
    assert all(each.box[2] <= 96 and each.box[3] <= 48 for each in boxes)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_answers(folder: Path, dtype: str) -> None:
    half = ZeroShotDetector.from_pretrained(folder, dtype=dtype, device="cpu")
    images = [picture(24, 40), picture(40, 24)]
    check_detector(half, images, phrases=["red cube", "ball"], weak=1.0, tolerance=5e-2)
    full = ZeroShotDetector.from_pretrained(folder, device="cpu")
    assert half.memory_bytes < 0.6 * full.memory_bytes


def test_no_checkpoint_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such folder"):
        ZeroShotDetector.from_pretrained(tmp_path / "absent")


@pytest.mark.parametrize("backend", ["grounding_dino", "zero_shot"])
def test_one_line_of_a_profile_gives_it_its_role(
    folders: dict[str, Path], backend: str, tmp_path: Path
) -> None:
    line = f'{{ backend = "{backend}", model = "{folders["grounding_dino"]}" }}'
    assert answer_with("detector", line, tmp_path) == "True"


def test_families_that_run_whole_keep_to_their_role(whole: ZeroShotDetector) -> None:
    check_detector(whole, phrases=["red cube", "a ball"], weak=0.6)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("family", DETECTORS)
def test_a_known_box_comes_out_at_its_pixels(
    folders: dict[str, Path], family: str, shape: tuple[int, int]
) -> None:
    detector = ZeroShotDetector.from_pretrained(folders[family])
    see_boxes(detector._model)
    image, box = rectangle(shape)
    for per_phrase in detector.detect(detector.encode([image])[0], ["red cube", "two dogs"]):
        assert per_phrase[0].box == pytest.approx(box, abs=1.0)
        assert per_phrase[0].score == pytest.approx(0.95, abs=1e-3)


@pytest.mark.parametrize("family", DETECTORS)
def test_a_known_box_of_a_crop_comes_out_at_its_pixels(
    folders: dict[str, Path], family: str
) -> None:
    detector = ZeroShotDetector.from_pretrained(folders[family])
    see_boxes(detector._model)
    image, box = rectangle((90, 120))
    crop = image[5:80, 30:118]
    boxes = [detector.detect(each, ["ball"])[0] for each in detector.encode([image, crop])]
    assert boxes[0][0].box == pytest.approx(box, abs=1.0)
    moved = np.array(box) - [30, 5, 30, 5]
    assert boxes[1][0].box == pytest.approx(moved, abs=1.0)


@pytest.mark.parametrize("family", DETECTORS)
def test_scores_that_are_not_numbers_are_an_error(folders: dict[str, Path], family: str) -> None:
    import torch

    detector = ZeroShotDetector.from_pretrained(folders[family])
    forward = detector._model.forward

    def broken(*args, **kwargs):
        output = forward(*args, **kwargs)
        for name in ("logits", "decoder_class_logits"):
            if name in output:
                output[name] = torch.full_like(output[name], torch.nan)
        return output

    detector._model.forward = broken
    encoding = detector.encode([picture(48, 64)])[0]
    with pytest.raises(ModelError, match=r'not finite numbers; .*dtype = "float32"') as caught:
        detector.detect(encoding, ["red cube"])
    assert str(caught.value).startswith(detector.model_id)


def test_an_encoding_does_not_keep_its_batch(detector: ZeroShotDetector) -> None:
    encoding = detector.encode([picture(48, 64, seed) for seed in range(3)])[0]
    tensors = [encoding.mask, *(part for pair in encoding.maps for part in pair)]
    assert len(tensors) > 2
    for tensor in tensors:
        assert tensor.untyped_storage().nbytes() == tensor.nbytes


def test_another_kind_of_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be loaded as"):
        ZeroShotDetector.from_pretrained(save("dpt", tmp_path / "dpt"))


def test_a_survey_looks_for_many_names_in_few_texts(
    detector: ZeroShotDetector, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoding = detector.encode([picture(48, 64)])[0]
    texts = []
    forward = detector._model.forward
    monkeypatch.setattr(
        detector._model,
        "forward",
        lambda **inputs: texts.append(len(inputs["input_ids"][0])) or forward(**inputs),
    )
    names = ["red cube", "ball", "dog", "blue", "sofa"] * 5
    found = detector.survey(encoding, names)
    assert len(found) == 25 and sum(map(len, found)) > 5
    assert len(texts) == 2 and max(texts) <= 32  # 55 tokens, and two more for each text
    assert sum(texts) == 55 + 2 * len(texts)
    assert detector.survey(encoding, []) == []


def test_a_survey_of_one_name_finds_what_a_search_finds(detector: ZeroShotDetector) -> None:
    encoding = detector.encode([picture(48, 64)])[0]
    output = detector._forward(encoding, [detector._processor.tokenizer("ball.")["input_ids"]])
    score = float(output.logits[0].sigmoid()[:, 1].max())  # [CLS] ball . [SEP]
    (found,) = detector.survey(encoding, ["ball"])
    assert found[0].score == pytest.approx(score, abs=1e-5)


def test_a_box_of_a_survey_has_the_name_of_its_best_token(detector: ZeroShotDetector) -> None:
    import torch

    encoding = detector.encode([picture(48, 64)])[0]
    width = detector._model.config.max_text_len
    logits = torch.full((1, 2, width), -torch.inf)
    logits[0, 0, 2] = 1.0  # [CLS] red cube . ball . [SEP]
    logits[0, 1, 4] = 2.0
    boxes = torch.tensor([[[0.25, 0.5, 0.5, 1.0], [0.75, 0.5, 0.5, 1.0]]])
    detector._model.forward = lambda **_: SimpleNamespace(logits=logits, pred_boxes=boxes)
    try:
        cube, ball = detector.survey(encoding, ["red cube", "ball"])
    finally:
        del detector._model.forward
    assert [each.box for each in cube] == [(0, 0, 32, 48)]
    assert [each.box for each in ball] == [(32, 0, 64, 48)]


def test_families_that_run_whole_search_for_each_name(whole: ZeroShotDetector) -> None:
    encoding = whole.encode([picture(40, 30)])[0]
    assert whole.survey(encoding, ["ball", "dog"]) == whole.detect(encoding, ["ball", "dog"])
