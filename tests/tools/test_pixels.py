"""Routines on pixels: exact results, coordinates, limits, caching and shown pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tools.pixel_bench import HEIGHT, WIDTH, PixelBench, picture
from viper.api.image_patch import ImagePatch
from viper.api.video_segment import VideoSegment
from viper.errors import ToolError
from viper.models.edited import EDIT_ID
from viper.models.media import Media
from viper.tools.pixels import CHANGES, MAX_MADE_PIXELS, MEASURES


@pytest.fixture
def bench() -> PixelBench:
    return PixelBench()


def sides(patch: ImagePatch) -> tuple[float, ...]:
    return (patch.left, patch.lower, patch.right, patch.upper)


def test_components_are_places_of_the_picture_that_was_measured(bench: PixelBench) -> None:
    mask = bench.threshold_color(bench.patch, "red")
    (part,) = bench.components(mask, bench.patch)
    assert sides(part["patch"]) == (10, HEIGHT - 9, 20, HEIGHT - 5) and part["area"] == 40
    assert (part["x"], part["y"]) == (15.0, HEIGHT - 7.0)
    assert part["patch"]._handle.id == "image0"
    assert (bench.pixels(part["patch"]) == (255, 0, 0)).all()


def test_components_of_a_part_and_of_a_mask_alone(bench: PixelBench) -> None:
    part = bench.patch.crop(30, 0, 60, 30)
    mask = bench.threshold_color(part, "lime")
    (within,), (placed,) = bench.components(mask), bench.components(mask, part)
    assert sides(within["patch"]) == (10, HEIGHT - 33, 13, HEIGHT - 30)
    assert sides(placed["patch"]) == (40, HEIGHT - 33, 43, HEIGHT - 30)
    with pytest.raises(ToolError, match="the mask has 30 x 30 pixels and `of` 64 x 48"):
        bench.components(mask, bench.patch)


def test_largest_first_and_small_ones_left_out(bench: PixelBench) -> None:
    mask = bench.threshold(bench.patch, 101, 255, "saturation")
    assert [part["area"] for part in bench.components(mask)] == [40, 9]
    assert [part["area"] for part in bench.components(mask, None, 10)] == [40]
    assert [part["area"] for part in bench.components(mask, most=1)] == [40]


def test_contours_run_through_the_middles_of_border_pixels(bench: PixelBench) -> None:
    (line,) = bench.contours(bench.threshold_color(bench.patch, "red"), bench.patch)
    assert set(line) == {(10.5, 42.5), (10.5, 39.5), (19.5, 39.5), (19.5, 42.5)}


def test_measures(bench: PixelBench) -> None:
    red = bench.patch.crop(10, HEIGHT - 9, 20, HEIGHT - 5)
    assert bench.mean_color(red) == (255, 0, 0)
    assert bench.color_at(bench.patch, 41, HEIGHT - 31) == (0, 255, 0)
    assert bench.color_at(bench.patch, 0, 0) == bench.color_at(bench.patch, WIDTH, HEIGHT)
    assert bench.pixel_count(bench.patch, 200, 255, "red") == 40
    assert bench.histogram(bench.patch, 2, "green") == [WIDTH * HEIGHT - 9, 9]
    y = HEIGHT - 6.5
    assert bench.line_profile(bench.patch, 0, y, WIDTH, y, 5, "red") == [100, 255, 100, 100, 100]
    with pytest.raises(ToolError, match=r"the point \(-1, 3\) is outside the patch"):
        bench.color_at(bench.patch, -1, 3)
    with pytest.raises(ToolError, match="outside the patch"):
        bench.color_at(red, 41, HEIGHT - 31)


def test_changes_of_geometry(bench: PixelBench) -> None:
    red = bench.patch.crop(10, HEIGHT - 9, 20, HEIGHT - 5)
    large = bench.enlarge(red, 3)
    assert sides(large) == (0, 0, 30, 12) and EDIT_ID.fullmatch(large._handle.id)
    assert (bench.pixels(bench.flip(bench.patch)) == picture()[:, ::-1]).all()
    assert (bench.pixels(bench.flip(bench.patch, "vertical")) == picture()[::-1]).all()
    assert (bench.pixels(bench.rotate(bench.patch, 90)) == np.rot90(picture())).all()
    turned = bench.rotate(bench.patch, 45)
    assert turned.width > WIDTH and tuple(bench.pixels(turned)[0, 0]) == (128, 128, 128)


def test_changes_of_values(bench: PixelBench) -> None:
    faint = np.full((20, 20, 3), 120, np.uint8)
    faint[5:15, 5:15] = 124
    panel = PixelBench(Media(images=(faint,)))
    assert set(np.unique(panel.pixels(panel.contrast(panel.patch, 0)))) == {0, 255}
    gray = bench.pixels(bench.grayscale(bench.patch, "red"))
    assert (gray == picture()[..., :1]).all()
    assert bench.pixels(bench.edges(bench.patch)).max() == 255
    assert bench.pixels(bench.blur(bench.patch, 3))[7, 15, 0] < 255
    tinted = bench.pixels(
        bench.overlay(bench.patch, bench.threshold_color(bench.patch, "red"), "blue")
    )
    assert tuple(tinted[6, 12]) == (127, 0, 127) and tuple(tinted[0, 0]) == (100, 100, 100)


def test_difference_of_two_pictures() -> None:
    second = picture()
    second[40, 5] = 0
    bench = PixelBench(Media(images=(picture(), second)))
    other = ImagePatch(
        bench.patch._handle.__class__("image1", WIDTH, HEIGHT, bench.patch._handle.call)
    )
    changed = bench.difference(bench.patch, other)
    assert bench.pixels(changed).sum() == 300
    with pytest.raises(ToolError, match="64 x 48 and 10 x 10 pixels; expected one size"):
        bench.difference(bench.patch, other.crop(0, 0, 10, 10))


def test_frames_of_a_video() -> None:
    video = np.zeros((4, 20, 30, 3), np.uint8)
    video[3, 2:4, 5:9] = 90
    bench = PixelBench(Media(video=video))
    from viper.api import prelude
    from viper.tools.parent_routines import api_client
    from viper.tools.session import media_arguments

    handle: Any = prelude.decode(media_arguments(bench.media)["video"], api_client(bench.session))
    moved = bench.frame_difference(VideoSegment(handle), 0, 3)
    assert bench.pixels(moved).sum() == 8 * 3 * 90


def test_drawings_stand_where_they_are_asked_for(bench: PixelBench) -> None:
    red = bench.components(bench.threshold_color(bench.patch, "red"), bench.patch)[0]["patch"]
    boxed = bench.pixels(bench.draw_boxes(bench.patch, [red], color="white"))
    assert tuple(boxed[5, 10]) == tuple(boxed[8, 19]) == (255, 255, 255)
    lined = bench.pixels(bench.draw_lines(bench.patch, [(0, 20), (64, 20)], "white"))
    assert (lined[HEIGHT - 20, 5:60] == 255).all() and (lined[20] != 255).any()
    part = bench.patch.crop(30, 0, 60, 30)
    dotted = bench.pixels(bench.draw_points(part, [(41.5, 16.5)], ["a"], "white"))
    assert dotted.shape[:2] == (30, 30) and (dotted == 255).all(axis=2).any()
    grid = bench.pixels(bench.draw_grid(bench.patch, 2, 1, "white"))
    assert (grid[:, 32] == 255).all()
    joined = bench.side_by_side([bench.patch, red])
    assert joined.height == HEIGHT and joined.width == WIDTH + 8 + 120


def test_the_same_change_is_computed_once_and_has_one_name(bench: PixelBench) -> None:
    first, again = bench.enlarge(bench.patch, 2), bench.enlarge(bench.patch, 2)
    assert first._handle.id == again._handle.id != bench.enlarge(bench.patch, 3)._handle.id
    assert [call.cached for call in bench.session.calls] == [False, True, False]
    assert bench.session.model_calls == 0
    other = PixelBench()
    assert other.enlarge(other.patch, 2)._handle.id == first._handle.id


def test_shown_pictures_are_named_in_the_log(bench: PixelBench) -> None:
    bench.session.max_shown = 3
    bench.show(bench.patch, "all of it")
    bench.show(bench.patch.crop(10, HEIGHT - 9, 20, HEIGHT - 5))
    bench.session.max_shown_pixels = 64
    bench.show(bench.patch)
    shown = [call.result["fields"] for call in bench.session.calls]
    assert shown[0] == ["image0", WIDTH, HEIGHT] and shown[1][1:] == [10, 4]
    assert shown[2][1] * shown[2][2] <= 64
    with pytest.raises(ToolError, match="3 pictures were shown"):
        bench.show(bench.patch)
    with pytest.raises(ToolError, match="at most 200"):
        bench.show(bench.patch, "x" * 201)


def test_a_made_picture_has_a_greatest_size(bench: PixelBench) -> None:
    large = bench.enlarge(bench.enlarge(bench.patch, 16), 2)
    assert large.area < MAX_MADE_PIXELS
    with pytest.raises(ToolError, match=f"at most {MAX_MADE_PIXELS:,}"):
        bench.enlarge(large, 16)


def test_each_computation_has_its_routine(bench: PixelBench) -> None:
    from viper.api.sets import api_set

    tasks = ("question", "choice")
    listed = {entry.name for task in tasks for entry in api_set("look").entries(task)}
    computed = (set(CHANGES) | set(MEASURES)) - {"samples", "color"}  # of other routines
    assert computed | {"color_at", "line_profile", "frame_difference", "show"} <= listed
    assert all(
        entry.example for entry in api_set("look").entries("question") if entry.name in computed
    )
