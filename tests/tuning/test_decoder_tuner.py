"""Prompts beside a decoder's inputs, on a tiny untrained OWLv2 and a tiny untrained MaskFormer."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.models.vision.tiny_owl import tiny_owl
from tests.models.vision.tiny_segmenters import mask2former, maskformer, save
from tests.tuning import test_loc_tuner, test_seg_tuner
from viper.errors import CancelledError, UsageError
from viper.models.vision.boxes import pixel_boxes
from viper.models.vision.detector_owlv2 import Owlv2Detector
from viper.models.vision.segmenter_maskformer import MaskFormerSegmenter
from viper.models.vision.soft_prompts import DECODER_PROMPTS, LearnedPrompt
from viper.tuning.soft_prompts.base import TOOLS, TunerOptions, tuner_for
from viper.tuning.soft_prompts.decoder import START, LocDecoder, SegDecoder

KEPT = TunerOptions(steps=3, validate=False)


@pytest.fixture(scope="module")
def detector(tmp_path_factory):
    return Owlv2Detector.from_pretrained(tiny_owl(tmp_path_factory.mktemp("owl") / "detector"))


@pytest.fixture(scope="module")
def segmenter(tmp_path_factory):
    folder = save(maskformer, tmp_path_factory.mktemp("segmenter"))
    return MaskFormerSegmenter.from_pretrained(folder)


def learn(tuner, backend, data, options=KEPT, on_progress=None):
    @contextmanager
    def using():
        yield backend

    return tuner(using, data, options, on_progress).trained()


def prompt(vectors, concept="zebra"):
    return LearnedPrompt(concept, np.asarray(vectors, np.float32))


def test_the_form_is_chosen_by_an_option_and_other_tools_have_only_one():
    options = TunerOptions(decoder=True)
    assert tuner_for(options.tuner_of("loc")) is LocDecoder
    assert tuner_for(options.tuner_of("seg")) is SegDecoder
    assert options.tuner_of("match") == "match" and TunerOptions().tuner_of("loc") == "loc"
    assert not any("decoder" in name for name in TOOLS)


def test_without_vectors_the_decoder_of_the_detector_gives_the_boxes_and_scores_of_the_tower(
    detector,
):
    encoding = detector.encode([test_loc_tuner.picture(0).pixels()])[0]
    with torch.no_grad():
        none = torch.zeros(0, detector.decoder_width)
        logits, boxes = detector.decoded(encoding, none, ["a cube"])
        text = detector._encoded_texts(["a cube"])[0]
        plain, _ = detector._model.class_predictor(encoding.features[None], text[None, None])
    assert torch.allclose(logits, plain[0], atol=1e-4)
    assert np.allclose(pixel_boxes(boxes.numpy(), (64, 64), (64, 64)), encoding.boxes, atol=1e-3)


def test_without_vectors_the_decoder_of_the_segmenter_gives_its_own_masks(segmenter):
    encoding = segmenter.encode(test_seg_tuner.picture(0, ("red", "blue"), "blue").pixels())
    with torch.no_grad():
        with_none = segmenter.decoded(encoding, torch.zeros(0, segmenter.decoder_width))
        with_some = segmenter.decoded(encoding, torch.ones(5, segmenter.decoder_width))
    plain = segmenter.query_logits(encoding)
    assert torch.allclose(with_none.masks_queries_logits, plain.masks_queries_logits, atol=1e-4)
    assert not torch.allclose(with_some.masks_queries_logits, plain.masks_queries_logits)


@pytest.mark.parametrize(("tuner", "lesson"), [
    (LocDecoder, test_loc_tuner.lesson), (SegDecoder, test_seg_tuner.lesson),
])  # fmt: skip
def test_each_picture_trains_its_own_vectors_and_no_weight(tuner, lesson, detector, segmenter):
    backend = detector if tuner is LocDecoder else segmenter
    before, data = test_loc_tuner.digest(backend), lesson()
    first, second, *_ = learn(tuner, backend, data)
    assert test_loc_tuner.digest(backend) == before
    assert first.prompt.vectors.shape == (DECODER_PROMPTS, backend.decoder_width)
    assert first.evidence.trained_on == (data.positives[0].picture_id,)
    assert not np.allclose(first.prompt.vectors, second.prompt.vectors)
    untrained = learn(tuner, backend, data, replace(KEPT, steps=0))
    assert np.array_equal(untrained[0].prompt.vectors, untrained[1].prompt.vectors)
    assert untrained[0].prompt.vectors.std() == pytest.approx(START, rel=0.2)
    assert all(parameter.grad is None for parameter in backend._model.parameters())


@pytest.mark.parametrize(
    ("tuner", "steps", "rate"), [(LocDecoder, 60, 3e-2), (SegDecoder, 60, 1e-2)]
)
def test_training_lowers_the_loss_of_the_own_picture(
    tuner, steps, rate, detector, segmenter, monkeypatch
):
    losses, loss = [], tuner.loss

    def recorded(self, backend, at, *rest):
        value, is_right = loss(self, backend, at, *rest)
        losses.append(float(value.detach()))
        return value, False

    monkeypatch.setattr(tuner, "loss", recorded)
    loc = tuner is LocDecoder
    data = (test_loc_tuner if loc else test_seg_tuner).lesson(positives=2)
    learn(tuner, detector if loc else segmenter, data, replace(KEPT, steps=steps, rate=rate))
    assert len(losses) == 2 * steps and losses[steps - 1] < 0.9 * losses[0]


def test_training_stops_once_its_own_picture_is_right_and_discards_what_never_is(
    detector, monkeypatch
):
    calls, loss = [], LocDecoder.loss

    def right_at_second(self, backend, at, *rest):
        calls.append(at)
        return loss(self, backend, at, *rest)[0], at == 0 and calls.count(0) == 2

    monkeypatch.setattr(LocDecoder, "loss", right_at_second)
    monkeypatch.setattr(LocDecoder, "why_not", lambda *_: "")
    first, second = learn(LocDecoder, detector, test_loc_tuner.lesson(2), TunerOptions(steps=4))
    assert (calls.count(0), calls.count(1)) == (2, 4)
    assert first.kept and second.why == LocDecoder.unfit


def test_the_names_of_the_loss_are_the_concept_another_and_absent_ones(detector):
    data = test_loc_tuner.lesson(2)
    absent = frozenset(f"thing {number}" for number in range(40))
    positives = tuple(replace(each, absent=absent) for each in data.positives)
    tuner = LocDecoder(None, replace(data, positives=positives))
    tuner.scenes = [type("Scene", (), {"pixels": each.pixels()}) for each in positives]
    names, kinds, boxes = tuner.lesson(0)
    assert names[:2] == ["zebra", "cube"] and len(names) == 2 + 13 and set(names[2:]) <= absent
    assert sorted(kinds) == [0, 1] and boxes.shape == (2, 4)
    assert float(boxes[0, 2]) == pytest.approx(16 / 64)


def test_prompts_change_boxes_and_scores_of_their_concept(detector):
    encoding = detector.encode([test_loc_tuner.picture(1).pixels()])[0]
    vectors = np.random.default_rng(0).normal(size=(DECODER_PROMPTS, detector.decoder_width))
    plain = detector.detect(encoding, ["zebra"])[0]
    adapted = detector.detect_adapted(encoding, "zebra", [prompt(vectors)])
    assert adapted and [each.box for each in adapted] != [each.box for each in plain]
    assert detector.surest(encoding, "zebra", [prompt(vectors)]) == pytest.approx(adapted[0].score)
    probe = prompt(np.zeros((275, detector.decoder_width)), "dome")
    with pytest.raises(UsageError, match="cannot be mixed"):
        detector.detect_adapted(encoding, "zebra dome", [prompt(vectors), probe])


def test_outlines_of_any_name_judge_the_segmenter(segmenter, monkeypatch):
    seen = {"without": False}

    def segments(encoding, names):
        seen["without"] = True
        return []

    monkeypatch.setattr(segmenter, "segments", segments)
    trained = learn(SegDecoder, segmenter, test_seg_tuner.lesson(), TunerOptions(steps=1))
    assert seen["without"]
    assert all("held-out pictures of it" in each.why for each in trained if not each.kept)


def test_a_mask2former_takes_none(tmp_path):
    other = MaskFormerSegmenter.from_pretrained(save(mask2former, tmp_path))
    with pytest.raises(UsageError, match="only the decoder of a MaskFormer takes prompts"):
        learn(SegDecoder, other, test_seg_tuner.lesson())


def test_a_cancelled_training_gives_no_prompt(detector):
    def stop(done, total):
        raise CancelledError("stop")

    with pytest.raises(CancelledError):
        learn(LocDecoder, detector, test_loc_tuner.lesson(2), on_progress=stop)
