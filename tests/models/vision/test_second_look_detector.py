"""How a prompt enters the detector, on a tiny untrained OWLv2 of the real classes."""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np
import pytest

from tests.models.vision.adapter_fakes import PromptsInMemory
from tests.models.vision.tiny_owl import WIDTH, tiny_owl
from viper.models.media import Media
from viper.models.vision.detector_owlv2 import MAYBE, Owlv2Detector
from viper.models.vision.second_look import (
    EDGE,
    MOST_MOVED,
    PLACES,
    Proposals,
    cut_out,
    detector_prompt,
    likely_objects,
    move_boxes,
    moves_between,
    overlaps,
    patch_features,
    rest_of,
    score_proposals,
)
from viper.models.vision.soft_prompts import AdaptableDetector, LearnedPrompt, SoftPrompt
from viper.sandbox import Ref
from viper.tools.models import ModelSet
from viper.tools.settings import ThresholdSchedule, ToolSettings
from viper.tools.tool_functions import detections
from viper.tools.toolbox import Toolbox


@pytest.fixture(scope="module")
def detector(tmp_path_factory):
    return Owlv2Detector.from_pretrained(tiny_owl(tmp_path_factory.mktemp("owl") / "detector"))


@pytest.fixture(scope="module")
def picture():
    return np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)


@pytest.fixture
def encoding(detector, picture):
    return detector.encode([picture])[0]


def digest(detector):
    state = hashlib.sha256()
    for name, tensor in sorted(detector._model.state_dict().items()):
        state.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return state.hexdigest()


def learned(shift, concept="zebra", seed=None):
    query = np.zeros(WIDTH_OF_QUERY, np.float32)
    if seed is not None:
        query = np.random.default_rng(seed).normal(size=WIDTH_OF_QUERY).astype(np.float32)
    return LearnedPrompt(concept, detector_prompt(query, shift))


WIDTH_OF_QUERY = WIDTH * PLACES


def test_it_can_be_taught(detector, encoding) -> None:
    assert isinstance(detector, AdaptableDetector)
    feature = detector.feature(encoding)
    assert feature.shape == (WIDTH,) and feature.dtype == np.float32
    assert np.allclose(feature, encoding.features.numpy().mean(0), atol=1e-6)


def test_a_prompt_changes_neither_weights_nor_what_others_are_answered(detector, encoding) -> None:
    before, plain = digest(detector), detector.detect(encoding, ["zebra", "red cube"])
    found = detector.detect_adapted(encoding, "red zebra", [learned(4.0)])
    assert found and [one.score for one in found] == sorted(one.score for one in found)[::-1]
    assert digest(detector) == before
    assert detector.detect(encoding, ["zebra", "red cube"]) == plain


def test_without_a_prompt_of_the_phrase_the_answers_are_the_same_bits(detector, picture) -> None:
    settings = ToolSettings({"detector.threshold": ThresholdSchedule(0.3, 0.1, 0.1)})
    pool = PromptsInMemory(
        {("loc", "zebra"): [SoftPrompt(np.ones(WIDTH, np.float32), np.zeros(0))]}
    )
    answers = []
    for prompts in (None, PromptsInMemory({}), pool):
        toolbox = Toolbox(ModelSet({"detector": lambda: detector}), settings)
        toolbox = toolbox if prompts is None else toolbox.with_soft_prompts(prompts)
        session = toolbox.session(Media((picture,)))
        region = session.region(Ref("image", ("image0", 64, 64)))
        answers.append(detections(session, region, "red cube"))
    assert answers[0] and answers[0] == answers[1] == answers[2]


def test_of_a_phrase_every_part_must_be_sure(detector, encoding, monkeypatch) -> None:
    def scores(phrase, *prompts):
        return {one.box: one.score for one in detector.detect_adapted(encoding, phrase, prompts)}

    # As sure as each word is what differs, not its embedding of an untrained tower.
    plain = {"object": 0.9, "red object": 0.4}
    patches = len(encoding.boxes)
    monkeypatch.setattr(
        detector, "_scores", lambda _, texts: np.array([[plain[text]] * patches for text in texts])
    )
    yes, no = learned(40.0), learned(-40.0, "striped")
    alone = scores("zebra", yes)
    assert alone, "what is surely the concept is as sure as it is an object"
    assert set(alone.values()) == {np.float32(0.9)}
    (red,) = set(scores("red zebra", yes).values())
    assert red == pytest.approx(0.4 ** (1 / 3)), "the rest counts too, a third"
    assert not scores("red zebra", learned(-40.0))
    assert not scores("zebra", learned(-40.0))
    assert not scores("striped zebra", yes, no)
    both = scores("striped zebra", yes, learned(40.0, "striped"))
    assert both == alone


def test_a_query_is_scored_by_the_logistic_function(detector, encoding) -> None:
    found = detector.proposals(encoding)
    query = np.random.default_rng(2).normal(size=WIDTH_OF_QUERY).astype(np.float32) / 40
    scores = score_proposals(found, detector_prompt(query, 0.5))
    logits = found.features @ query + 0.5
    assert np.allclose(scores, 1 / (1 + np.exp(-logits)), atol=1e-4)
    assert (scores >= 0).all() and (scores <= 1).all() and scores.dtype == np.float32


def test_a_prompt_of_another_width_is_refused(detector, encoding) -> None:
    found = detector.proposals(encoding)
    with pytest.raises(ValueError, match=r"shape \(1, 9\); this detector's are \(275, 32\)"):
        score_proposals(found, np.zeros((1, 9), np.float32))


def test_boxes_about_the_same_object_are_one_proposal(detector, encoding) -> None:
    found = detector.proposals(encoding)
    between = overlaps(found.boxes, found.boxes)
    assert (between - np.eye(len(between)) <= 0.5 + 1e-6).all()
    assert found.features.shape == (len(found.boxes), WIDTH_OF_QUERY)
    assert found.members.any(axis=1).all()
    patches = np.random.default_rng(3).random(len(encoding.boxes)).astype(np.float32)
    best = found.best(patches)
    for at, members in enumerate(found.members):
        assert best[at] == patches[members].max()


def test_a_picture_is_looked_at_again_once(detector, picture, monkeypatch) -> None:
    looked = []
    monkeypatch.setattr(
        detector, "_cutout_features", lambda pixels, boxes: looked.append(len(boxes)) or boxes
    )
    one, other = detector.encode([picture, picture[::-1]])
    first = detector.proposals(one)
    assert detector.proposals(other) is not first and detector.proposals(one) is first
    assert len(looked) == 2


def test_a_large_picture_is_kept_small_and_boxes_stay_where_they_are(detector) -> None:
    small = np.random.default_rng(5).integers(0, 256, (100, 120, 3), dtype=np.uint8)
    large = small.repeat(4, 0).repeat(4, 1)
    one, other = detector.encode([small, large])
    assert one.kept.shape == (100, 120, 3) and one.kept is not small
    assert other.kept.shape == (107, 128, 3) and other.size == (400, 480)
    found = detector.proposals(other)
    assert found.boxes[:, 2].max() > 300 and len(found.features) == len(found.boxes)
    seen = detector.detect_adapted(other, "zebra", [learned(40.0)])
    assert max(item.box[2] for item in seen) > 300


def shifting(to: float, seed: int) -> LearnedPrompt:
    """A prompt as sure everywhere, which moves boxes by what it sees in them."""
    rng = np.random.default_rng(seed)
    moves = rng.normal(size=(4, WIDTH_OF_QUERY + 1)).astype(np.float32) / 100
    return LearnedPrompt("zebra", detector_prompt(np.zeros(WIDTH_OF_QUERY, np.float32), to, moves))


def test_promising_boxes_move_again_by_what_they_show(detector, encoding, monkeypatch) -> None:
    monkeypatch.setattr(detector, "_scores", lambda _, texts: np.ones((1, len(encoding.boxes))))
    prompt = shifting(4.0, seed=6)
    found = detector.proposals(encoding)
    once = move_boxes(found, prompt.vectors, encoding.size)
    seen = detector._cutout_features(encoding, once)
    twice = move_boxes(Proposals(once, seen, found.members), prompt.vectors, encoding.size)
    assert not np.allclose(once, twice, atol=0.01)
    drawn = [one.box for one in detector.detect_adapted(encoding, "zebra", [prompt])]
    assert drawn and all(np.isclose(twice, box, atol=1e-3).all(axis=1).any() for box in drawn)


def test_only_boxes_that_may_show_the_concept_are_looked_at_again(
    detector, encoding, monkeypatch
) -> None:
    looks, looked = [], detector._cutout_features
    monkeypatch.setattr(
        detector, "_cutout_features", lambda *asked: looks.append(len(asked[1])) or looked(*asked)
    )
    found = detector.proposals(encoding)
    del looks[:]
    detector.detect_adapted(encoding, "zebra", [learned(-40.0)])
    assert looks == [], "no box is sure enough"
    query = np.random.default_rng(2).normal(size=WIDTH_OF_QUERY).astype(np.float32) / 10
    some = LearnedPrompt("zebra", detector_prompt(query, -2.0))
    maybe = int((score_proposals(found, some.vectors) >= MAYBE).sum())
    assert 0 < maybe < len(found.boxes)
    detector.detect_adapted(encoding, "zebra", [some])
    assert looks == [maybe]


@pytest.mark.parametrize("phrase", ["zebra", "red zebra"])
def test_the_surest_is_the_score_of_the_best_box_and_draws_none(
    detector, encoding, monkeypatch, phrase
) -> None:
    prompts = [learned(1.0, seed=8), learned(0.5, seed=9)]
    best = max(one.score for one in detector.detect_adapted(encoding, phrase, prompts))
    looks = []
    monkeypatch.setattr(detector, "_cutout_features", lambda *asked: looks.append(asked))
    assert detector.surest(encoding, phrase, prompts) == pytest.approx(best)
    assert looks == []
    nothing = dataclasses.replace(encoding, objectness=np.full_like(encoding.objectness, -9))
    monkeypatch.undo()
    assert detector.surest(nothing, phrase, prompts) == 0


@pytest.mark.parametrize("turn", range(3))
def test_a_texture_deviates_alike_wherever_it_begins(turn) -> None:
    import torch

    rng = torch.Generator().manual_seed(4)
    plain, stripe = torch.randn(2, 8, generator=rng)
    columns = (torch.arange(16) + turn) % 2 == 0  # of 16 x 16 patches, every other one
    patches = torch.where(columns[None, :, None], stripe, plain).expand(16, 16, 8)
    evens = (torch.arange(16) % 2 == 0)[None, :, None]
    unmoved = torch.where(evens, stripe, plain).expand(16, 16, 8)
    flat = plain.expand(16, 16, 8)
    said = patch_features(*[torch.stack([patches, unmoved, flat]).reshape(3, 256, 8)] * 2)
    deviations = said.reshape(3, PLACES, 8)[:, -2:]
    assert np.allclose(deviations[0], deviations[1], atol=1e-6)
    assert deviations[0].max() > 0.1 and np.allclose(deviations[2], 0, atol=1e-6)
    places = said.reshape(3, PLACES, 8)[:, :-2]
    assert (turn % 2 == 0) == np.allclose(places[0], places[1], atol=1e-6)


def test_what_lies_at_a_cut_outs_edge_is_no_texture_of_it() -> None:
    import torch

    rng = torch.Generator().manual_seed(5)
    plain, other = torch.randn(2, 8, generator=rng)
    patches = plain.expand(16, 16, 8).clone()
    patches[:EDGE], patches[:, -EDGE:] = other, other
    said = patch_features(*[patches.reshape(1, 256, 8)] * 2).reshape(PLACES, 8)
    assert np.allclose(said[-2:], 0, atol=1e-6)


def test_what_is_no_object_is_not_looked_at(encoding) -> None:
    boxes = np.array([[0, 0, 9, 9], [0, 1, 9, 9], [20, 20, 30, 30], [5, 5, 5, 9]], np.float32)
    kept, members = likely_objects(boxes, np.array([0.0, 1.0, -9.0, 2.0], np.float32))
    assert kept == [1] and members.tolist() == [[True, True, False, False]]
    none, _ = likely_objects(boxes, np.full(4, -9.0, np.float32))
    assert none == []


def test_a_picture_of_nothing_has_no_proposals(detector, encoding) -> None:
    nothing = dataclasses.replace(encoding, objectness=np.full_like(encoding.objectness, -9))
    found = detector.proposals(nothing)
    assert found.boxes.shape == (0, 4) and found.features.shape == (0, WIDTH_OF_QUERY)
    assert detector.detect_adapted(nothing, "zebra", [learned(40.0)]) == []


def test_a_cut_out_shows_the_box_and_a_little_around_it() -> None:
    pixels = np.full((40, 60, 3), 50, np.uint8)
    pixels[10:30, 20:30] = 200
    cut = cut_out(pixels, np.array([20, 10, 30, 30], np.float32), 50)
    assert cut.shape == (50, 50, 3) and cut.dtype == np.uint8
    assert (cut[25, 18:32] == 200).all() and (cut[25, :12] == 50).all() and (cut[2] == 50).all()
    edge = cut_out(pixels, np.array([0, 0, 10, 10], np.float32), 50)
    assert (edge[0] == 0).all() and (edge[25, 25] == 50).all()


def test_boxes_move_as_they_were_fitted_to() -> None:
    boxes = np.array([[10, 10, 30, 20], [40, 40, 60, 60]], np.float32)
    wanted = np.array([[12, 9, 34, 21], [38, 44, 56, 60]], np.float32)
    moves = moves_between(boxes, wanted)
    features = np.eye(2, PLACES, dtype=np.float32)  # each box has a feature of its own
    found = Proposals(boxes, features, np.ones((2, 1), bool))
    vectors = detector_prompt(np.zeros(PLACES), 0.0, np.c_[moves.T, np.zeros((4, PLACES - 1))])
    assert np.allclose(move_boxes(found, vectors, (100, 100)), wanted, atol=1e-4)
    assert np.allclose(move_boxes(found, vectors, (50, 50))[1], [38, 44, 50, 50], atol=1e-4)
    still = detector_prompt(np.zeros(PLACES), 0.0)
    assert np.array_equal(move_boxes(found, still, (100, 100)), boxes)
    far = moves_between(boxes, wanted + 500)
    assert np.abs(far).max() == MOST_MOVED, "no box is moved further than that"


def test_overlaps_are_intersection_over_union() -> None:
    one = np.array([[0, 0, 10, 10]], np.float32)
    others = np.array([[0, 0, 10, 5], [20, 20, 30, 30], [5, 0, 15, 10]], np.float32)
    assert np.allclose(overlaps(one, others), [[0.5, 0, 1 / 3]])
    assert overlaps(one, np.zeros((0, 4), np.float32)).shape == (1, 0)


@pytest.mark.parametrize(
    ("phrase", "concepts", "rest"),
    [
        ("pyramid", {"pyramid"}, "object"),
        ("Red  Pyramids", {"pyramid"}, "red object"),
        ("striped cube", {"striped"}, "cube"),
        ("striped pyramid", {"striped", "pyramid"}, "object"),
        ("red traffic light", {"light", "traffic light"}, "red object"),
        ("pinkish ball", {"pink"}, "pinkish ball"),
        ("pink thing", {"pink"}, "thing"),
    ],
)
def test_what_else_a_phrase_asks_for(phrase, concepts, rest) -> None:
    assert rest_of(phrase, concepts) == rest
