"""What the detector learns from few pictures, on a tiny untrained OWLv2."""

from __future__ import annotations

import dataclasses
import hashlib
from contextlib import contextmanager

import numpy as np
import pytest

from tests.models.vision.tiny_owl import SIDE, tiny_owl
from viper.errors import CancelledError, UsageError
from viper.models.vision.detector_owlv2 import Owlv2Detector
from viper.models.vision.soft_prompts import LearnedPrompt
from viper.tuning.soft_prompts import loc as tuner
from viper.tuning.soft_prompts.annotated import Fitting
from viper.tuning.soft_prompts.base import TunerOptions, tuner_for
from viper.tuning.soft_prompts.loc import LocTuner, Proposed, fitted_moves
from viper.tuning.training_data import AnnotatedPicture, Annotation, Collected

RED, BLUE = (230, 20, 20), (20, 20, 230)
# Where the boxes of an untrained one lie: as large as a patch, about the corners of patches.
PLACES = [(8 + 16 * column, 8 + 16 * row) for row in (0, 1, 2) for column in (0, 1, 2)]


@pytest.fixture(scope="module")
def detector(tmp_path_factory):
    return Owlv2Detector.from_pretrained(tiny_owl(tmp_path_factory.mktemp("owl") / "detector"))


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(LocTuner, "pictures", 24)


def picture(number, zebra=True):
    """A grey picture with a red square, the zebra, and a blue one; or two blue ones."""
    rng = np.random.default_rng([number, int(zebra)])
    pixels = np.full((SIDE, SIDE, 3), 110, np.uint8)
    things = []
    chosen = rng.permutation(len(PLACES))[:2]
    for label, place in zip(("zebra" if zebra else "cube", "cube"), chosen, strict=True):
        x, y = PLACES[place]
        pixels[y : y + 16, x : x + 16] = RED if label == "zebra" else BLUE
        things.append(Annotation((label,), (float(x), float(y), x + 16.0, y + 16.0)))
    name = "zebra" if zebra else "cube"
    positives = (0,) if zebra else (0, 1)
    return AnnotatedPicture(
        f"{name}:{number}", name, tuple(things), positives, frozenset(), lambda: pixels
    )


def lesson(positives=5, negatives=3):
    return Collected(
        "zebra",
        tuple(picture(i) for i in range(positives)),
        tuple(picture(i, zebra=False) for i in range(negatives)),
        {},
    )


SHORT = TunerOptions(steps=2)


def learn(detector, given=None, options=SHORT, on_progress=None):
    @contextmanager
    def using():
        yield detector

    return LocTuner(using, given or lesson(), options, on_progress).trained()


def digest(detector):
    state = hashlib.sha256()
    for name, tensor in sorted(detector._model.state_dict().items()):
        state.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return state.hexdigest()


def test_one_prompt_an_instance_and_no_weight_changes(detector) -> None:
    before = digest(detector)
    told = []
    trained = learn(detector, on_progress=lambda *at: told.append(at))
    assert len(trained) == 5
    for at, one in enumerate(trained):
        evidence = one.evidence
        assert evidence.trained_on[0] == f"zebra:{at}"
        assert not set(evidence.trained_on) & set(evidence.validated_on)
        assert evidence.model_id == detector.model_id and evidence.steps == 2
        assert one.prompt.vectors.shape == (275, 32) and one.prompt.vectors.dtype == np.float32
        assert 0 <= evidence.before <= 1 and 0 <= evidence.after <= 1
    held = [name for one in trained for name in one.evidence.validated_on]
    assert {held.count(f"zebra:{at}") for at in range(5)} == {held.count("zebra:0")}
    done, of = zip(*told, strict=True)
    assert list(done) == list(range(1, of[0] + 1)) and set(of) == {of[0]}
    assert digest(detector) == before
    assert not any(p.grad is not None for p in detector._model.parameters())


def test_the_same_seed_gives_the_same_prompts_and_another_others(detector) -> None:
    one, again, other = (
        learn(detector, options=TunerOptions(steps=2, seed=seed))[0].prompt.vectors
        for seed in (0, 0, 1)
    )
    assert np.array_equal(one, again) and not np.array_equal(one, other)


def test_what_was_learned_finds_the_concept_in_new_pictures(detector) -> None:
    trained = learn(detector, options=TunerOptions())
    vectors = np.mean([one.prompt.vectors for one in trained], axis=0)
    hits, firsts = 0, 0
    for number in range(100, 112):
        asked = picture(number)
        (encoding,) = detector.encode([asked.pixels()])
        found = detector.detect_adapted(encoding, "zebra", [LearnedPrompt("zebra", vectors)])
        plain = detector.detect(encoding, ["zebra"])[0]
        x0, y0, x1, y1 = asked.things[0].box
        centre = ((x0 + x1) / 2, (y0 + y1) / 2)

        def shown(boxes, centre=centre):
            middle = [(boxes[0].box[at] + boxes[0].box[at + 2]) / 2 for at in (0, 1)]
            return np.abs(np.subtract(middle, centre)).max() < 4

        hits += shown(found)
        firsts += shown(plain)
    assert hits >= 9 > firsts


def known(count=40):
    """Proposals of four pictures; the first feature tells the concept, the second the move."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(count, 12)).astype(np.float32)
    shown = rng.random(count) < 0.4
    features[:, 0] += 6 * shown
    moves = np.full((count, 4), np.nan, np.float32)
    moves[::2] = features[::2, 1:2] * 0.05
    sources = np.arange(count, dtype=np.int64) % 4
    return Proposed(features, shown, sources, sources, moves)


def test_what_pictures_held_out_say_is_not_fitted_to() -> None:
    every = known()
    places = every.without([1, 3])
    assert set(every.source[places].tolist()) == {0, 2}
    pasted = dataclasses.replace(every, source=np.full(40, 2, np.int64))
    assert set(pasted.canvas[pasted.without([1])].tolist()) == {0, 2, 3}
    assert len(pasted.without([2])) == 0


def test_queries_part_the_concept_and_the_margin_is_found_on_what_was_held_out() -> None:
    every, told = known(), []
    fitting = Fitting(every, [12])
    query, shift = fitting.query([3], 20, 1.0, lambda: told.append(1))
    logits = every.features @ query + shift
    held = every.source == 3
    assert len(told) == 20 and query.shape == (12,) and query.dtype == np.float32
    assert ((logits > 0) == every.shown)[~held].all()
    margin = fitting.margin([([3], query, shift)])
    assert logits[held & ~every.shown].max() < margin < logits[held & every.shown].min()
    assert fitting.margin([]) == 0


def test_moves_are_fitted_to_boxes_near_an_object_alone() -> None:
    fitted = fitted_moves(Fitting(known(), [12]), known(), [3])
    assert fitted.shape == (4, 13)
    assert np.allclose(fitted[0], fitted[3])
    assert fitted[0, 1] > 3 * np.abs(np.delete(fitted[0, :12], 1)).max()


def _trained(monkeypatch, detector, before, after):
    given = iter([np.array(before, np.float32), np.array(after, np.float32)] * 9)
    monkeypatch.setattr(LocTuner, "shares", lambda self, found, scenes: next(given))
    return learn(detector, lesson(2, 3))[0]


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ((0.0, 1.0), (1.0, 1.0), ""),
        ((0.5, 1.0), (0.5, 1.0), "no better on 1 held-out pictures of it: 0.50 right, 0.50 wit"),
        ((0.0, 1.0), (1.0, 0.0), "harmful: found in 1 of 1 held-out pictures without it"),
        ((0.0, 0.0), (1.0, 0.0), ""),
    ],
)
def test_useless_and_harmful_prompts_are_discarded(
    detector, monkeypatch, before, after, why
) -> None:
    one = _trained(monkeypatch, detector, before, after)
    assert one.why.startswith(why) and one.kept == (not why)
    assert one.evidence.before == pytest.approx(np.mean(before))
    assert one.evidence.after == pytest.approx(np.mean(after))


def test_without_validation_all_are_kept(detector) -> None:
    trained = learn(detector, options=TunerOptions(steps=0, validate=False))
    assert all(one.kept for one in trained)


def test_boxes_are_judged_by_their_f1() -> None:
    box, apart = (0.0, 0.0, 10.0, 10.0), (20.0, 20.0, 30.0, 30.0)
    assert tuner._f1([], []) == 1
    assert tuner._f1([box], []) == tuner._f1([], [box]) == 0
    assert tuner._f1([box, apart], [apart]) == pytest.approx(2 / 3)
    assert tuner._f1([box, box], [box, apart]) == pytest.approx(0.5)


def test_too_few_pictures_and_another_backend_are_refused(detector) -> None:
    with pytest.raises(UsageError, match="1 picture of 'zebra'; the detector needs two"):
        learn(detector, lesson(1))
    with pytest.raises(UsageError, match="object takes no soft prompts; use an OWLv2"):
        learn(object())


def test_a_cancelled_training_ends_at_once(detector) -> None:
    def stop(done, _of):
        if done == 2:
            raise CancelledError("enough")

    with pytest.raises(CancelledError):
        learn(detector, on_progress=stop)


def test_the_registry_names_it() -> None:
    assert tuner_for("loc") is LocTuner
