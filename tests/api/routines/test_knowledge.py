"""Routines that look beyond the picture: what they ask, and what they refuse."""

from __future__ import annotations

import pytest

from tests.api.scripted import Maker, ScriptedClient
from viper.api import prelude
from viper.api.sets import api_set


def test_they_ask_about_the_patch_and_give_text(client: ScriptedClient, patch: Maker) -> None:
    names, cup = prelude.names(client, {}), patch(10, 10, 20, 20)
    client.will("ocr", "MK 17")
    client.will("image_search", ["Velora: a lamp"], ["a lamp"])
    client.will("text_search", ["1893", "Tarnix: Founded in 1893."])
    assert names["ocr"](cup) == "MK 17"
    assert names["image_search"](cup) == ["Velora: a lamp"]
    assert names["image_search"](cup, about="captions") == ["a lamp"]
    assert names["text_search"]("when?") == ["1893", "Tarnix: Founded in 1893."]
    assert client.calls == [
        ("ocr", cup),
        ("image_search", cup, "entities"),
        ("image_search", cup, "captions"),
        ("text_search", "when?"),
    ]


def test_wrong_arguments_are_refused_before_anything_is_asked(
    client: ScriptedClient, patch: Maker
) -> None:
    names = prelude.names(client, {})
    with pytest.raises(TypeError, match="image_patch must be an ImagePatch, not str"):
        names["ocr"]("the sign")
    with pytest.raises(ValueError, match="about must be one of entities, captions, identical"):
        names["image_search"](patch(0, 0, 9, 9), "prices")
    with pytest.raises(TypeError, match="query must be a string"):
        names["text_search"](7)
    assert not client.calls


def test_a_set_of_their_own_lists_them_for_questions() -> None:
    added = {one.name for one in api_set("abstract+knowledge").entries("question")}
    assert {"ocr", "image_search", "text_search", "find"} <= added
    assert not {"ocr"} & {one.name for one in api_set("abstract").entries("question")}
    assert not {"ocr"} & {one.name for one in api_set("abstract+knowledge").entries("ground")}
