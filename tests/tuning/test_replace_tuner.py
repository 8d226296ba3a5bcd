"""Textual inversion of the inpainter, on a tiny pipeline of the real classes."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager

import numpy as np
import pytest

from tests.models.vision.tiny_diffusion import picture, tiny_pipeline
from viper.errors import CancelledError, UsageError
from viper.models.vision.inpainter_diffusers import DiffusersInpainter
from viper.models.vision.soft_prompts import LearnedPrompt
from viper.tuning.soft_prompts import replace as tuner
from viper.tuning.soft_prompts.base import TunerOptions, tuner_for
from viper.tuning.soft_prompts.replace import ReplaceTuner, examples, gallery_of, middle
from viper.tuning.training_data import Collected, FoundPicture

WIDTH = 16


@pytest.fixture(scope="module")
def inpainter(tmp_path_factory):
    folder = tiny_pipeline(tmp_path_factory.mktemp("tiny-tuned"))
    return DiffusersInpainter.from_pretrained(
        folder, steps=2, guidance=2.0, safety_checker=False, device="cpu", local_only=True
    )


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    for name, value in {"BATCH": 4, "TRIED": 1, "JUDGED": 1, "REPEATED": 2}.items():
        monkeypatch.setattr(tuner, name, value)


def found(number, text="zebra", shape=(24, 24)):
    def load():
        pixels = np.full((*shape, 3), 90, np.uint8)
        pixels[6:18, 6:18] = (250, 250, 10 * number)
        return pixels

    return FoundPicture(f"{text}:{number}", text, {}, load)


def lesson(positives=4, negatives=("red cube", "blue ball")):
    return Collected(
        "Zebra",
        tuple(found(i) for i in range(positives)),
        tuple(found(i, text) for i, text in enumerate(negatives)),
        {},
    )


SHORT = TunerOptions(steps=3)


def learn(inpainter, given=None, options=SHORT, on_progress=None):
    @contextmanager
    def using():
        yield inpainter

    return ReplaceTuner(using, given or lesson(), options, on_progress).trained()


def digest(inpainter):
    state = hashlib.sha256()
    for name, tensor in sorted(inpainter._model.state_dict().items()):
        state.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return state.hexdigest()


def test_one_vector_is_learned_from_all_but_the_held_out(inpainter) -> None:
    before = digest(inpainter)
    told = []
    (trained,) = learn(inpainter, on_progress=lambda *at: told.append(at))
    assert trained.prompt.vectors.shape == (1, WIDTH)
    assert trained.prompt.vectors.dtype == np.float32
    assert np.array_equal(trained.prompt.feature, np.ones(1, np.float32))
    evidence = trained.evidence
    assert evidence.validated_on == ("zebra:0",)
    assert evidence.trained_on == ("zebra:1", "zebra:2", "zebra:3")
    assert evidence.model_id == inpainter.model_id and evidence.steps == 3
    assert evidence.before in (0.0, 1.0) and evidence.after in (0.0, 1.0)
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert digest(inpainter) == before and not any(
        p.requires_grad or p.grad is not None for p in inpainter._model.parameters()
    )


def test_a_step_is_of_the_papers_rate(inpainter) -> None:
    none, one = (
        learn(inpainter, options=TunerOptions(steps=steps, rate=rate))[0].prompt.vectors
        for steps, rate in ((1, 1e-12), (1, None))
    )
    # the first step of Adam moves each number by the rate
    assert np.median(np.abs(one - none)) == pytest.approx(5e-3, rel=0.01)


def test_the_same_seed_gives_the_same_vector_and_another_another(inpainter) -> None:
    one, two, other = (
        learn(inpainter, options=TunerOptions(steps=2, seed=seed))[0].prompt.vectors
        for seed in (0, 0, 1)
    )
    assert np.array_equal(one, two) and not np.array_equal(one, other)


def test_training_lowers_the_error_and_the_word_is_painted_otherwise(inpainter) -> None:
    (trained,) = learn(inpainter, options=TunerOptions(steps=40, rate=0.05))
    vector = trained.prompt.vectors
    lessons, gallery = inpainter.lessons(), gallery_of(lesson().positives, 32)
    import torch

    with torch.no_grad():
        shown = examples(lessons, gallery, [1, 2, 3] * 8, (9,))
        plain, adapted = (
            float(
                lessons.errors(
                    shown.masked, shown.times, shown.noise, ["a zebra"] * 24, words
                ).mean()
            )
            for words in ({}, {"zebra": torch.from_numpy(vector)})
        )
    assert adapted < plain
    mask = np.zeros((40, 70), bool)
    mask[10:25, 20:45] = True
    asked = (picture(), mask, "a zebra", 0)
    changed = inpainter.inpaint_adapted(*asked, [LearnedPrompt("zebra", vector)])
    assert (changed != inpainter.inpaint(*asked)).any()


@pytest.mark.parametrize(
    ("adapted", "plain", "others", "why"),
    [
        (0.2, 0.3, (0.4, 0.5), ""),
        (0.3, 0.2, (0.4, 0.5), "not restored better with it: error 0.3000, 0.2000 without"),
        (0.2, 0.3, (0.4, 0.1), "'cube' explains held-out pictures as well: error 0.1000"),
    ],
)
def test_what_does_not_help_on_held_out_pictures_is_discarded(
    inpainter, monkeypatch, adapted, plain, others, why
) -> None:
    def compared(self, which, kinds, count, salt):
        values = {"zebra": plain, "red": others[0], "cube": others[1], "blue": 0.9, "ball": 0.9}
        row = [adapted if vector is not None else values[word] for word, vector in kinds]
        return np.array([row] * len(which))

    monkeypatch.setattr(ReplaceTuner, "_compare", compared)
    (trained,) = learn(inpainter, options=TunerOptions(steps=1))
    assert why in trained.why and trained.kept == (not why)
    assert trained.evidence.after == float(adapted < min(others))
    (kept,) = learn(inpainter, options=TunerOptions(steps=1, validate=False))
    assert kept.kept


def test_without_related_words_it_is_compared_with_itself_alone(inpainter) -> None:
    (trained,) = learn(inpainter, lesson(negatives=()))
    assert trained.evidence.after == 1.0 and "explains" not in trained.why


def test_too_few_pictures_and_another_backend_are_refused(inpainter) -> None:
    with pytest.raises(UsageError, match="1 picture of 'Zebra'; .* 2 or more: one is held out"):
        learn(inpainter, lesson(1))
    with pytest.raises(UsageError, match="object takes no soft prompts; expected .* diffusers"):
        learn(object())


def test_a_cancelled_training_ends_at_once(inpainter) -> None:
    def stop(done, _of):
        if done == 2:
            raise CancelledError("enough")

    with pytest.raises(CancelledError):
        learn(inpainter, on_progress=stop, options=TunerOptions(steps=50))


def test_pictures_are_cut_to_their_middle_and_masked_there(inpainter) -> None:
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = 255
    assert middle(wide).shape == (10, 10, 3) and (middle(wide) == 255).all()
    gallery = gallery_of([found(3, shape=(24, 40))], 32)
    shown = examples(inpainter.lessons(), gallery, [0] * 16, (1,))
    cells = shown.masked.cells[:, 0]
    assert cells[:, 8, 8].all() and not cells[:, 0].any() and not cells[:, :, 0].any()
    assert 0.2 < float(cells.mean()) < 0.7
    assert int(shown.times.min()) < 200 and int(shown.times.max()) > 800


def test_the_registry_names_it() -> None:
    assert tuner_for("replace") is ReplaceTuner
