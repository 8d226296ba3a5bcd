"""Metamorphic relations: what changes, and which answer the changed query must have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from viper.models.media import Media
from viper.schema import Answer, Query, ToolCall, Trial
from viper.strategies.relations import cropped, harmless, mirrored, reversed_in_time, variants

HEIGHT, WIDTH = 60, 100


def media(count: int = 1) -> Media:
    picture = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    picture[10:20, 70:90] = 200
    return Media((picture,) * count, None, tuple(f"image{i}" for i in range(count)))


def clip() -> Media:
    frames = np.zeros((4, HEIGHT, WIDTH, 3), np.uint8)
    frames += np.arange(4, dtype=np.uint8)[:, None, None, None]
    return Media((), frames, ("clip",), (0, 1, 2, 3))


def found(*boxes: tuple[float, float, float, float]) -> Trial:
    """A trial in which a tool returned patches with these fields (y points up)."""
    patches = [{"kind": "patch", "fields": ["image0", *box]} for box in boxes]
    call = ToolCall(0, "find", (), {}, patches, 0.0)
    return Trial(0, "", "first", True, None, {}, (call,), "", 0.0, sizes=media().sizes)


def boxed(*sides: float) -> Answer:
    return Answer(list(sides), "box", box=sides, image_index=0)  # type: ignore[arg-type]


def test_a_mirrored_picture_has_the_mirrored_box_and_the_words_change_sides() -> None:
    variant = mirrored(
        Query("the leftmost cube, right of the left-hand one", "ground"),
        media(),
        boxed(70, 10, 90, 20),
        found(),
    )
    assert variant is not None and variant.expected.box == (10, 10, 30, 20)
    assert variant.query.text == "the rightmost cube, left of the right-hand one"
    assert variant.media.images[0][15, 15, 0] == 200


def test_answers_and_options_in_words_change_sides_and_other_words_stay() -> None:
    query = Query("which side? the bright one", "choice", options=("on the left", "on the right"))
    answer = Answer("on the left", "choice", choice_index=0)
    variant = mirrored(query, media(), answer, found())
    assert variant is not None and variant.query.options == ("on the right", "on the left")
    assert (variant.expected.value, variant.expected.choice_index) == ("on the right", 0)
    assert variant.query.text == query.text


def test_several_pictures_are_not_mirrored_because_left_may_name_a_picture() -> None:
    answer = Answer(True, "truth")
    several = media(2)
    assert mirrored(Query("the left one", "statement", "images"), several, answer, found()) is None
    names = {v.name for v in variants(Query("x", "statement", "images"), several, answer, found())}
    assert names == {"brighter"}


def test_brightness_and_noise_change_the_pixels_and_not_the_answer() -> None:
    answer, trial = Answer("red", "text"), found((70, 40, 90, 50))
    query = Query("what color?", "question")
    by_name = {v.name: v for v in variants(query, media(), answer, trial)}
    assert set(by_name) == {"mirrored", "brighter", "cropped", "edited"}
    assert by_name["brighter"].media.images[0].max() > 200
    noisy = by_name["edited"].media.images[0]
    assert (noisy[10:20, 70:90] == 200).all() and (noisy[30:] > 0).any()
    assert by_name["brighter"].expected == by_name["edited"].expected == answer


def test_a_crop_keeps_all_objects_found_and_moves_the_box() -> None:
    trial = found((70, 40, 90, 50), (40, 5, 50, 20))
    variant = cropped(Query("the cube", "ground"), media(), boxed(70, 10, 90, 20), trial)
    assert variant is not None and variant.expected.box is not None
    x0, y0, x1, y1 = map(round, variant.expected.box)
    part = variant.media.images[0]
    assert (part[y0:y1, x0:x1] == 200).all() and part.size < WIDTH * HEIGHT * 3
    assert cropped(Query("the cube", "ground"), media(), boxed(0, 0, 9, 9), found()) is None
    of_clip = cropped(Query("x", "question", "video"), clip(), Answer("x", "text"), found())
    assert of_clip is not None and of_clip.media.video is not None
    assert of_clip.media.video.shape == (4, HEIGHT - 6, WIDTH - 10, 3)
    everywhere = found((0, 0, WIDTH, HEIGHT))
    assert cropped(Query("the cube", "ground"), media(), boxed(0, 0, 9, 9), everywhere) is None


@pytest.mark.parametrize(
    ("text", "reworded"),
    [
        ("what does it hit before the ball?", "what does it hit after the ball?"),
        ("what is hit last?", "what is hit first?"),
        ("what does it hit?", None),
        ("what starts before the ball?", None),
        ("which falls last?", None),
    ],
)
def test_only_an_order_of_events_without_direction_is_reversed(
    text: str, reworded: str | None
) -> None:
    query = Query(text, "choice", "video", ("the ball", "the cone"))
    variant = reversed_in_time(query, clip(), Answer("the ball", "choice", 0), found())
    if reworded is None:
        assert variant is None
    else:
        assert variant is not None and variant.query.text == reworded
        assert variant.media.video is not None and variant.media.video[0, 0, 0, 0] == 3


@pytest.mark.parametrize(
    ("query", "program", "mirror"),
    [
        ("how many?", "return len(found)", True),
        ("how many on the left?", "return len(found)", False),
        ("which?", "return min(found, key=lambda p: p.horizontal_center)", False),
        ("which?", "return found[0].left", False),
        ("which?", "return sort_patches_left_to_right(found)[0].label", False),
        ("which?", "return get_patch_right_of(found[0]).label", False),
        ("how many?", "return len(image_patch.crop(0, 0, 50, 60).find('cube'))", False),
    ],
)
def test_a_program_about_sides_is_not_run_on_a_mirrored_picture(
    query: str, program: str, mirror: bool
) -> None:
    trial = replace(found((70, 40, 90, 50)), program=program)
    answer = Answer("2", "text")
    names = [each.name for each in harmless(Query(query, "question"), media(), answer, trial)]
    assert names == ["mirrored"] * mirror + ["brighter", "cropped"]
