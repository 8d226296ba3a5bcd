"""Crops of boxes and depths read off a map."""

import numpy as np
import pytest

from viper.tools.crops import box_depth, crop_of, object_crop


def picture(height: int = 40, width: int = 60) -> np.ndarray:
    """Row in channel 0, column in channel 1."""
    rows, columns = np.mgrid[:height, :width]
    return np.stack([rows, columns, np.zeros_like(rows)], axis=-1).astype(np.uint8)


def test_margin_is_a_share_of_the_picture_not_of_the_box():
    small = object_crop(picture(), (20, 10, 30, 20), margin=0.1)
    large = object_crop(picture(), (10, 5, 30, 25), margin=0.1)
    assert small.shape == (18, 18, 3)
    assert large.shape == (28, 28, 3)


def test_window_is_centred_on_the_box():
    crop = object_crop(picture(), (20, 10, 30, 20), margin=0.1)
    assert crop[0, 0, 0] == 6 and crop[0, 0, 1] == 16


def test_border_pixels_are_repeated_outside_the_picture():
    crop = object_crop(picture(), (0, 0, 10, 10), margin=0.25)
    assert crop.shape == (30, 30, 3)
    assert (crop[:10, :, 0] == 0).all() and (crop[:, :10, 1] == 0).all()
    assert crop[29, 29, 0] == 19


def test_never_longer_than_the_picture():
    assert object_crop(picture(), (0, 0, 60, 40), margin=0.5).shape == (60, 60, 3)


@pytest.mark.parametrize("box", [(5, 5, 5, 5), (100, 100, 120, 120), (-9, -9, -1, -1)])
def test_an_empty_or_outside_box_still_gives_pixels(box):
    crop = object_crop(picture(), box, margin=0.0)
    assert crop.shape == (1, 1, 3)


def test_fractional_boxes_are_rounded():
    assert object_crop(picture(), (10.4, 10.2, 20.1, 18.9), margin=0.0).shape == (10, 10, 3)


def flag() -> np.ndarray:
    """Green, 100 x 600, between red and blue."""
    pixels = np.zeros((600, 600, 3), np.uint8)
    pixels[:, :250, 0], pixels[:, 250:350, 1], pixels[:, 350:, 2] = 255, 255, 255
    return pixels


def test_a_box_without_margin_is_its_pixels():
    crop = crop_of(flag(), (250, 0, 350, 600), 0.0, "box")
    assert crop.shape == (600, 100, 3) and (crop == (0, 255, 0)).all()
    assert crop_of(picture(), (10.4, 10.2, 20.1, 18.9), 0.0, "box").shape == (9, 11, 3)
    assert crop_of(picture(), (5, 5, 5, 5), 0.0, "box").shape == (1, 1, 3)


def test_a_margin_stays_inside_the_picture():
    crop = crop_of(picture(), (0, 10, 10, 20), 0.1, "box")
    assert crop.shape == (18, 14, 3) and crop[0, 0, 0] == 6


def test_padding_is_gray():
    crop = crop_of(flag(), (250, 0, 350, 600), 0.0, "padded")
    assert crop.shape == (600, 600, 3) and (crop[:, 250:350] == (0, 255, 0)).all()
    assert (crop[:, :250] == 128).all() and (crop[:, 350:] == 128).all()
    square = crop_of(picture(), (20, 10, 30, 20), 0.1, "square")
    assert (square == object_crop(picture(), (20, 10, 30, 20), 0.1)).all()


def test_box_depth_is_the_median_inside_the_box():
    depth = np.full((40, 60), 9.0, dtype=np.float32)
    depth[10:20, 20:30] = 4.0
    assert box_depth(depth, (20, 10, 30, 20)) == 4.0
    assert box_depth(depth, (0, 0, 60, 40)) == 9.0


@pytest.mark.parametrize("box", [(25, 15, 25, 15), (80, 80, 90, 90)])
def test_box_depth_of_an_empty_box_is_finite(box):
    assert box_depth(np.full((40, 60), 3.0, dtype=np.float32), box) == 3.0
