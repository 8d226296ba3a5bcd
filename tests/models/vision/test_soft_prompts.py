"""The ensemble of soft prompts: weights, nearest ones, and when there is none."""

from __future__ import annotations

import numpy as np
import pytest

from viper.models.vision.soft_prompts import NoSoftPrompts, SoftPrompt, mix


def prompt(feature: list[float], value: float) -> SoftPrompt:
    return SoftPrompt(np.array(feature, np.float32), np.full((2, 3), value, np.float32))


def feature(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_weights_are_cosine_similarities() -> None:
    prompts = [prompt([5, 0], 1.0), prompt([1, 1], 3.0)]
    found = mix(prompts, feature(2, 0))
    share = np.sqrt(0.5)
    assert found is not None and found.dtype == np.float32 and found.shape == (2, 3)
    assert found == pytest.approx(np.full((2, 3), (1.0 + 3.0 * share) / (1 + share)), abs=1e-6)


def test_one_prompt_comes_back_bit_for_bit() -> None:
    alone = SoftPrompt(feature(1, 2), np.random.default_rng(0).normal(size=(4, 5)).astype("f4"))
    found = mix([alone], feature(2, 1))
    assert found is not None and np.array_equal(found, alone.vectors)


def test_only_so_many_of_the_nearest_are_mixed() -> None:
    prompts = [prompt([1, 9], 100.0), prompt([1, 0], 1.0), prompt([9, 1], 1.0)]
    found = mix(prompts, feature(1, 0), nearest=2)
    assert found == pytest.approx(np.ones((2, 3)), abs=1e-6)


def test_what_is_not_alike_at_all_has_no_weight() -> None:
    prompts = [prompt([1, 0], 2.0), prompt([0, 1], 50.0), prompt([-1, 0], 90.0)]
    found = mix(prompts, feature(1, 0))
    assert found is not None and np.array_equal(found, np.full((2, 3), 2.0))
    assert mix(prompts[1:], feature(1, 0)) is None


@pytest.mark.parametrize(
    ("prompts", "asked"),
    [
        ([], feature(1, 0)),
        ([prompt([0, 0], 1.0)], feature(1, 0)),
        ([prompt([1, 0], 1.0)], feature(0, 0)),
        ([prompt([1, 0], 0.0), prompt([1, 1], 0.0)], feature(1, 0)),
    ],
)
def test_no_prompt_means_the_tool_as_it_came(prompts: list[SoftPrompt], asked: np.ndarray) -> None:
    assert mix(prompts, asked) is None


def test_zero_prompts_hold_the_others_back() -> None:
    found = mix([prompt([1, 0], 0.0), prompt([1, 0], 4.0)], feature(1, 0))
    assert found == pytest.approx(np.full((2, 3), 2.0))


def test_a_feature_of_another_shape() -> None:
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        mix([prompt([1, 0], 1.0)], feature(1, 2, 3))


def test_nothing_learned() -> None:
    source = NoSoftPrompts()
    assert source.ensemble("loc", "cup", feature(1), model_id="m") is None
    assert (source.candidates("loc", "cup", "m"), source.version("loc", "cup")) == ((), 0)
