"""Teaching a segmenter: on one that sees colours, and on a tiny untrained MaskFormer."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager

import numpy as np
import pytest

from tests.models.vision.tiny_segmenters import maskformer, save
from viper.errors import CancelledError, UsageError
from viper.models.vision.roles import Segment
from viper.models.vision.second_look import CUT, ROW, Descriptions, score_segments
from viper.models.vision.segmenter_maskformer import MaskFormerSegmenter
from viper.models.vision.soft_prompts import LearnedPrompt
from viper.tuning.soft_prompts import seg as tuner
from viper.tuning.soft_prompts.annotated import STEPS, Fitting, Regions
from viper.tuning.soft_prompts.base import TunerOptions, tuner_for
from viper.tuning.soft_prompts.pasting import masked_picture
from viper.tuning.soft_prompts.seg import SegTuner, f1, mask_ious, segments_of
from viper.tuning.training_data import AnnotatedPicture, Annotation, Collected

SIDE = 64
COLOURS = {"blue": (30, 40, 220), "red": (220, 30, 40), "green": (40, 210, 30)}


class ColourSegmenter:
    """Finds everything that is not grey and calls it ``thing``; describes it by its mean colour."""

    model_id = "colours@1"

    def encode(self, pixels):
        return pixels

    def feature(self, encoding):
        return encoding.reshape(-1, 3).mean(0).astype(np.float32)

    def described(self, encoding):
        from scipy import ndimage

        parts, count = ndimage.label(np.ptp(encoding.astype(int), axis=2) > 60)
        masks = [parts == number + 1 for number in range(count)]
        features = [[mask.mean(), *(encoding[mask].mean(0) / 255)] for mask in masks]
        found = [Segment(mask, "thing", 0.6) for mask in masks]
        return found, Descriptions(np.array(features, np.float32).reshape(-1, 4), (1, 3))

    def segments(self, encoding, names):
        return self.described(encoding)[0]

    def segments_adapted(self, encoding, prompts):
        found, known = self.described(encoding)
        (one,) = prompts
        sure = score_segments(known.features, one.vectors)
        return [
            Segment(each.mask, one.concept, float(by)) if by > CUT else each
            for each, by in zip(found, sure, strict=True)
        ]


def picture(seed, colours, concept):
    """Squares of colours side by side on grey; those of the concept's colour show it."""
    rng = np.random.default_rng(seed)
    pixels, things = np.full((SIDE, SIDE, 3), 120, np.uint8), []
    for place, colour in enumerate(colours):
        x, y, side = 4 + 20 * place, int(rng.integers(4, 40)), int(rng.integers(10, 17))
        mask = np.zeros((SIDE, SIDE), np.bool_)
        mask[y : y + side, x : x + side] = True
        pixels[mask] = np.clip(np.array(COLOURS[colour]) + rng.integers(-15, 15, 3), 0, 255)
        box = (float(x), float(y), float(x + side), float(y + side))
        things.append(Annotation((colour,), box, mask.copy))
    positives = tuple(i for i, colour in enumerate(colours) if colour == concept)
    name = f"made:{'-'.join(colours)}:{seed}"
    return AnnotatedPicture(name, concept, tuple(things), positives, frozenset(), pixels.copy)


def lesson(concept="blue", positives=4, negatives=4):
    return Collected(
        concept,
        tuple(picture(i, ("red", concept, "green")[i % 2 :], concept) for i in range(positives)),
        tuple(picture(50 + i, ("green", "red"), concept) for i in range(negatives)),
        {},
    )


@pytest.fixture(autouse=True)
def _few_pictures(monkeypatch):
    monkeypatch.setattr(SegTuner, "pictures", 24)


def learn(backend, given, options=None, on_progress=None):
    held = []

    @contextmanager
    def using():
        assert not held, "the backend is taken once at a time"
        held.append(1)
        yield backend
        held.clear()

    return SegTuner(using, given, options or TunerOptions(), on_progress).trained()


@pytest.fixture(scope="module")
def learned():
    told = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SegTuner, "pictures", 24)
        return learn(ColourSegmenter(), lesson(), None, lambda *at: told.append(at)), told


def test_a_prompt_for_each_positive_that_holds_on_what_it_has_not_seen(learned):
    given = lesson()
    for one, mine in zip(learned[0], given.positives, strict=True):
        assert one.kept, one.why
        assert one.prompt.vectors.shape == (1, ROW) and one.prompt.feature.shape == (3,)
        assert not one.prompt.vectors[0, 5:].any()
        evidence = one.evidence
        assert evidence.before < 0.7 and evidence.after == 1.0
        assert mine.picture_id in evidence.trained_on
        assert not set(evidence.trained_on) & set(evidence.validated_on)
        everything = {each.picture_id for each in (*given.positives, *given.negatives)}
        assert {*evidence.trained_on, *evidence.validated_on} == everything
        assert (evidence.model_id, evidence.manner) == ("colours@1", "annotated")


def test_their_mean_names_new_objects_and_no_others(learned):
    mean = np.mean([one.prompt.vectors for one in learned[0]], axis=0, dtype=np.float32)
    backend, new = ColourSegmenter(), picture(99, ("blue", "red", "green"), "blue")
    found = backend.segments_adapted(new.pixels(), [LearnedPrompt("blue", mean)])
    (named,) = [one for one in found if one.label == "blue"]
    assert (named.mask == new.things[0].mask()).all() and len(found) == 3


def test_progress_ends_where_it_said(learned):
    done, totals = zip(*learned[1], strict=True)
    assert set(totals) == {24 + 8 + 4 * STEPS} and done == tuple(range(1, totals[0] + 1))


def test_the_same_seed_gives_the_same_prompts_and_another_others():
    one, two, other = (
        learn(ColourSegmenter(), lesson(), TunerOptions(steps=3, seed=seed))[0].prompt.vectors
        for seed in (0, 0, 1)
    )
    assert np.array_equal(one, two) and not np.array_equal(one, other)


def test_what_tells_nothing_apart_is_discarded_in_words(monkeypatch):
    def same(self, held, steps, rate, on_step):
        return np.zeros(self.known.features.shape[1], np.float32), 0.0

    monkeypatch.setattr(Fitting, "query", same)
    trained = learn(ColourSegmenter(), lesson(), TunerOptions(steps=1))
    assert all(one.why.startswith("not told apart: 0% of its held-out") for one in trained)
    loose = learn(ColourSegmenter(), lesson(), TunerOptions(steps=1, validate=False))
    assert all(one.kept for one in loose)


def test_one_prompt_of_no_use_is_discarded_alone(monkeypatch):
    sought, calls = Fitting.query, []

    def query(self, *given):
        calls.append(1)
        found, shift = sought(self, *given)
        return found, shift - 500.0 * (len(calls) == 2)

    monkeypatch.setattr(Fitting, "query", query)
    trained = learn(ColourSegmenter(), lesson())
    assert [one.kept for one in trained] == [True, False, True, True]
    assert trained[1].why.startswith("of no use: it names none of")


def test_a_prompt_that_harms_what_was_held_out_is_discarded(monkeypatch):
    def shares(self, found, scenes):
        named = any(one.label == self._name for segments in found for one in segments)
        return np.full(len(scenes), 0.4 if named else 0.5, np.float32)

    monkeypatch.setattr(SegTuner, "shares", shares)
    trained = learn(ColourSegmenter(), lesson())
    assert {one.why for one in trained} == {
        "harmful: 0.40 right in 2 held-out pictures, 0.50 without"
    }


def test_objects_are_cut_by_what_queries_say_of_what_was_held_out():
    places = np.arange(6)
    known = Regions(
        np.array([[5.0], [1.0], [0.0], [4.0], [2.0], [9.0]], np.float32),
        np.array([True, False, False, True, False, True]),
        places,
        np.array([0, 0, 0, 1, 1, 2]),
    )
    one, two = (np.ones(1, np.float32), 0.0), (np.full(1, 3, np.float32), 1.0)
    seen = tuner._Held.of(known, [[0], [0, 1]], [one, two])
    assert seen.logits.tolist() == [10.5, 2.5, 0.5, 13.0, 7.0], "of the last one nobody is asked"
    assert seen.by.tolist() == [[True] * 3 + [False] * 2, [True] * 5]
    assert 6.9 < seen.cut < 7 and seen.named == 1.0
    nothing = tuner._Held(seen.logits, np.zeros(5, np.bool_), seen.by)
    assert nothing.named == 0.0
    alone = tuner._Held(seen.logits, np.ones(5, np.bool_), seen.by)
    assert alone.cut == 0.0


def test_it_can_be_stopped():
    def stop(done, total):
        if done == 5:
            raise CancelledError("enough")

    with pytest.raises(CancelledError):
        learn(ColourSegmenter(), lesson(), TunerOptions(steps=2), stop)


def test_too_little_and_the_wrong_model_are_said_in_one_line():
    with pytest.raises(UsageError, match="1 picture of 'blue'; the segmenter needs two"):
        learn(ColourSegmenter(), lesson(positives=1))

    class Other:
        model_id = "other@1"

    with pytest.raises(UsageError, match="other@1 takes no soft prompts; use a MaskFormer"):
        learn(Other(), lesson())

    class Blind(ColourSegmenter):
        def described(self, encoding):
            return [], Descriptions(np.zeros((0, 4), np.float32), (1, 3))

    with pytest.raises(UsageError, match="finds no outline of any 'blue' in the 4 pictures"):
        learn(Blind(), lesson())


def test_the_weights_of_a_network_stay_as_they_were(tmp_path, monkeypatch):
    monkeypatch.setattr(SegTuner, "pictures", 2)
    # What an untrained network finds is no object; here anything found in the place counts.
    monkeypatch.setattr("viper.tuning.soft_prompts.seg.SAME", 0.01)
    backend = MaskFormerSegmenter.from_pretrained(
        save(maskformer, tmp_path / "tiny"), threshold=0.0, overlap=0.0
    )

    def digest():
        state = hashlib.sha256()
        for name, tensor in sorted(backend._model.state_dict().items()):
            state.update(name.encode() + tensor.contiguous().numpy().tobytes())
        return state.hexdigest()

    before = digest()
    trained = learn(backend, lesson(positives=2, negatives=1), TunerOptions(steps=2))
    width = sum(backend.described(backend.encode(lesson().positives[0].pixels()))[1].widths)
    assert [one.prompt.vectors.shape for one in trained] == [(-(-(width + 1) // ROW), ROW)] * 2
    assert digest() == before


def test_overlap_of_masks_and_their_score():
    left, right, whole = (np.zeros((2, 4), np.bool_) for _ in range(3))
    left[:, :2], right[:, 2:], whole[:] = True, True, True
    assert mask_ious([left, whole], [left, right]).tolist() == [[1.0, 0.0], [0.5, 0.5]]
    assert mask_ious([], [left]).shape == (0, 1)
    assert f1([], []) == 1.0 and f1([left], []) == 0.0 and f1([], [left]) == 0.0
    assert f1([left], [left, right]) == pytest.approx(2 / 3)
    assert f1([left, right], [left], ignored=[right]) == 1.0


def test_segments_are_held_against_the_objects_of_a_picture():
    scene = masked_picture(picture(3, ("blue", "red"), "blue"), "blue", 7)
    found, known = ColourSegmenter().described(scene.pixels)
    nothing = Segment(~(found[0].mask | found[1].mask), "thing", 0.6)
    rows = segments_of([*found, nothing], np.vstack([known.features, np.zeros((1, 4))]), scene)
    assert rows.shown.tolist() == [True, False, False] or rows.shown.tolist() == [
        False,
        True,
        False,
    ]
    assert set(rows.canvas) == {7} and len(rows.without([7])) == 0
    assert len(rows.without([6])) == 3


def test_the_registry_knows_it():
    found = tuner_for("seg")
    assert found is SegTuner and found.role == "segmenter"
