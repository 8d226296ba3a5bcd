"""Geometry of patches, and which questions cross to the parent."""

from __future__ import annotations

import numpy as np
import pytest

from tests.api.scripted import ScriptedClient
from viper.api import ImageHandle, ImagePatch, VideoHandle, VideoSegment


def box(patch: ImagePatch) -> tuple[float, float, float, float]:
    return (patch.left, patch.lower, patch.right, patch.upper)


def test_whole_image(image: ImageHandle) -> None:
    patch = ImagePatch(image)
    assert box(patch) == (0, 0, 200, 100)
    assert (patch.width, patch.height, patch.area) == (200, 100, 20_000)
    assert (patch.horizontal_center, patch.vertical_center) == (100, 50)
    assert image.shape == (3, 100, 200)


def test_crop_is_relative_and_attributes_absolute(image: ImageHandle) -> None:
    outer = ImagePatch(image, 50, 20, 150, 80)
    inner = outer.crop(10, 5, 30, 25)
    assert box(inner) == (60, 25, 80, 45)
    assert box(inner.crop(1, 1, 2, 2)) == (61, 26, 62, 27)
    assert ImagePatch(outer, 10, 5, 30, 25) == inner
    assert ImagePatch(outer) == outer


def test_crop_is_cut_off_at_the_patch(image: ImageHandle) -> None:
    outer = ImagePatch(image, 50, 20, 150, 80)
    assert box(outer.crop(-10, -10, 500, 500)) == box(outer)
    beside = outer.crop(300, 0, 400, 10)
    assert beside.area == 0 and beside.left == outer.right


def test_borders_of_the_wrong_order_are_refused(image: ImageHandle) -> None:
    with pytest.raises(ValueError, match="y points up"):
        ImagePatch(image).crop(0, 50, 10, 20)
    with pytest.raises(TypeError, match="left must be a number, not str"):
        ImagePatch(image).crop("0", 0, 1, 1)
    with pytest.raises(ValueError, match="upper must be finite"):
        ImagePatch(image).crop(0, 0, 1, float("nan"))


def test_numpy_numbers_become_plain(image: ImageHandle) -> None:
    patch = ImagePatch(image, np.int64(3), np.float32(2.5), 10, 20)
    assert [type(edge) for edge in box(patch)] == [int, float, int, int]


def test_only_pictures_make_patches() -> None:
    with pytest.raises(TypeError, match="not ndarray"):
        ImagePatch(np.zeros((3, 4, 4)))


def test_frame_of_a_segment(video: VideoHandle, client: ScriptedClient) -> None:
    segment = VideoSegment(video, 10, 20)
    client.will("find", [])
    ImagePatch(segment, -1).find("cat")
    assert client.calls[0][1]._handle.id == "video0#19"
    assert ImagePatch(segment, 0)._handle.id == "video0#10"
    assert ImagePatch(video, 3)._handle.id == "video0#3"
    assert box(ImagePatch(segment, 2)) == (0, 0, 160, 120)
    with pytest.raises(IndexError, match="frame 10 is outside the 10 frames"):
        ImagePatch(segment, 10)


def test_found_patches_belong_to_the_picture(image: ImageHandle, client: ScriptedClient) -> None:
    sizeless = ImageHandle("image0", 0, 0, client)
    client.will("find", [ImagePatch._at(sizeless, 60.0, 30.0, 70.0, 40.0)])
    found = ImagePatch(image, 50, 20, 150, 80).find("cup")
    assert [box(patch) for patch in found] == [(60, 30, 70, 40)]
    assert found[0]._whole_image() == ImagePatch(image)


def test_questions_reach_the_parent(image: ImageHandle, client: ScriptedClient) -> None:
    patch = ImagePatch(image)
    client.will("exists", True)
    client.will("verify_property", False)
    client.will("simple_query", "a cup", "red")
    client.will("compute_depth", 2)
    client.will("llm_query", "Peru")
    client.will("pixels", np.zeros((3, 100, 200), np.uint8))
    assert patch.exists("cup") is True
    assert patch.verify_property("cup", "red") is False
    assert patch.simple_query() == "a cup"
    assert patch.simple_query("What color is it?") == "red"
    assert patch.compute_depth() == 2.0
    assert patch.llm_query("Where from?", long_answer=False) == "Peru"
    assert patch.cropped_image.shape == (3, 100, 200)
    assert client.calls == [
        ("exists", patch, "cup"),
        ("verify_property", patch, "cup", "red"),
        ("simple_query", patch, None),
        ("simple_query", patch, "What color is it?"),
        ("compute_depth", patch),
        ("llm_query", "Where from?", None, False),
        ("pixels", patch),
    ]


def test_best_text_match_returns_the_option_without_prefix(
    image: ImageHandle, client: ScriptedClient
) -> None:
    client.will("best_text_match", "silk", "made of wool")
    patch = ImagePatch(image)
    assert patch.best_text_match(["silk", "wool"]) == "silk"
    assert patch.best_text_match(["silk", "wool"], prefix="made of") == "wool"
    assert client.calls[1][2] == ["made of silk", "made of wool"]
    with pytest.raises(ValueError, match="option_list is empty"):
        patch.best_text_match([])


def test_empty_patch_finds_nothing_without_asking(
    image: ImageHandle, client: ScriptedClient
) -> None:
    empty = ImagePatch(image, 10, 10, 10, 50)
    assert empty.find("cup") == []
    assert empty.exists("cup") is False
    assert empty.verify_property("cup", "red") is False
    assert client.calls == []


def test_wrong_argument_types(image: ImageHandle) -> None:
    patch = ImagePatch(image)
    with pytest.raises(TypeError, match="object_name must be a string, not list"):
        patch.find(["cup"])
    with pytest.raises(TypeError, match="question must be a string"):
        patch.simple_query(3)


def test_overlap_counts_touching(image: ImageHandle) -> None:
    patch = ImagePatch(image, 10, 10, 20, 20)
    assert patch.overlaps_with(20, 20, 30, 30)
    assert patch.overlaps_with(0, 0, 200, 100)
    assert not patch.overlaps_with(20.5, 10, 30, 20)


def test_dwim_crops_take_absolute_borders_in_their_own_order(image: ImageHandle) -> None:
    outer = ImagePatch(image, 20, 10, 180, 90)
    # left, upper, right, lower
    borders = (60, 70, 80, 30)
    assert box(outer.crop_left_of_bbox(*borders)) == (20, 10, 60, 90)
    assert box(outer.crop_right_of_bbox(*borders)) == (80, 10, 180, 90)
    assert box(outer.crop_below_bbox(*borders)) == (20, 10, 180, 30)
    assert box(outer.crop_above_bbox(*borders)) == (20, 70, 180, 90)
    assert outer.crop_left_of_bbox(0, 70, 10, 30).area == 0


def test_equality_goes_by_picture_and_box(image: ImageHandle, client: ScriptedClient) -> None:
    a, b = ImagePatch(image, 1, 2, 3, 4), ImagePatch(image, 1, 2, 3, 4)
    elsewhere = ImagePatch(ImageHandle("image1", 200, 100, client), 1, 2, 3, 4)
    assert a == b and hash(a) == hash(b) and a != elsewhere and a != (1, 2, 3, 4)
    assert a in [b] and len({a, b, elsewhere}) == 2
    assert repr(a) == "ImagePatch(1, 2, 3, 4)"


def test_patches_cannot_be_moved(image: ImageHandle) -> None:
    with pytest.raises(AttributeError):
        ImagePatch(image).left = 4
