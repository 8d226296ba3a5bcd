"""Messages: their pictures by content, their text for people, their keys."""

import json

import numpy as np
import pytest

from viper.models.llm.messages import (
    MAX_ASPECT,
    Picture,
    as_key,
    as_text,
    assistant,
    framed,
    messages_of,
    pictures_of,
    system,
    user,
    without_system,
)

RED = Picture(np.full((2, 3, 3), (255, 0, 0), np.uint8))


def test_pictures_are_equal_by_their_pixels_and_shape() -> None:
    assert Picture(RED.pixels.copy()) == RED
    assert hash(Picture(RED.pixels.copy())) == hash(RED)
    assert Picture(RED.pixels.reshape(3, 2, 3)) != RED
    assert str(RED).startswith("[picture 3 x 2, sha256 ")


def test_a_string_is_one_user_message() -> None:
    assert messages_of("hi") == (user("hi"),)
    assert as_text("hi") == "hi"


def test_the_text_of_a_longer_conversation_begins_with_that_of_the_shorter() -> None:
    first = (system("rules"), user(RED, "what?"))
    longer = (*first, assistant("a cube"), user("sure?"))
    assert as_text(longer).startswith(as_text(first))
    assert RED.digest[:16] in as_text(first)
    assert pictures_of(longer) == [RED]


def test_keys_differ_where_prompts_do() -> None:
    blue = Picture(np.full((2, 3, 3), (0, 0, 255), np.uint8))
    prompts = ["a", (user("a"),), (system("a"),), (user("a", ""),), (user(RED),), (user(blue),)]
    keys = {json.dumps(as_key(prompt)) for prompt in prompts}
    assert len(keys) == len(prompts)
    assert as_key((user(Picture(RED.pixels.copy())),)) == as_key((user(RED),))


def test_the_system_text_can_stand_in_the_first_user_message() -> None:
    prompt = (system("rules"), user("what?"), assistant("that"))
    assert without_system(prompt) == (user("rules", "what?"), assistant("that"))
    assert without_system((user("what?"),)) == (user("what?"),)


@pytest.mark.parametrize(
    ("size", "most", "expected"),
    [
        ((4000, 3000), 1_003_520, (1156, 868)),
        ((3000, 4000), 1_003_520, (868, 1156)),
        ((2000, 2000), 1_003_520, (1001, 1002)),
        ((640, 480), 640 * 480, (640, 480)),
        ((5000, 1), 1_003_520, (5000, 25)),
        ((1, 50_000), 10_000, (8, 1250)),
        ((7, 5), 1, (1, 1)),
    ],
)
def test_pictures_are_fitted_to_a_number_of_pixels(
    size: tuple[int, int], most: int, expected: tuple[int, int]
) -> None:
    picture = Picture(np.full((size[1], size[0], 3), 200, np.uint8))
    image = picture.fitted(most)
    width, height = image.size
    assert (width, height) == expected
    assert width * height <= most and max(expected) <= MAX_ASPECT * min(expected)
    # The picture itself fills the frame's top left corner.
    assert image.getpixel((0, 0)) == (200, 200, 200)
    again = Picture(np.asarray(image)).fitted(most)
    assert again.size == image.size


def test_small_pictures_are_not_changed() -> None:
    assert np.array_equal(RED.fitted(6), RED.pixels) and framed(3, 2) == (3, 2)
    assert framed(3, 1001) == (6, 1001)
