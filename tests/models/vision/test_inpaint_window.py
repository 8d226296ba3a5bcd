"""The square that an inpainting model sees."""

from __future__ import annotations

import numpy as np
import pytest

from viper.models.vision.inpainter_diffusers import (
    Window,
    resize_mask,
    resize_square,
    window_around,
)


def masked(shape, rows, columns):
    mask = np.zeros(shape, bool)
    mask[rows, columns] = True
    return mask


def test_a_square_has_context_on_each_side() -> None:
    mask = masked((100, 200), slice(40, 50), slice(60, 80))
    assert window_around(mask, 1, padding=0.25) == Window(55, 30, 30)


def test_it_stays_inside_the_picture_where_it_fits() -> None:
    mask = masked((100, 200), slice(0, 20), slice(190, 200))
    assert window_around(mask, 1, padding=0.5) == Window(160, 0, 40)


def test_a_small_mask_is_not_enlarged_beyond_measure() -> None:
    mask = masked((100, 200), slice(50, 51), slice(50, 51))
    assert window_around(mask, 32).side == 32


@pytest.mark.parametrize("shape", [(30, 90), (90, 30), (3, 60)])
def test_it_is_never_larger_than_the_picture_s_longer_side(shape) -> None:
    mask = np.ones(shape, bool)
    window = window_around(mask, 512, padding=2.0)
    assert window.side == max(shape)
    cut = window.cut(np.arange(shape[0] * shape[1]).reshape(shape))
    assert cut.shape == (window.side, window.side)
    assert set(cut.ravel()) == set(range(shape[0] * shape[1]))


def test_two_places_share_one_square() -> None:
    mask = masked((60, 60), [5, 50], [10, 40])
    window = window_around(mask, 1, padding=0.0)
    assert window.top <= 5 and window.top + window.side > 50
    assert window.left <= 10 and window.left + window.side > 40


def test_what_is_pasted_lies_where_it_was_cut() -> None:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (40, 70, 3), dtype=np.uint8)
    mask = rng.random((40, 70)) < 0.3
    window = window_around(mask, 1)
    assert np.array_equal(window.paste(pixels, mask, window.cut(pixels)), pixels)
    negative = window.paste(pixels, mask, 255 - window.cut(pixels))
    assert np.array_equal(negative, np.where(mask[..., None], 255 - pixels, pixels))


def test_sizes_change_smoothly_and_masks_stay_masks() -> None:
    square = np.zeros((20, 20, 3), np.uint8)
    square[:, 10:] = 200
    assert resize_square(square, 8).shape == (8, 8, 3)
    mask = resize_mask(square[..., 0] > 0, 8)
    assert mask.dtype == np.bool_ and mask[:, 4:].all() and not mask[:, :4].any()
