"""Messages: their pictures by content, their text for people, their keys."""

import json

import numpy as np

from viper.prompting.messages import (
    Picture,
    as_key,
    as_text,
    assistant,
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
