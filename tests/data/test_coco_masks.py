"""Masks from polygons and runs, against the official package; and from what is neither."""

from __future__ import annotations

import numpy as np
import pytest
from pycocotools import mask as coco

from tests.data.lvis_files import PACKED, RUNS, SQUARE
from viper.data.coco_masks import OutlineError, mask_of


def test_a_polygon_covers_its_inside():
    mask = mask_of(SQUARE, 8, 10)
    assert mask.dtype == np.bool_ and mask.shape == (8, 10)
    assert mask.sum() == 12 and mask[1:4, 2:6].all()


def test_several_polygons_are_one_mask():
    other = [[7, 5, 9, 5, 9, 7, 7, 7]]
    mask = mask_of(SQUARE + other, 8, 10)
    assert mask.sum() == 16 and mask[5:7, 7:9].all()


@pytest.mark.parametrize("runs", [RUNS, PACKED])
def test_runs_go_down_the_columns(runs):
    mask = mask_of(runs, 8, 10)
    assert mask.sum() == 8 and mask[0:4, 1:3].all()


def test_packed_runs_are_read_as_the_official_package_writes_them():
    rng = np.random.default_rng(0)
    for share in (0.02, 0.5, 0.98):
        height, width = (int(side) for side in rng.integers(1, 90, 2))
        mask = np.asfortranarray(rng.random((height, width)) < share, np.uint8)
        packed = coco.encode(mask)["counts"].decode()
        got = mask_of({"size": [height, width], "counts": packed}, height, width)
        assert (got == mask).all()
    blob = np.zeros((70, 900), np.uint8, order="F")
    blob[:, 300:600] = 1
    packed = coco.encode(blob)["counts"].decode()
    assert (mask_of({"size": [70, 900], "counts": packed}, 70, 900) == blob).all()


def test_what_leaves_the_picture_is_moved_to_its_edge():
    assert mask_of([[-50, -50, 5, -50, 5, 4, -50, 4]], 8, 10).sum() == 20


@pytest.mark.parametrize(
    "outline",
    [
        [],
        "text",
        None,
        7,
        [[0, 0, 1, 1]],
        [[0, 0, 1, 1, 2]],
        [[0, 0, 1, 1, 2, "x"]],
        [[0, 0, 1, 1, 2, float("nan")]],
        [[0, 0, 1, 1, 2, 10**400]],
        [[[0, 0], [1, 1], [2, 2]]],
        [[0, 0, 10, 8] * 60_000],
        [[0, 0, 0, 8] * 50_000] * 2,
        {},
        {"size": [8, 10], "counts": [8, 4]},
        {"size": [8, 10], "counts": [81, -1]},
        {"size": [8, 10], "counts": [80.0]},
        {"size": [8, 10], "counts": [True] * 80},
        {"size": [8, 10], "counts": None},
        {"size": [10, 8], "counts": [80]},
        {"size": [2**40, 2**40], "counts": [2**80]},
        {"size": [8, 10], "counts": "84"},
        {"size": [8, 10], "counts": "8440z1"},
        {"size": [8, 10], "counts": "8440"},
        {"size": [8, 10], "counts": ""},
        {"size": [8, 10], "counts": "o"},
        {"size": [8, 10], "counts": "8440h"},
        {"size": [8, 10], "counts": "o" * 10_000},
        {"size": [8, 10], "counts": "\x00é"},
        {"size": [8, 10], "counts": "0" * 100_000},
    ],
)
def test_what_is_no_outline_is_refused(outline):
    with pytest.raises(OutlineError):
        mask_of(outline, 8, 10)


def test_an_outline_may_not_wind_on_and_on():
    with pytest.raises(OutlineError, match="4,000,000 pixels"):
        mask_of([[0, 0, 5_000, 5_000] * 500], 5_000, 5_000)
