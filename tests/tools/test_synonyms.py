"""Synonyms, plurals and small typing errors of the words that models know."""

from __future__ import annotations

import pytest

from viper.profiles.files import read_profile
from viper.tools.settings import ToolSettings

SETTINGS = ToolSettings(
    attribute_families=(("red", "gray"),),
    synonyms={"ball": ("sphere", "orb"), "gray": ("grey",), "cylinder": ("tube",)},
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("red sphere", "red ball"),
        ("Grey orbs", "gray ball"),
        ("gray cylnider", "gray cylinder"),
        ("the tubes stop", "the cylinder stop"),
        ("dog", "dog"),
        ("red", "red"),
    ],
)
def test_words_become_those_of_the_models(text: str, expected: str) -> None:
    assert SETTINGS.in_models_words(text) == expected


def test_without_synonyms_a_text_stays_as_it_is() -> None:
    settings = ToolSettings(attribute_families=(("red", "gray"),))
    assert settings.in_models_words("Grey orbs, rde") == "Grey orbs, rde"


def test_words_that_are_none_of_the_models_are_no_typing_errors() -> None:
    settings = read_profile("embedded").tools
    for text in (
        "what happens?",
        "the red cube falls off the table",
        "the red cube hits the blue ball",
        "what starts moving?",
        "what does the red cube do?",
        "the red cube appears",
        "what stops?",
        "the cube falls to the ground",
        "none blocked string middle",
        "egg pyramid disc plank dome pink orange white black striped spotted checkered",
    ):
        assert settings.in_models_words(text) == text
