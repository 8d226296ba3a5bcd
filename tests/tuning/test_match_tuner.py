"""Teaching the matcher: the shipped one with pictures of the embedded world, and tiny others."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest
import torch

from tests.models.vision.tiny_open_clip import digest, tiny_matcher
from viper.embedded import WEIGHTS
from viper.errors import CancelledError, MediaError, UsageError
from viper.models.vision.matcher_open_clip import OpenClipMatcher
from viper.models.vision.soft_prompts import LearnedPrompt, mix
from viper.testing.fakes import FakeMatcher
from viper.tuning.soft_prompts import match as tuner
from viper.tuning.soft_prompts import match_training as judging
from viper.tuning.soft_prompts.base import USUAL, TunerOptions, tuner_for
from viper.tuning.soft_prompts.match import MatchTuner
from viper.tuning.soft_prompts.match_data import VIEWS, known_words, views_of
from viper.tuning.training_data import Collected, FoundPicture
from viper_lab.world.found import WorldPictureSearch

OTHERS = ("red cube", "green ball", "gray cone", "yellow ring", "green cylinder", "brown cube")


@pytest.fixture(scope="module")
def shipped():
    return OpenClipMatcher.from_pretrained(WEIGHTS / "matcher", device="cpu")


made = cache(tiny_matcher)


@cache
def searched(text):
    return WorldPictureSearch().search(text, 8)


@cache
def shown(text, place):
    """A picture of the embedded world that a search for a text finds."""
    return searched(text)[place].pixels()


def found(name, text, pixels):
    return FoundPicture(name, text, {}, lambda: pixels)


def lesson(concept="pink", right=5, wrong=(), others=OTHERS):
    """Pictures of a concept, of which those of ``wrong`` show a word's."""
    positives = [found(f"good:{i}", concept, shown(concept, i)) for i in range(right)]
    positives += [found(f"bad:{i}", concept, shown(word, 2)) for i, word in enumerate(wrong)]
    negatives = [found(f"{text}:{i}", text, shown(text, i)) for i in range(2) for text in others]
    return Collected(concept, tuple(positives), tuple(negatives), {})


def gray(value, shape=(20, 24)):
    return np.full((*shape, 3), value, np.uint8)


def plain_lesson(positives=3, negatives=2):
    return Collected(
        "Egg",
        tuple(found(f"egg:{i}", "egg", gray(200 + i)) for i in range(positives)),
        tuple(found(f"cube:{i}", "red cube", gray(20 * i)) for i in range(negatives)),
        {},
    )


def learn(matcher, given, options=USUAL, on_progress=None):
    held = []

    @contextmanager
    def using():
        assert not held, "the backend is held twice"
        held.append(1)
        try:
            yield matcher
        finally:
            held.pop()

    return MatchTuner(using, given, options, on_progress).trained()


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(tuner, "JUDGING_STEPS", 2)
    monkeypatch.setattr(judging, "PARTS", 3)


@pytest.fixture(scope="module")
def training(shipped):
    """What the shipped matcher learns of pink from five pictures and one that is wrong."""
    before = digest(shipped)
    told = []
    given, options = lesson(wrong=("red cube",)), TunerOptions(steps=30, rate=2e-2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuner, "JUDGING_STEPS", 40)
        trained = learn(shipped, given, options, lambda *at: told.append(at))
    assert digest(shipped) == before
    return trained, told


def test_prompts_of_wrong_pictures_are_discarded(training) -> None:
    trained, _ = training
    names = [one.evidence.trained_on[0] for one in trained]
    assert names == [f"good:{i}" for i in range(5)] + ["bad:0"]
    kept = [one.kept for one in trained]
    assert not any(kept[5:]) and sum(kept[:5]) >= 4
    for one in trained[5:]:
        assert "prompts of the other pictures do not take its picture for 'pink'" in one.why
    for one in trained[:5]:
        assert not any(name.startswith("bad") for name in one.evidence.validated_on)


def test_the_concept_is_told_from_others_afterwards(shipped, training) -> None:
    kept = [one.prompt for one in training[0] if one.kept]
    pictures = [shown("pink", place) for place in range(5, 8)]
    others = [shown(text, 2) for text in OTHERS[:3]]
    words = ["red", "green", "blue", "gray", "purple", "brown", "cyan", "yellow"]
    texts = shipped.encode_texts([*words, "pink"])

    def right(pixels, is_pink, learned):
        plain = shipped.encode_images([pixels])[0]
        scores = texts @ plain
        if learned:
            vectors = mix(kept, plain)
            prompts = [LearnedPrompt("pink", vectors)]
            scores[-1] = shipped.encode_image_adapted(pixels, prompts) @ (
                shipped.encode_text_adapted("pink", prompts)
            )
        return (scores.argmax() == len(words)) == is_pink

    before, after = ([right(one, True, learned) for one in pictures] for learned in (False, True))
    assert sum(after) >= 2 and sum(after) > sum(before)
    assert sum(right(pixels, False, True) for pixels in others) >= 2


def test_evidence_says_what_a_prompt_was_trained_and_judged_on(shipped, training) -> None:
    trained, told = training
    for one in (one for one in trained if one.kept):
        evidence = one.evidence
        assert len(evidence.validated_on) == 2
        assert not set(evidence.validated_on) & set(evidence.trained_on)
        assert evidence.model_id == shipped.model_id
        assert (evidence.manner, evidence.steps, evidence.seed) == ("searched", 30, 0)
        assert evidence.before < evidence.after or evidence.after == 1.0
        assert one.prompt.vectors.shape == shipped.places.shape
        assert one.prompt.vectors.dtype == one.prompt.feature.dtype == np.float32
        assert not one.prompt.vectors[~shipped.places.used().numpy()].any()
    total = 30 + 2 * 40
    assert told == [(i + 1, total) for i in range(total)]


def test_features_are_embeddings_without_prompts(shipped, training) -> None:
    one = training[0][0].prompt
    plain = shipped.encode_images([shown("pink", 0)])[0]
    np.testing.assert_allclose(one.feature, plain, atol=1e-5)


@pytest.mark.parametrize("kind", ["clip-resnet", "timm-resnet", "clip-vit"])
def test_every_architecture_learns_without_a_change_of_weights(quick, kind) -> None:
    matcher = made(kind)
    before = digest(matcher)
    options = TunerOptions(steps=2, validate=False)
    trained = learn(matcher, plain_lesson(), options)
    assert len(trained) == 3 and all(one.kept for one in trained)
    assert digest(matcher) == before
    for one in trained:
        rows = np.abs(one.prompt.vectors).sum(axis=1)
        assert one.prompt.vectors.shape == matcher.places.shape and (rows > 0).all()


def test_a_seed_repeats_and_another_differs(quick) -> None:
    matcher = made("timm-resnet")
    one, two, other = (
        learn(matcher, plain_lesson(), TunerOptions(steps=2, seed=seed))[0].prompt.vectors
        for seed in (0, 0, 1)
    )
    assert np.array_equal(one, two) and not np.array_equal(one, other)


def test_a_cancelled_training_ends_at_once(quick) -> None:
    told = []

    def stop(done, of):
        told.append(done)
        if done == 3:
            raise CancelledError("enough")

    with pytest.raises(CancelledError):
        learn(made("timm-resnet"), plain_lesson(), on_progress=stop)
    assert told == [1, 2, 3]


@pytest.mark.parametrize(
    ("held", "more", "why"),
    [
        ((0.0, 0.5, 1.0), 0.0, ""),
        ((1.0, 1.0, -1.0), 0.1, ""),
        ((0.5, 0.5, 1.0), 0.0, ""),
        ((0.5, 0.5, 0.0), 0.0, "0.50 of the held-out pictures right with it, 0.50 without"),
        ((1.0, 0.5, 1.0), 0.0, "0.50 of the held-out pictures right with it, 1.00 without"),
        (
            (0.0, 1.0, 1.0),
            0.3,
            "it takes 0.30 more of the held-out pictures of other concepts for 'egg'",
        ),
        ((None, None, 0.0), 0.0, "there is no other trusted picture to judge it by"),
    ],
)
def test_what_does_not_help_or_takes_much_else_is_discarded(held, more, why) -> None:
    verdict = judging.Margins(torch.tensor([0.0, 0.0, 0.0]))
    assert tuner._why(0, "egg", verdict, held, more) == why


@pytest.mark.parametrize(
    ("margins", "trusted", "company"),
    [
        ([1.0, 0.0, -1.4, -1.6, -6.0], [0, 1, 2], [0, 1, 2, 3]),
        ([1.0, -2.0, -3.0, -3.5, -6.0], [0, 1], [0, 1, 2, 3]),
        ([-6.0, -7.0, -8.0], [], []),
    ],
)
def test_half_of_the_pictures_are_trusted_unless_they_are_clearly_wrong(
    margins, trusted, company
) -> None:
    verdict = judging.Margins(torch.tensor(margins))
    assert (verdict.trusted, verdict.company) == (trusted, company)


def test_what_cannot_be_learned_says_so(quick) -> None:
    matcher = made("timm-resnet")
    with pytest.raises(UsageError, match="no pictures of 'Egg' to learn from"):
        learn(matcher, plain_lesson(0))
    with pytest.raises(UsageError, match="1 picture of 'Egg'; at least 2 are needed"):
        learn(matcher, plain_lesson(1))
    with pytest.raises(UsageError, match="no pictures of anything but 'Egg'"):
        learn(matcher, plain_lesson(3, 0))
    with pytest.raises(UsageError, match="FakeMatcher takes no soft prompts; use .* open_clip"):
        learn(FakeMatcher(), plain_lesson())
    with pytest.raises(UsageError, match="ConvNeXt takes no soft prompts"):
        learn(made("timm-convnext"), plain_lesson())


def test_one_picture_is_enough_where_nothing_is_judged(quick) -> None:
    (one,) = learn(made("timm-resnet"), plain_lesson(1), TunerOptions(steps=1, validate=False))
    assert one.kept and one.evidence.validated_on == () and one.evidence.after is None


def test_a_picture_that_cannot_be_read_is_named(quick) -> None:
    def load():
        raise MediaError("the picture is damaged")

    given = plain_lesson()
    damaged = FoundPicture("egg:9", "egg", {}, load)
    with pytest.raises(MediaError, match="damaged"):
        learn(
            made("timm-resnet"), Collected("Egg", (*given.positives, damaged), given.negatives, {})
        )


def test_what_a_search_was_asked_for_is_true_only_where_the_matcher_agrees(shipped) -> None:
    pictures = [shown(text, i) for i in range(2) for text in OTHERS]
    names = [text for _ in range(2) for text in OTHERS]
    names[0] = "green ball"  # a red cube that was found as one
    plain = torch.from_numpy(shipped.encode_images(pictures))
    words = known_words(shipped, names, plain)
    assert words.true.any(dim=1).all() and {"red", "green", "ball"} <= set(words.texts)
    told = [{words.texts[int(i)] for i in row.nonzero()} for row in words.true]
    assert "green" not in told[0] and "ball" not in told[0]
    assert "green" in told[1] and "red" in told[6]


def test_views_begin_with_the_picture_and_may_exchange_colours(shipped) -> None:
    @contextmanager
    def using():
        yield shipped

    pictures = [shown("pink", i) for i in range(2)]
    plain, exchanged = (
        views_of(using, pictures, which, torch.Generator().manual_seed(0))
        for which in (False, True)
    )
    assert plain.plain.shape[:2] == plain.begun.shape[:2] == (VIEWS, 2)
    np.testing.assert_allclose(plain.plain[0], shipped.encode_images(pictures), atol=1e-5)
    assert torch.equal(plain.plain[0], exchanged.plain[0])
    assert not torch.allclose(plain.plain[1:], exchanged.plain[1:], atol=1e-2)


def test_the_registry_names_it() -> None:
    assert tuner_for("match") is MatchTuner
