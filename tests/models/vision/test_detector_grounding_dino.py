"""The Grounding DINO backend on a tiny checkpoint with random weights."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.models.vision.swapping import answer_with
from viper.errors import ModelError
from viper.models.vision.boxes import MIN_SCORE
from viper.models.vision.detector_grounding_dino import (
    MAX_ASPECT,
    GroundingDinoDetector,
    as_prompt,
    detections,
)
from viper.models.vision.roles import Detector
from viper.testing.conformance import check_detector

WORDS = ["red", "blue", "cube", "ball", "dog", "dogs", "a", "the", "on", "sofa", "two"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    from transformers import (
        BertConfig,
        BertTokenizer,
        GroundingDinoConfig,
        GroundingDinoForObjectDetection,
        GroundingDinoImageProcessor,
        GroundingDinoProcessor,
        SwinConfig,
    )

    # The network knows the tokens that part phrases by BERT's own numbers.
    tokens = [f"[unused{i}]" for i in range(1040)]
    tokens[0], tokens[100], tokens[101], tokens[102] = "[PAD]", "[UNK]", "[CLS]", "[SEP]"
    tokens[1012], tokens[1029] = ".", "?"
    tokens[200 : 200 + len(WORDS)] = WORDS
    tokenizer = BertTokenizer(vocab={token: i for i, token in enumerate(tokens)})
    swin = SwinConfig(
        image_size=32,
        patch_size=4,
        embed_dim=8,
        depths=[1, 1, 1, 1],
        num_heads=[1, 1, 2, 2],
        window_size=2,
        out_indices=[2, 3, 4],
        initializer_range=0.3,
    )
    text = BertConfig(
        vocab_size=len(tokens),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        initializer_range=0.5,
    )
    config = GroundingDinoConfig(
        backbone_config=swin,
        text_config=text,
        num_queries=20,
        encoder_layers=1,
        encoder_ffn_dim=64,
        encoder_attention_heads=4,
        decoder_layers=2,
        decoder_ffn_dim=64,
        decoder_attention_heads=4,
        d_model=64,
        max_text_len=32,
        init_std=0.3,
    )
    torch.manual_seed(0)
    model = GroundingDinoForObjectDetection(config)
    for head in (*model.bbox_embed, model.model.encoder_output_bbox_embed):
        torch.nn.init.normal_(head.layers[-1].weight, std=0.1)
    last = model.model.encoder.layers[-1].text_enhancer_layer.layer_norm_after
    torch.nn.init.constant_(last.weight, 0.7)
    path = tmp_path_factory.mktemp("weights") / "dino"
    model.save_pretrained(path)
    images = GroundingDinoImageProcessor(size={"shortest_edge": 64, "longest_edge": 128})
    GroundingDinoProcessor(images, tokenizer).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def detector(folder: Path) -> GroundingDinoDetector:
    return GroundingDinoDetector.from_pretrained(folder)


def picture(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def test_it_keeps_to_its_role(detector: GroundingDinoDetector) -> None:
    check_detector(detector)


def test_it_plays_the_role(detector: GroundingDinoDetector, folder: Path) -> None:
    assert isinstance(detector, Detector)
    assert detector.model_id.startswith("dino@")
    weights = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    assert detector.memory_bytes == pytest.approx(weights, rel=0.2)


@pytest.mark.parametrize(("height", "width"), [(48, 96), (90, 40), (64, 64)])
@pytest.mark.parametrize("phrase", ["red cube", "two dogs on the sofa"])
def test_it_finds_what_the_library_finds(
    detector: GroundingDinoDetector, height: int, width: int, phrase: str
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
def test_very_thin_pictures_are_looked_at(detector: GroundingDinoDetector, shape) -> None:
    encoding = detector.encode([picture(*shape)])[0]
    assert max(encoding.frame) <= MAX_ASPECT * min(encoding.frame)
    (found,) = detector.detect(encoding, ["red cube"])
    for x0, y0, x1, y1 in (item.box for item in found):
        assert 0 <= x0 < x1 <= shape[1] and 0 <= y0 < y1 <= shape[0]


def test_the_backbone_runs_once_a_picture(
    detector: GroundingDinoDetector, monkeypatch: pytest.MonkeyPatch
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


def test_pictures_differ(detector: GroundingDinoDetector) -> None:
    one, other = detector.encode([picture(48, 64, 1), picture(48, 64, 2)])
    assert detector.detect(one, ["red cube"]) != detector.detect(other, ["red cube"])


def test_phrases_differ(detector: GroundingDinoDetector) -> None:
    encoding = detector.encode([picture(48, 64)])[0]
    cube, ball = detector.detect(encoding, ["red cube", "blue ball"])
    assert cube != ball


@pytest.mark.parametrize(
    ("phrase", "prompt"),
    [("Red Cube", "red cube."), (" dog. ", "dog."), ("no. 5 bus?", "no 5 bus."), ("", ".")],
)
def test_a_phrase_is_put_as_the_model_expects(phrase: str, prompt: str) -> None:
    assert as_prompt(phrase) == prompt


def test_a_very_long_phrase_is_cut_not_refused(detector: GroundingDinoDetector) -> None:
    encoding = detector.encode([picture(48, 64)])[0]
    assert len(detector.detect(encoding, ["red cube " * 100, "ünusual ☃", ""])) == 3


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_answers(folder: Path, dtype: str) -> None:
    half = GroundingDinoDetector.from_pretrained(folder, dtype=dtype, device="cpu")
    images = [picture(24, 40), picture(40, 24)]
    check_detector(half, images, phrases=["red cube", "ball"], tolerance=5e-2)
    full = GroundingDinoDetector.from_pretrained(folder, device="cpu")
    assert half.memory_bytes < 0.6 * full.memory_bytes


def test_no_checkpoint_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such folder"):
        GroundingDinoDetector.from_pretrained(tmp_path / "absent")


def test_one_line_of_a_profile_gives_it_its_role(folder: Path, tmp_path: Path) -> None:
    line = f'{{ backend = "grounding_dino", model = "{folder}" }}'
    assert answer_with("detector", line, tmp_path) == "True"
