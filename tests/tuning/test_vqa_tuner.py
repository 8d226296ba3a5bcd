"""Teaching a visual answerer, on a tiny untrained BLIP."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager

import numpy as np
import pytest

from tests.models.vision.tiny_blip import tiny_blip
from viper.errors import CancelledError, UsageError
from viper.models.vision.adapter_vqa import VECTORS
from viper.models.vision.soft_prompts import LearnedPrompt
from viper.models.vision.vqa_blip import BlipAnswerer
from viper.tuning.soft_prompts import vqa as tuner
from viper.tuning.soft_prompts.base import AnsweredQuestion, TunerOptions, tuner_for
from viper.tuning.soft_prompts.vqa import VqaTuner

QUESTION, NEW = "what is this?", "red cube"


@pytest.fixture(scope="module")
def answerer(tmp_path_factory):
    return BlipAnswerer.from_pretrained(tiny_blip(tmp_path_factory.mktemp("vqa-tuner")))


@pytest.fixture(autouse=True)
def _all_may_be_taught(monkeypatch):
    # Untrained, it is as sure of one answer as of another.
    monkeypatch.setattr("viper.models.vision.vqa_blip.SURE", 1.0)


def picture(seed):
    return np.random.default_rng(seed).integers(0, 255, (20, 24, 3)).astype(np.uint8)


def case(answerer, seed, right, question=QUESTION):
    pixels = picture(seed)
    answer = answerer.answer(answerer.encode([pixels]), [question])[0][0] if right else NEW
    return AnsweredQuestion(f"case:{seed}", pixels, question, answer, right)


@pytest.fixture(scope="module")
def lesson(answerer):
    wrong = [case(answerer, seed, False) for seed in (1, 2)]
    return [*wrong, *(case(answerer, seed, True, "is this red?") for seed in (3, 4))]


def learn(answerer, lesson, options, on_progress=None):
    held = []

    @contextmanager
    def using():
        assert not held, "the backend is taken once at a time"
        held.append(1)
        yield answerer
        held.clear()

    return VqaTuner(using, lesson, options, on_progress).trained()


def digest(answerer):
    state = hashlib.sha256()
    for name, tensor in sorted(answerer._model.state_dict().items()):
        state.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return state.hexdigest()


LONG = TunerOptions(steps=150)


@pytest.fixture(scope="module")
def learned(answerer, lesson):
    before, told = digest(answerer), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("viper.models.vision.vqa_blip.SURE", 1.0)
        trained = learn(answerer, lesson, LONG, lambda *at: told.append(at))
    assert digest(answerer) == before
    return trained, told


def test_each_question_that_failed_has_a_prompt_that_answers_it(answerer, lesson, learned):
    for asked, one in zip(lesson[:2], learned[0][:2], strict=True):
        assert one.prompt.vectors.shape == (VECTORS + 1, 16)
        (encoding,) = answerer.encode([asked.pixels])
        assert answerer.answer([encoding], [QUESTION])[0][0] != NEW
        said = answerer.answer_adapted(encoding, QUESTION, LearnedPrompt("", one.prompt.vectors))
        assert said == NEW and one.evidence.steps == 300
        assert one.evidence.trained_on == (asked.name,)
        assert one.evidence.validated_on == (asked.name, "case:3", "case:4")
        assert one.evidence.before == pytest.approx(2 / 3)
        assert one.evidence.after == 1.0 and one.kept
        assert one.evidence.model_id == answerer.model_id and one.evidence.manner == "inferred"


def test_prompts_of_one_answer_mix(answerer, lesson, learned):
    mean = np.mean([one.prompt.vectors for one in learned[0][:2]], axis=0, dtype=np.float32)
    (encoding,) = answerer.encode([lesson[0].pixels])
    assert answerer.answer_adapted(encoding, QUESTION, LearnedPrompt("", mean)) == NEW


def test_what_was_right_already_is_kept_with_zeros(learned):
    for one in learned[0][2:]:
        assert one.kept and not one.prompt.vectors.any() and one.prompt.feature.any()
        assert (one.evidence.before, one.evidence.after) == (1.0, 1.0)


def test_progress_ends_where_it_said(learned):
    done, totals = zip(*learned[1], strict=True)
    assert set(totals) == {300} and done[-1] == 300 and list(done) == sorted(done)


def test_the_same_lesson_gives_the_same_prompts(answerer, lesson):
    short = TunerOptions(steps=3)
    one, two = (learn(answerer, lesson[:2], short)[0].prompt for _ in range(2))
    assert np.array_equal(one.vectors, two.vectors) and np.array_equal(one.feature, two.feature)


def test_a_prompt_that_does_not_answer_is_discarded_in_words(answerer, lesson):
    barely = TunerOptions(steps=1, rate=1e-9)
    trained = learn(answerer, lesson, barely)
    assert [one.kept for one in trained] == [False, False, True, True]
    assert "instead of 'red cube'" in trained[0].why
    loose = TunerOptions(steps=1, rate=1e-9, validate=False)
    assert all(one.kept for one in learn(answerer, lesson, loose))


def test_a_prompt_that_harms_others_is_discarded(answerer, lesson, monkeypatch):
    monkeypatch.setattr(
        tuner, "_harms", lambda using, prompt, case, zeros: case.asked.name[-1] == "3"
    )
    first = learn(answerer, lesson, LONG)[0]
    assert first.why == "with it 1 of 2 questions turn wrong that were right"


def test_it_can_be_stopped_and_leaves_the_model_as_it_was(answerer, lesson):
    before = digest(answerer)

    def stop(done, total):
        raise CancelledError("enough")

    with pytest.raises(CancelledError):
        learn(answerer, lesson, TunerOptions(steps=2), stop)
    assert digest(answerer) == before
    assert not any(p.requires_grad or p.grad is not None for p in answerer._model.parameters())


def test_too_little_and_the_wrong_model_are_said_in_one_line(answerer, lesson):
    with pytest.raises(UsageError, match="expected at least one answered question"):
        learn(answerer, [], LONG)

    class Other:
        model_id = "other@1"

    with pytest.raises(UsageError, match="other@1 takes no soft prompts; only BLIP's"):
        learn(Other(), lesson, LONG)


def test_the_registry_knows_it():
    found = tuner_for("vqa")
    assert found is VqaTuner and found.role == "vqa"
