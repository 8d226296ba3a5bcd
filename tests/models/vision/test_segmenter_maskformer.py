"""The segmenter backend on tiny MaskFormer, Mask2Former and EoMT checkpoints."""

import json
from types import SimpleNamespace

import pytest

from tests.models.vision.tiny_segmenters import (
    LABELS,
    eomt,
    mask2former,
    maskformer,
    pictures,
    save,
)
from viper.errors import ModelError, ProfileError
from viper.models.vision.image_processing import preprocess
from viper.models.vision.roles import Segmenter
from viper.models.vision.segmenter_maskformer import MaskFormerSegmenter
from viper.profiles.backends import check_options, resolve_backend
from viper.testing.conformance import check_segmenter


@pytest.fixture(
    scope="module", params=[maskformer, mask2former, eomt], ids=lambda make: make.__name__
)
def folder(request, tmp_path_factory):
    return save(request.param, tmp_path_factory.mktemp(request.param.__name__))


def loaded(folder, **options):
    """All that the queries say: no segment is dropped for its score or for what it keeps."""
    return MaskFormerSegmenter.from_pretrained(folder, threshold=0.0, overlap=0.0, **options)


def test_it_keeps_to_its_role(folder):
    segmenter = loaded(folder)
    found = [segmenter.segments(segmenter.encode(picture), None) for picture in pictures()]
    assert all(found), "the tiny model must say something for the rules to look at"
    check_segmenter(segmenter, pictures())


def test_its_halves_say_what_the_whole_network_says(folder):
    import torch

    segmenter = loaded(folder)
    picture = pictures()[0]
    batch = preprocess(segmenter._processor, [picture])
    with torch.inference_mode():
        whole = segmenter._model(pixel_values=batch["pixel_values"])
    said = segmenter.query_logits(segmenter.encode(picture))
    assert torch.equal(said.class_queries_logits, whole.class_queries_logits)
    assert torch.equal(said.masks_queries_logits, whole.masks_queries_logits)


def test_names_are_compared_as_people_write_them(folder):
    segmenter = loaded(folder)
    encoding = segmenter.encode(pictures()[0])
    walls = [each for each in segmenter.segments(encoding, None) if each.label == "Wall "]
    assert len(segmenter.segments(encoding, [" WALL"])) == len(walls)


def test_labels_of_the_background_are_dropped(folder):
    picture = pictures()[0]
    everything, objects = loaded(folder), loaded(folder, background=["Background"])
    said = everything.segments(everything.encode(picture), None)
    kept = objects.segments(objects.encode(picture), None)
    assert everything.labels == LABELS and objects.labels == LABELS[:2]
    assert [each.label for each in kept] == [e.label for e in said if e.label != "background"]
    assert objects.segments(objects.encode(picture), ["background"]) == []


def test_a_higher_threshold_leaves_fewer(folder):
    segmenter, strict = loaded(folder), MaskFormerSegmenter.from_pretrained(folder, threshold=1.0)
    picture = pictures()[0]
    assert segmenter.segments(segmenter.encode(picture), None)
    assert strict.segments(strict.encode(picture), None) == []


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_answers(folder, dtype):
    half = loaded(folder, dtype=dtype, device="cpu")
    found = half.segments(half.encode(pictures()[0]), None)
    assert found and all(0 <= each.score <= 1 for each in found)


@pytest.fixture(scope="module")
def plain_folder(tmp_path_factory):
    return save(maskformer, tmp_path_factory.mktemp("plain"))


def test_the_folder_may_state_its_background(plain_folder, tmp_path):
    import shutil

    copy = shutil.copytree(plain_folder, tmp_path / "copy")
    (copy / "viper.json").write_text(json.dumps({"background": ["background"]}))
    assert loaded(copy).labels == LABELS[:2]
    assert loaded(copy, background=[]).labels == LABELS


@pytest.mark.parametrize("text", ['{"background": "sky"}', '{"background": [1]}', "not json"])
def test_a_statement_that_cannot_be_read_is_a_model_error(plain_folder, tmp_path, text):
    import shutil

    copy = shutil.copytree(plain_folder, tmp_path / "copy")
    (copy / "viper.json").write_text(text)
    with pytest.raises(ModelError, match="viper.json cannot be loaded as a statement"):
        loaded(copy)


def test_it_plays_its_role(plain_folder):
    segmenter = loaded(plain_folder)
    assert isinstance(segmenter, Segmenter)
    assert segmenter.model_id.startswith(plain_folder.name + "@")
    assert segmenter.memory_bytes > 1000
    assert resolve_backend("segmenter", "maskformer").endswith(":MaskFormerSegmenter")


def test_another_family_is_named_with_those_that_can_segment():
    model = SimpleNamespace(config=SimpleNamespace(model_type="oneformer"))
    with pytest.raises(ModelError, match="a oneformer model cannot .* known: maskformer, mask2"):
        MaskFormerSegmenter(model, None, "mine")


@pytest.mark.parametrize("cut", ["threshold", "overlap"])
def test_a_cut_outside_its_range_is_refused(plain_folder, cut):
    with pytest.raises(ProfileError, match=f"the option {cut} is 1.5; expected 0 to 1"):
        MaskFormerSegmenter.from_pretrained(plain_folder, **{cut: 1.5})


def test_an_option_that_it_does_not_take_is_named():
    with pytest.raises(ProfileError, match="of its own it takes: threshold, overlap, background"):
        check_options("segmenter", "maskformer", {"batch": 3})


def test_a_folder_without_a_model_is_a_model_error(tmp_path):
    with pytest.raises(ModelError, match="cannot be loaded as"):
        MaskFormerSegmenter.from_pretrained(tmp_path)
