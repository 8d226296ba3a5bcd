"""The shipped words of ``photo-lite``: which questions it takes, and which it withholds by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import viper
from viper.models.domain import Domain
from viper.models.vision.vocabulary import Vocabulary
from viper.record import read_toml

PACKAGE = Path(viper.__file__).parent
COCO: Any = read_toml(PACKAGE / "models" / "vision" / "coco.toml")[1]
DOMAIN = Domain(
    "photographs",
    PACKAGE / "profiles" / "photo-lite.txt",
    vocabulary=Vocabulary(COCO["categories"], COCO["synonyms"], COCO["unions"]),
)


def unknown(question: str) -> tuple[str, ...]:
    return DOMAIN.unknown_words(question, lambda word: False)


@pytest.mark.parametrize(
    "question",
    [
        "hi, how mny people r in the kitchen pls?",
        "Are there as many knives as buses?",
        "do you see any traffic lights on this street",
        "Is the light blue car to the left of the fire hydrant?",
        "whats the main colour of the largest umbrella on the right-hand side",
        "the third elephant counting from the left",
        "Does this picture have fewer than ten TVs, true or false?",
        "What is the biggest word on the frisbee?",
    ],
)
def test_counting_places_sizes_and_colors_are_known(question: str) -> None:
    assert unknown(question) == ()


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("What is the person in the middle doing?", "doing"),
        ("are all the birds flying?", "flying"),
        ("what is she pointing the remote at", "pointing"),
        ("is the guy wearing glasses?", "wearing"),
        ("What kind of cake is it?", "kind"),
        ("Whose car is that?", "whose"),
        ("how old is the elephant", "old"),
        ("how tall is the giraffe?", "tall"),
        ("why is the dog on the couch", "why"),
        ("when was this picture taken?", "when"),
        ("is the laptop closed?", "closed"),
        ("is it snowing", "snowing"),
        ("how much was the wine", "wine"),
        ("is the bottle behind the cup", "behind"),
    ],
)
def test_what_boxes_cannot_say_is_named(question: str, named: str) -> None:
    assert named in unknown(question)
