"""Figure 22's rival of soft prompts: the matcher with all its weights trained."""

from __future__ import annotations

import numpy as np
import pytest

from viper.embedded import WEIGHTS
from viper.models.vision.matcher_open_clip import OpenClipMatcher
from viper.models.vision.roles import Floats
from viper_lab.papers import fine_tuning

WORDS = ("egg", "pyramid")


def test_all_weights_of_a_copy_learn_and_the_shipped_ones_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shipped = OpenClipMatcher.from_pretrained(WEIGHTS / "matcher")
    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 256, (32, 32, 3), np.uint8) for _ in range(4)]

    def named(matcher: OpenClipMatcher) -> list[int]:
        similar: Floats = matcher.encode_images(pictures) @ matcher.encode_texts(WORDS).T
        return similar.argmax(axis=1).tolist()

    before = shipped.encode_images(pictures)
    names = [1 - place for place in named(shipped)]
    monkeypatch.setattr(fine_tuning, "STEPS", 40)
    tuned = fine_tuning.copied(shipped)
    labelled = [(each, WORDS[name]) for each, name in zip(pictures, names, strict=True)]
    fine_tuning.train(tuned, labelled, WORDS, seed=0)
    assert named(tuned) == names
    assert tuned.model_id != shipped.model_id
    np.testing.assert_array_equal(shipped.encode_images(pictures), before)
