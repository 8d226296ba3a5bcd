"""Segmentation by SAM 2 and SAM 3 on tiny checkpoints with random weights."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tests.models.vision.built import save
from tests.models.vision.heads import SHAPES, rectangle, see_masks
from viper.embedded import EMBEDDED, MEDIA
from viper.errors import ModelError, ProfileError
from viper.models.vision.roles import Detection, Detector, Segmenter
from viper.models.vision.segmenter_sam import (
    VOCABULARY,
    NamedSegments,
    Sam2Segmenter,
    Sam3Detector,
    Sam3Segmenter,
)
from viper.profiles import load_profile
from viper.testing.conformance import KnownObject, check_detector, check_segmenter


class Boxes:
    """A detector that knows which boxes each name has: shares of the picture, and a score."""

    model_id = "boxes"

    def __init__(self, **known: list[tuple[tuple[float, float, float, float], float]]) -> None:
        self.known = known
        self.encoded = 0

    def encode(self, images: list[np.ndarray]) -> list[tuple[int, int]]:
        self.encoded += len(images)
        return [image.shape[:2] for image in images]

    def detect(self, encoding: tuple[int, int], phrases: list[str]) -> list[list[Detection]]:
        height, width = encoding
        sides = np.array([width, height] * 2)
        return [
            [Detection(tuple(sides * box), score) for box, score in self.known.get(phrase, [])]
            for phrase in phrases
        ]


ALL = ((0.0, 0.0, 1.0, 1.0), 0.6)


@pytest.fixture(scope="module")
def sam2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save("sam2", tmp_path_factory.mktemp("weights") / "sam2")


@pytest.fixture(scope="module")
def sam3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save("sam3", tmp_path_factory.mktemp("weights") / "sam3")


def on_boxes(folder: Path, detector: Any, **options: Any) -> Sam2Segmenter:
    segmenter = Sam2Segmenter.from_pretrained(folder, **options)
    segmenter.detector = detector
    return segmenter


def outliner(folder: Path, detector: Any, **options: Any) -> Sam2Segmenter:
    """SAM 2 that outlines the bright rectangle inside a box."""
    segmenter = on_boxes(folder, detector, **options)
    see_masks(segmenter._model)
    return segmenter


def box_of(mask: np.ndarray) -> tuple[int, ...]:
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return columns[0], rows[0], columns[-1] + 1, rows[-1] + 1


def picture(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def test_sam2_keeps_to_its_role(sam2: Path) -> None:
    halves = {"cup": [((0, 0, 0.5, 1), 0.9)], "dog": [((0.5, 0, 1, 1), 0.5)]}
    segmenter = outliner(sam2, Boxes(**halves))
    assert isinstance(segmenter, Segmenter)
    images = [picture(30, 60), picture(44, 26)]
    assert len(segmenter.segments(segmenter.encode(images[0]), None)) == 2
    check_segmenter(segmenter, images)
    assert segmenter.model_id.startswith("sam2@") and segmenter.model_id.endswith("+boxes")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sam2_outlines_a_known_object_at_its_pixels(sam2: Path, shape: tuple[int, int]) -> None:
    segmenter = outliner(sam2, Boxes(cup=[ALL]))
    image, box = rectangle(shape)
    (segment,) = segmenter.segments(segmenter.encode(image), None)
    assert segment.label == "cup" and segment.score == 0.6
    assert box_of(segment.mask) == pytest.approx(box, abs=one_step(shape, 16))
    moved = np.array(box) - [4, 3, 4, 3]
    (segment,) = segmenter.segments(segmenter.encode(image[3:, 4:]), None)
    assert box_of(segment.mask) == pytest.approx(moved, abs=one_step(shape, 16))


def one_step(shape: tuple[int, int], side: int) -> float:
    """A pixel, and a quarter of a place of a tiny network's own mask."""
    return 1 + max(shape) / side / 4


def test_boxes_are_given_to_sam2_in_the_pixels_that_it_sees(sam2: Path) -> None:
    from transformers import Sam2Processor

    detector = Boxes(cup=[((0.25, 0.5, 0.75, 1), 0.6)])
    segmenter = on_boxes(sam2, detector)
    image = picture(40, 60)
    asked: list[Any] = []
    forward = segmenter._model.forward
    segmenter._model.forward = lambda **inputs: asked.append(inputs) or forward(**inputs)
    (ours,) = segmenter.segments(segmenter.encode(image), ["cup"])
    processor = Sam2Processor.from_pretrained(sam2)
    inputs = processor(image, input_boxes=[[[15, 20, 45, 40]]], return_tensors="pt")
    assert torch.allclose(asked[0]["input_boxes"], inputs["input_boxes"])
    with torch.inference_mode():
        whole = forward(
            pixel_values=inputs["pixel_values"],
            input_boxes=inputs["input_boxes"],
            multimask_output=False,
        )
    theirs = processor.post_process_masks(whole.pred_masks, inputs["original_sizes"])[0][0, 0]
    assert (ours.mask == theirs.numpy()).mean() > 0.99


def test_both_towers_run_once_a_picture(sam2: Path) -> None:
    detector = Boxes(cup=[ALL], dog=[ALL])
    segmenter = outliner(sam2, detector)
    tower, runs = segmenter._model.vision_encoder, []
    forward = tower.forward
    tower.forward = lambda *args, **kwargs: runs.append(1) or forward(*args, **kwargs)
    encoding = segmenter.encode(picture(40, 30))
    segmenter.segments(encoding, None)
    segmenter.segments(encoding, ["dog"])
    assert len(runs) == detector.encoded == 1


def test_many_boxes_are_outlined_in_batches(sam2: Path) -> None:
    columns = [((i / 5, 0, (i + 1) / 5, 1), 0.5 + i / 100) for i in range(5)]
    segmenter = outliner(sam2, Boxes(cup=columns), batch_size=2)
    image = np.full((40, 60, 3), 255, np.uint8)
    image[-1] = 0
    segments = segmenter.segments(segmenter.encode(image), ["cup"])
    assert [each.score for each in segments] == [0.54, 0.53, 0.52, 0.51, 0.5]


def test_sam2_video_repositories_are_read(sam2: Path, tmp_path: Path) -> None:
    """Published SAM 2 checkpoints state the family of the video model."""
    from transformers import Sam2Config, Sam2VideoConfig, Sam2VideoModel

    config = Sam2Config.from_pretrained(sam2).to_dict()
    parts = ("vision_config", "prompt_encoder_config", "mask_decoder_config")
    more = {
        "image_size": 64,
        "memory_attention_hidden_size": 32,
        "memory_attention_feed_forward_hidden_size": 32,
        "memory_attention_rope_feat_sizes": [4, 4],
        "memory_encoder_hidden_size": 32,
        "mask_downsampler_embed_dim": 32,
        "memory_fuser_embed_dim": 32,
        "memory_fuser_intermediate_dim": 32,
        "memory_encoder_output_channels": 8,
    }
    made = Sam2VideoConfig(**{name: config[name] for name in parts}, **more)
    Sam2VideoModel(made).save_pretrained(tmp_path)
    for path in sam2.glob("*processor*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    segmenter = outliner(tmp_path, Boxes(cup=[ALL]))
    image, _ = rectangle((40, 30))
    assert len(segmenter.segments(segmenter.encode(image), None)) == 1


def test_a_family_without_box_prompts_is_refused(tmp_path: Path, sam2: Path) -> None:
    segmenter = Sam2Segmenter.from_pretrained(sam2)
    segmenter._model.config.model_type = "sam"
    with pytest.raises(ModelError, match="new: a sam model cannot segment here; known: edgetam"):
        Sam2Segmenter(segmenter._model, segmenter._processor, "new")


class Masks(NamedSegments):
    """Segments of known masks."""

    usual_threshold = 0.2

    def __init__(self, *known: tuple[str, float, np.ndarray], **options: Any) -> None:
        model = torch.nn.Linear(1, 1)
        model.config = SimpleNamespace(model_type="known")
        super().__init__(model, None, "known", **options)
        self.known = sorted(known, key=lambda each: -each[1])
        self.asked: list[list[str]] = []

    def _masks(self, encoding: Any, names: list[str]) -> Any:
        self.asked.append(list(names))
        return (each for each in self.known if each[0] in names)


def columns(start: int, end: int) -> np.ndarray:
    """A mask of 4 x 10 pixels, True in these columns."""
    mask = np.zeros((4, 10), np.bool_)
    mask[:, start:end] = True
    return mask


SIZE = SimpleNamespace(size=(4, 10))


def test_the_better_of_two_masks_has_their_common_pixels() -> None:
    found = Masks(("cup", 0.9, columns(0, 5)), ("dog", 0.5, columns(3, 10)))
    cup, dog = found.segments(SIZE, None)
    assert (cup.mask == columns(0, 5)).all() and (dog.mask == columns(5, 10)).all()
    assert (cup.label, dog.label) == ("cup", "dog")


def test_a_mask_that_keeps_too_little_is_dropped() -> None:
    found = Masks(("cup", 0.9, columns(0, 7)), ("bowl", 0.8, columns(2, 9)))
    assert [each.label for each in found.segments(SIZE, None)] == ["cup"]
    assert len(Masks(*found.known, overlap=0.2).segments(SIZE, None)) == 2


def test_names_beyond_the_vocabulary_are_looked_for_alone() -> None:
    found = Masks(("llama", 0.4, columns(0, 5)), ("animal", 0.9, columns(0, 5)))
    (llama,) = found.segments(SIZE, ["Llama", "llama ", " "])  # the last spelling is asked for
    assert found.asked == [["llama"]] and llama.label == "llama"
    assert found.segments(SIZE, []) == [] and len(found.asked) == 1


def test_names_of_the_vocabulary_give_what_they_give_without_names() -> None:
    found = Masks(("cup", 0.9, columns(0, 5)), ("dog", 0.5, columns(3, 10)))
    (dog,) = found.segments(SIZE, ["dog"])
    assert (dog.mask == columns(5, 10)).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 2}, "the option threshold is 2; expected 0 to 1"),
        ({"overlap": -1}, "the option overlap is -1; expected 0 to 1"),
        ({"vocabulary": "cup"}, "the option vocabulary is 'cup'; expected a list of texts"),
        ({"vocabulary": []}, "the option vocabulary has 0 texts; expected 1 or more"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        Masks(**options)


def test_the_vocabulary_has_the_names_of_coco() -> None:
    assert len(set(VOCABULARY)) == len(VOCABULARY) == 102
    assert VOCABULARY[79] == "toothbrush" and all(name == name.strip() for name in VOCABULARY)


def test_sam3_keeps_to_the_role_of_a_segmenter(sam3: Path) -> None:
    segmenter = Sam3Segmenter.from_pretrained(sam3, threshold=0.0, vocabulary=["a cup", "a dog"])
    assert isinstance(segmenter, Segmenter)
    images = [picture(30, 60), picture(44, 26)]
    found = [segmenter.segments(segmenter.encode(image), None) for image in images]
    assert all(found), "the tiny model must find something for the rules to look at"
    for image, segments in zip(images, found, strict=True):
        again = segmenter.segments(segmenter.encode(image), None)
        assert all((a.mask == b.mask).all() for a, b in zip(segments, again, strict=True))
        assert (np.sum([each.mask for each in segments], axis=0) <= 1).all()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sam3_finds_a_known_object_at_its_pixels(sam3: Path, shape: tuple[int, int]) -> None:
    segmenter = Sam3Segmenter.from_pretrained(sam3)
    see_masks(segmenter._model)
    detector = Sam3Detector(
        segmenter._model, segmenter._processor, segmenter._tokenizer, "the same"
    )
    image, box = rectangle(shape)
    for left, top in ((0, 0), (4, 3)):
        crop, moved = image[top:, left:], np.array(box) - [left, top, left, top]
        (segment,) = segmenter.segments(segmenter.encode(crop), ["a cup"])
        assert box_of(segment.mask) == pytest.approx(moved, abs=one_step(shape, 16))
        assert segment.score == pytest.approx(0.95, abs=1e-3)
        (found, other) = detector.detect(detector.encode([crop])[0], ["a cup", "the dog"])
        assert found[0].box == box_of(segment.mask) and len(found) == len(other) == 1


def test_sam3_gives_each_text_the_instances_of_the_library(sam3: Path) -> None:
    from transformers import Sam3Processor

    segmenter = Sam3Segmenter.from_pretrained(sam3)
    processor, image = Sam3Processor.from_pretrained(sam3), picture(40, 60)
    inputs = processor(image, text="a dog", return_tensors="pt")
    inputs.pop("original_sizes")
    with torch.inference_mode():
        whole = segmenter._model(**inputs)
    (theirs,) = processor.post_process_instance_segmentation(
        whole, threshold=0.0, target_sizes=[(40, 60)]
    )
    ours, _ = segmenter._instances(segmenter._look(image), ["a dog", "a cup"], 0.0)
    assert len(ours) == len(theirs["scores"]) == 8
    order = theirs["scores"].argsort(descending=True, stable=True)
    for instance, place in zip(ours, order, strict=True):
        assert instance[1] == pytest.approx(float(theirs["scores"][place]), abs=1e-4)


def test_sam3_keeps_to_the_role_of_a_detector(sam3: Path) -> None:
    detector = Sam3Detector.from_pretrained(sam3)
    assert isinstance(detector, Detector)
    check_detector(detector, phrases=["a dog", "the cup"], weak=1.0)
    see_masks(detector._model)
    image, box = rectangle((96, 128))
    known = KnownObject(image, "a cup", box)
    check_detector(detector, [image, image.transpose(1, 0, 2).copy()], known=[known], weak=1.0)


def test_the_tower_of_sam3_runs_once_a_picture(sam3: Path) -> None:
    detector = Sam3Detector.from_pretrained(sam3)
    tower, runs = detector._model.vision_encoder, []
    forward = tower.forward
    tower.forward = lambda *args, **kwargs: runs.append(1) or forward(*args, **kwargs)
    encoding = detector.encode([picture(40, 30)])[0]
    detector.detect(encoding, ["a dog", "a cup", "the red ball on the sofa " * 9, ""])
    assert len(runs) == 1


@pytest.mark.parametrize("backend", ["sam2", "sam3"])
def test_masks_that_are_not_numbers_are_an_error(sam2: Path, sam3: Path, backend: str) -> None:
    segmenter: Any = (
        on_boxes(sam2, Boxes(cup=[ALL]))
        if backend == "sam2"
        else Sam3Segmenter.from_pretrained(sam3, threshold=0.0)
    )
    forward = segmenter._model.forward

    def broken(**inputs):
        output = forward(**inputs)
        output.pred_masks = torch.full_like(output.pred_masks, torch.nan)
        return output

    segmenter._model.forward = broken
    with pytest.raises(ModelError, match=r'^sam.*masks that are not .*dtype = "float32"'):
        segmenter.segments(segmenter.encode(picture(40, 60)), ["cup"])


def test_sam3_video_repositories_are_read(sam3: Path, tmp_path: Path) -> None:
    """Published SAM 3 checkpoints state the family of the video model and hold its tracker."""
    from safetensors.torch import load_file, save_file
    from transformers import AutoConfig, Sam3VideoConfig

    detector = AutoConfig.from_pretrained(sam3).to_dict()
    Sam3VideoConfig(detector_config=detector).save_pretrained(tmp_path)
    weights = load_file(sam3 / "model.safetensors")
    named = {f"detector_model.{name}": value for name, value in weights.items()}
    save_file(
        {**named, "tracker_model.spare": torch.zeros(2)},
        tmp_path / "model.safetensors",
        {"format": "pt"},
    )
    for path in (*sam3.glob("*processor*.json"), *sam3.glob("*token*"), *sam3.glob("vocab*")):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    ours, theirs = (Sam3Segmenter.from_pretrained(each) for each in (tmp_path, sam3))
    image = picture(40, 60)
    one, other = (each._instances(each._look(image), ["a dog"], 0.0)[0] for each in (ours, theirs))
    assert [each[1] for each in one] == [each[1] for each in other]


def test_another_kind_of_model_is_refused(tmp_path: Path) -> None:
    folder = save("dpt", tmp_path / "dpt")
    with pytest.raises(ModelError, match="it is a dpt model, not sam3"):
        Sam3Segmenter.from_pretrained(folder)
    with pytest.raises(ModelError, match="cannot be loaded as AutoModelForMaskGeneration"):
        Sam2Segmenter.from_pretrained(folder)


def profile(folder: Path, sam2: Path, *, detector: bool) -> Path:
    """The embedded profile with SAM 2 as its segmenter, with or without its detector."""
    text = (EMBEDDED / "embedded.toml").read_text("utf-8")
    line = f'segmenter = {{ backend = "sam2", model = "{sam2}", options = {{ threshold = 0.3 }} }}'
    text, replaced = re.subn(r"(?m)^segmenter = .*$", lambda _: line, text)
    text = text if detector else re.sub(r"(?m)^detector = .*$", "", text)
    path = folder / "sam.toml"
    path.write_text(text, encoding="utf-8")
    assert replaced == 1
    return path


def test_a_profile_s_own_detector_finds_the_boxes(sam2: Path, tmp_path: Path) -> None:
    profile_ = load_profile(str(profile(tmp_path, sam2, detector=True)))
    assert profile_.problems() == []
    models = profile_.components().toolbox.models
    image = np.asarray(Image.open(MEDIA / "table.png").convert("RGB"))
    with models.using("segmenter") as segmenter:
        see_masks(segmenter._model)
        segments = segmenter.segments(segmenter.encode(image), ["cube", "ball"])
        assert segments and {each.label for each in segments} <= {"cube", "ball"}
        assert all(each.score >= 0.3 for each in segments)
        assert segmenter.model_id.startswith("sam2@") and "+detector@" in segmenter.model_id
    assert {"segmenter", "detector"} <= set(models.loaded())


def test_a_profile_without_a_detector_is_told_so(sam2: Path, tmp_path: Path) -> None:
    (problem,) = load_profile(str(profile(tmp_path, sam2, detector=False))).problems()
    assert problem == "segmenter: the backend 'sam2' needs a detector in [roles]"
