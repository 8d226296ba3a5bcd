import dataclasses

import numpy as np
import pytest

from viper_lab.world.layout import sample_scene
from viper_lab.world.render import render_scene
from viper_lab.world.render_camera import Camera
from viper_lab.world.render_props import TableTop
from viper_lab.world.render_shapes import RADIUS, half_height, solid_of
from viper_lab.world.render_stage import Stage, mask_box
from viper_lab.world.scene import IMAGE_HEIGHT, IMAGE_WIDTH, SceneObject
from viper_lab.world.vocabulary import (
    COLOURS,
    MATERIALS,
    RESERVED_COLOURS,
    RESERVED_PATTERNS,
    RESERVED_SHAPES,
    SHAPES,
)

CAMERA = Camera.around(height=5.0, distance=7.6)
EVERY_SHAPE = SHAPES + RESERVED_SHAPES


def thing(shape: str = "ball", colour: str = "red", **changes) -> SceneObject:
    size = changes.get("size", "big")
    plain = SceneObject(shape, colour, "rubber", size, (0.0, 0.0, half_height(shape, size)))
    return dataclasses.replace(plain, **changes)


def picture(*things: SceneObject, samples: int = 1):
    return Stage(CAMERA, IMAGE_WIDTH, IMAGE_HEIGHT, samples).render(things)


def test_a_still_is_a_function_of_its_scene():
    scene = sample_scene("val", 5)
    first, second = render_scene(scene), render_scene(scene)
    assert np.array_equal(first.image, second.image)
    assert np.array_equal(first.depth, second.depth)


def test_shapes_and_types_of_a_still():
    scene = sample_scene("train", 1)
    still = render_scene(scene)
    n = len(scene.objects)
    assert (still.image.shape, still.image.dtype) == ((IMAGE_HEIGHT, IMAGE_WIDTH, 3), np.uint8)
    assert (still.masks.shape, still.masks.dtype) == ((n, IMAGE_HEIGHT, IMAGE_WIDTH), np.bool_)
    assert (still.depth.shape, still.depth.dtype) == ((IMAGE_HEIGHT, IMAGE_WIDTH), np.float32)
    for array, shape in ((still.boxes, (n, 4)), (still.object_depths, (n,)), (still.visible, (n,))):
        assert (array.shape, array.dtype) == (shape, np.float32)


def test_boxes_are_the_extents_of_the_masks():
    still = render_scene(sample_scene("test", 2))
    for mask, (x0, y0, x1, y1) in zip(still.masks, still.boxes.astype(int), strict=True):
        assert mask[y0:y1, x0:x1].sum() == mask.sum()
        assert mask[y0].any() and mask[y1 - 1].any()
        assert mask[:, x0].any() and mask[:, x1 - 1].any()


def test_an_empty_mask_has_no_box():
    assert np.isnan(mask_box(np.zeros((4, 4), np.bool_))).all()


@pytest.mark.parametrize("shape", EVERY_SHAPE)
def test_silhouette_lies_where_the_camera_projects_the_object(shape):
    body = thing(shape, yaw=0.7)
    shown = picture(body)
    spots = CAMERA.project(solid_of(body).corners(), IMAGE_WIDTH, IMAGE_HEIGHT)
    x0, y0, x1, y1 = shown.boxes[0]
    assert spots[:, 0].min() - 1 <= x0 < x1 <= spots[:, 0].max() + 1
    assert spots[:, 1].min() - 1 <= y0 < y1 <= spots[:, 1].max() + 1
    assert x1 - x0 > 0.5 * np.ptp(spots[:, 0])
    assert shown.visible[0] == 1


def test_depth_of_a_ball_is_what_geometry_says():
    ball = thing("ball", position=(0.5, 1.0, 1.4))
    centre = CAMERA.project(np.array([ball.position]), IMAGE_WIDTH, IMAGE_HEIGHT)[0]
    shown = picture(ball)
    # The ray through the middle meets the ball one radius before its centre.
    ray = CAMERA.rays(IMAGE_WIDTH, IMAGE_HEIGHT, 1)[:, 0, int(centre[1]), int(centre[0])]
    expected = centre[2] - 0.93 * RADIUS["big"] / np.linalg.norm(ray)
    assert shown.depth[int(centre[1]), int(centre[0])] == pytest.approx(expected, abs=0.02)


def test_depth_of_the_table_puts_every_pixel_at_height_zero():
    depth = picture().depth
    rays = CAMERA.rays(IMAGE_WIDTH, IMAGE_HEIGHT, 1)[:, 0]
    assert np.allclose(CAMERA.position[2] + rays[2] * depth, 0, atol=1e-3)


@pytest.mark.parametrize("shape", EVERY_SHAPE)
def test_surface_points_lie_on_the_object_with_normals_towards_the_camera(shape):
    solid = solid_of(thing(shape, yaw=0.4))
    eye = np.array(CAMERA.position, np.float32)
    rays = CAMERA.rays(IMAGE_WIDTH, IMAGE_HEIGHT, 1).reshape(3, -1)
    with np.errstate(all="ignore"):
        t = solid.cast(eye, rays)
    hit = np.isfinite(t)
    points = eye[:, None] + rays[:, hit] * t[hit]
    assert hit.sum() > 300
    assert (np.linalg.norm(points - solid.centre[:, None], axis=0) <= solid.reach + 0.02).all()
    assert points[2].min() > -0.05
    normals = solid.normals(solid.to_local(points))
    assert np.allclose(np.linalg.norm(normals, axis=0), 1, atol=1e-3)
    towards = (normals * rays[:, hit]).sum(0)
    assert np.mean(towards < 0.02) > 0.98


@pytest.mark.parametrize("shape", EVERY_SHAPE)
@pytest.mark.parametrize("size", ["big", "small"])
def test_half_height_rests_the_object_on_the_table(shape, size):
    body = thing(shape, size=size, position=(0, 0, half_height(shape, size)))
    low_eye = np.array([0, -8, 0.01], np.float32)
    heights = np.linspace(-0.3, 0.3, 121, dtype=np.float32)
    rays = np.stack([0 * heights, 0 * heights + 8, heights])
    if shape == "ring":  # Its lowest point is not under its centre line.
        rays = np.concatenate(
            [rays + np.array([[x], [0], [0]], np.float32) for x in (-0.2, 0, 0.2)], 1
        )
    with np.errstate(all="ignore"):
        t = solid_of(body).cast(low_eye, rays)
    hit = np.isfinite(t)
    lowest = (low_eye[2] + rays[2, hit] * t[hit]).min()
    assert -0.02 < lowest < 0.12


def test_a_ring_shows_its_hole_whatever_its_yaw():
    for yaw in np.linspace(0, 2 * np.pi, 7):
        mask = picture(thing("ring", size="small", yaw=float(yaw), position=(1, 1, 0.46))).masks[0]
        x0, y0, x1, y1 = map(int, mask_box(mask))
        assert not mask[(y0 + y1) // 2, (x0 + x1) // 2]


def test_the_nearer_object_hides_the_farther_one():
    near, far = thing(position=(0, -1.5, 0.85)), thing("cube", "blue", position=(0, 1.2, 0.7))
    for order in ((near, far), (far, near)):
        shown = picture(*order)
        assert shown.visible[order.index(near)] == 1
        assert 0 < shown.visible[order.index(far)] < 1
        assert not (shown.masks[0] & shown.masks[1]).any()


def test_order_of_objects_does_not_change_the_picture():
    things = (thing(), thing("cone", "green", position=(1.5, 1, 0.88)))
    assert np.array_equal(picture(*things).image, picture(*things[::-1]).image)


def test_an_object_out_of_view_has_no_box():
    shown = picture(thing(position=(40, 0, 1)), thing(position=(0, -20, 1)))
    assert np.isnan(shown.boxes).all()
    assert shown.visible.tolist() == [0, 0]
    assert shown.cut.all()


def test_objects_below_the_table_are_hidden_by_it():
    table = TableTop(-2, -2, 2, 2)
    under = Stage(CAMERA, 160, 120, table=table).render([thing(position=(0, 0, -1.2))])
    beside = Stage(CAMERA, 160, 120, table=table).render([thing(position=(3.2, 0, -1.2))])
    assert under.visible[0] < 0.3
    assert beside.visible[0] > 0.9


def test_objects_throw_shadows_on_the_table_and_on_others():
    empty, with_ball = picture().image, picture(thing(position=(0, 0, 2.5)))
    outside = ~with_ball.masks[0]
    darker = (empty.astype(int) - with_ball.image)[outside].max(1) > 25
    assert darker.sum() > 200
    cube = thing("cube", "gray", position=(2.0, 1.4, 0.7))
    shaded = picture(cube, thing(position=(0.6, 0.2, 3.4)))
    alone = picture(cube)
    both = shaded.masks[0] & alone.masks[0]
    assert ((alone.image.astype(int) - shaded.image)[both].max(1) > 20).sum() > 30


def test_stage_reused_gives_the_same_picture_as_a_fresh_one():
    stage = Stage(CAMERA, 160, 120)
    stage.render([thing("ring")])
    again = stage.render([thing("cone")])
    fresh = Stage(CAMERA, 160, 120).render([thing("cone")])
    assert np.array_equal(again.image, fresh.image)


def test_sizes_are_clearly_apart():
    big, small = (picture(thing("cube", size=size)).masks[0].sum() for size in ("big", "small"))
    assert big > 2.5 * small


def test_colours_are_apart_on_rubber_and_metal():
    for material in MATERIALS:
        means = {}
        for colour in COLOURS + RESERVED_COLOURS:
            shown = picture(thing("ball", colour, material=material))
            means[colour] = shown.image[shown.masks[0]].mean(0)
        for one in means:
            for other in means:
                assert one == other or np.abs(means[one] - means[other]).max() > 22, (one, other)


def test_metal_differs_from_rubber_on_flat_faces():
    rubber, metal = (picture(thing("cube", material=m, yaw=0.5)) for m in ("rubber", "metal"))
    mask = rubber.masks[0]
    assert np.abs(rubber.image[mask].astype(int) - metal.image[mask]).max(1).mean() > 25


@pytest.mark.parametrize("pattern", RESERVED_PATTERNS)
@pytest.mark.parametrize("shape", EVERY_SHAPE)
def test_patterns_mark_part_of_every_shape(shape, pattern):
    plain, marked = picture(thing(shape)), picture(thing(shape, pattern=pattern))
    mask = plain.masks[0]
    changed = (plain.image[mask] != marked.image[mask]).any(1).mean()
    assert 0.06 < changed < 0.75


def test_stands_hold_up_what_rests_on_nothing():
    stage = Stage(CAMERA, IMAGE_WIDTH, IMAGE_HEIGHT)
    lifted = thing(position=(0, 0, 2.6))
    with_stand = stage.render([lifted], stands=True).image
    assert (with_stand != stage.render([lifted]).image).any()
    stacked = [thing("cube"), thing("ball", position=(0, 0, 2 * 0.702 + 0.837))]
    assert (stage.render(stacked, stands=True).image == stage.render(stacked).image).all()
