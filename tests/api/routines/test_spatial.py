"""What the spatial routines return, with ties, borders and empty lists."""

from __future__ import annotations

from math import hypot

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.api.scripted import Maker, ScriptedClient
from viper.api import ImageHandle, ImagePatch
from viper.api.routines import spatial

# As a profile calibrates them.
RATIOS = {"is_on": 1.08, "is_next_to": 1.33}


def box(patch: ImagePatch) -> tuple[float, float, float, float]:
    return (patch.left, patch.lower, patch.right, patch.upper)


def test_distance_is_the_gap_between_edges(patch: Maker) -> None:
    a = patch(0, 0, 10, 10)
    assert spatial.distance(a, patch(15, 0, 20, 10)) == 5
    assert spatial.distance(a, patch(0, 30, 10, 40)) == 20
    assert spatial.distance(a, patch(13, 14, 20, 20)) == hypot(3, 4)
    assert spatial.distance(a, patch(10, 0, 20, 10)) == 0


def test_distance_on_overlap_is_minus_the_iou(patch: Maker) -> None:
    a = patch(0, 0, 10, 10)
    assert spatial.distance(a, a) == -1
    assert spatial.distance(a, patch(5, 0, 15, 10)) == pytest.approx(-50 / 150)
    assert spatial.distance(a, patch(2, 2, 4, 4)) == pytest.approx(-4 / 100)


edges = st.tuples(st.integers(0, 200), st.integers(0, 200)).map(sorted)


@given(edges, edges, edges, edges)
def test_distance_is_symmetric_and_bounded(ax, ay, bx, by) -> None:
    handle = ImageHandle("i", 200, 200, lambda name, *args, **kwargs: None)
    a = ImagePatch(handle, ax[0], ay[0], ax[1], ay[1])
    b = ImagePatch(handle, bx[0], by[0], bx[1], by[1])
    gap = spatial.distance(a, b)
    assert gap == spatial.distance(b, a)
    assert -1 <= gap <= hypot(200, 200)
    if gap > 0:
        assert not a.overlaps_with(*box(b))


def test_sorting_is_stable_and_leaves_the_list_alone(patch: Maker) -> None:
    first, twin, left = patch(50, 0, 60, 10), patch(40, 50, 70, 60), patch(0, 20, 10, 30)
    given_list = [first, twin, left]
    assert spatial.sort_patches_left_to_right(given_list) == [left, first, twin]
    assert spatial.sort_patches_bottom_to_top(given_list) == [first, left, twin]
    assert given_list == [first, twin, left]
    assert spatial.sort_patches_left_to_right([]) == []
    assert spatial.sort_patches_bottom_to_top([]) == []
    assert spatial.sort_patches_front_to_back([]) == []


def test_front_to_back_goes_by_depth(patch: Maker, client: ScriptedClient) -> None:
    near, far, also_far = patch(0, 0, 1, 1), patch(1, 0, 2, 1), patch(2, 0, 3, 1)
    client.will("compute_depth", 9.0, 2.0, 9.0)
    assert spatial.sort_patches_front_to_back([far, near, also_far]) == [near, far, also_far]


def test_middle(patch: Maker) -> None:
    a, b, c, d = (patch(x, 0, x + 5, 5) for x in (0, 20, 40, 60))
    assert spatial.get_middle_patch([c, a, b]) == b
    assert spatial.get_middle_patch([d, c, b, a]) == b
    assert spatial.get_middle_patch([a]) == a
    assert spatial.get_middle_patch([]) is None


def test_closest(patch: Maker) -> None:
    anchor, near, far = patch(50, 50, 60, 60), patch(70, 50, 80, 60), patch(0, 0, 5, 5)
    tie = patch(30, 50, 40, 60)
    closest = spatial.get_patch_closest_to_anchor_object
    assert closest([far, near, tie], anchor) == near
    assert closest([anchor, far], anchor) == far
    assert closest([anchor], anchor) is None
    again = patch(51, 50, 60, 61)  # the anchor's box for another word
    assert closest([again, far], anchor) == far
    assert closest([], anchor) is None


def test_strips_reach_the_borders_of_the_image(patch: Maker) -> None:
    p = patch(50, 20, 80, 60)
    assert box(spatial.get_patch_left_of(p)) == (0, 0, 50, 100)
    assert box(spatial.get_patch_right_of(p)) == (80, 0, 200, 100)
    assert box(spatial.get_patch_above_of(p)) == (0, 60, 200, 100)
    assert box(spatial.get_patch_below_of(p)) == (0, 0, 200, 20)
    assert box(spatial.get_patch_around_of(p)) == (20, 0, 110, 100)


def test_strips_at_the_border_are_empty(patch: Maker) -> None:
    whole = patch()
    for strip in (
        spatial.get_patch_left_of(whole),
        spatial.get_patch_right_of(whole),
        spatial.get_patch_above_of(whole),
        spatial.get_patch_below_of(whole),
    ):
        assert strip.area == 0 and strip.find("cup") == []
    assert spatial.get_patch_around_of(whole) == whole


def test_strips_need_the_size_of_the_picture(client: ScriptedClient) -> None:
    unknown = ImagePatch._at(ImageHandle("image0", 0, 0, client), 1, 1, 2, 2)
    with pytest.raises(ValueError, match="size of image 'image0' is not known"):
        spatial.get_patch_left_of(unknown)


def test_best_image_match(patch: Maker, client: ScriptedClient) -> None:
    a, b = patch(0, 0, 1, 1), patch(1, 0, 2, 1)
    client.will("best_image_match", 1, 1)
    assert spatial.best_image_match(client, [a, b], ["red cup"]) == b
    assert spatial.best_image_match(client, [a, b], "red cup", return_index=True) == 1
    assert client.calls == [("best_image_match", [a, b], ["red cup"])] * 2
    assert spatial.best_image_match(client, [a], ["red cup"]) == a
    assert spatial.best_image_match(client, [], ["red cup"]) is None
    assert len(client.calls) == 2


def test_best_description(patch: Maker, client: ScriptedClient) -> None:
    client.will("best_description_from_options", "metal")
    p = patch()
    assert spatial.best_description_from_options(p, "fence", ["wooden", "metal"]) == "metal"
    assert client.calls == [("best_description_from_options", p, "fence", ["wooden", "metal"])]


def test_what_rests_on_another_stands_on_its_upper_part(
    client: ScriptedClient, patch: Maker
) -> None:
    support = patch(20, 10, 60, 50)
    ball = patch(30, 45, 50, 65)
    for depth, expected in ((5.0, True), (7.0, False)):
        client.will("compute_depth", depth, 5.0)
        assert spatial.is_on(RATIOS, ball, support) is expected
    for ratios in (RATIOS, {}):
        assert not spatial.is_on(ratios, support, ball)
        assert not spatial.is_on(ratios, patch(70, 45, 90, 65), support)
        assert not spatial.is_on(ratios, patch(30, 60, 50, 80), support)
        assert not spatial.is_on(ratios, support, support)


def test_depths_are_compared_only_where_a_profile_calibrated_them(
    client: ScriptedClient, patch: Maker
) -> None:
    assert spatial.is_on({}, patch(30, 45, 50, 65), patch(20, 10, 60, 50))
    assert spatial.is_next_to({}, patch(10, 10, 30, 30), patch(35, 10, 55, 30))
    assert client.calls == []


def test_neighbours_are_near_in_the_picture_and_in_depth(
    client: ScriptedClient, patch: Maker
) -> None:
    cup, saucer = patch(10, 10, 30, 30), patch(35, 10, 55, 30)
    for depth, expected in ((4.0, True), (8.0, False)):
        client.will("compute_depth", 4.0, depth)
        assert spatial.is_next_to(RATIOS, cup, saucer) is expected
    assert not spatial.is_next_to(RATIOS, cup, patch(60, 10, 80, 30))
    assert not spatial.is_next_to(RATIOS, cup, cup)


def test_between_goes_by_the_longer_way(patch: Maker) -> None:
    left, right = patch(0, 0, 10, 10), patch(80, 5, 90, 15)
    assert spatial.is_between(patch(40, 50, 50, 60), left, right)
    assert not spatial.is_between(patch(92, 0, 99, 10), right, left)
    low, high = patch(0, 0, 10, 10), patch(5, 80, 15, 90)
    assert spatial.is_between(patch(50, 40, 60, 50), low, high)
    assert not spatial.is_between(patch(5, 92, 15, 99), low, high)


def test_nothing_is_between_itself_and_another(patch: Maker) -> None:
    left, right = patch(0, 0, 10, 10), patch(80, 0, 90, 10)
    again = patch(1, 0, 10, 10)
    assert not spatial.is_between(again, left, right)
    assert not spatial.is_between(again, right, left)
