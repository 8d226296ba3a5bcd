"""Questions that the VQA model learns from."""

import numpy as np
import pytest

from viper_lab.recipes.questions import (
    about_object,
    about_picture,
    picture_caption,
    question_words,
    word_question,
)
from viper_lab.recipes.wordpieces import BLIP_MARKS, word_tokenizer
from viper_lab.world.scene import SceneObject
from viper_lab.world.vocabulary import HELD_OUT_COMBINATIONS

CUBE = SceneObject("cube", "red", "metal", "small", (0, 0, 0))
BALL = SceneObject("ball", "blue", "rubber", "big", (1, 0, 0))


@pytest.mark.parametrize(
    ("family", "answer"),
    [("colour", "red"), ("material", "metal"), ("size", "small"), ("shape", "cube")],
)
def test_a_word_question_never_gives_its_answer_away(family, answer):
    rng = np.random.default_rng(0)
    for _ in range(200):
        asked = word_question(CUBE, family, rng)
        assert asked.answer == answer
        choice = "metal or rubber" in asked.question or {"big", "small"} <= set(
            asked.question.strip("?").split()
        )
        assert choice or answer not in asked.question.strip("?").split()


def test_yes_and_no_are_balanced():
    rng = np.random.default_rng(0)
    answers = [
        asked.answer
        for _ in range(400)
        for asked in about_object(CUBE, rng)
        if asked.about == "yes_no"
    ]
    assert 0.4 < np.mean([answer == "yes" for answer in answers]) < 0.6


def test_an_object_of_a_held_out_pair_can_be_asked_about():
    rng = np.random.default_rng(0)
    cone = SceneObject("cone", "red", "metal", "small", (0, 0, 0))
    answers = {a.answer for _ in range(100) for a in about_object(cone, rng) if a.about == "yes_no"}
    assert answers == {"yes", "no"}


def test_no_question_judges_a_held_out_pair():
    rng = np.random.default_rng(0)
    for _ in range(500):
        for asked in [*about_object(CUBE, rng), *about_picture([CUBE, BALL], rng)]:
            words = set(asked.question.strip("?").split())
            assert not any({*pair} <= words for pair in HELD_OUT_COMBINATIONS - {("red", "cone")})


def test_counts_are_true():
    rng = np.random.default_rng(1)
    asked = [a for _ in range(300) for a in about_picture([CUBE, CUBE, BALL], rng)]
    counts = {a.question: a.answer for a in asked if a.about == "count"}
    for question, answer in counts.items():
        if question.startswith("how many cubes"):
            assert answer == "2"
        if question.startswith(("how many things", "how many objects")):
            assert answer == "3"


def test_the_picture_caption_lists_everything_in_a_fixed_order():
    assert picture_caption([BALL, CUBE]).answer == "a red cube and a blue ball"
    assert picture_caption([CUBE, BALL, BALL]).answer.count("a blue ball") == 2


def test_every_word_is_one_piece():
    tokenizer = word_tokenizer(question_words(), BLIP_MARKS)
    rng = np.random.default_rng(2)
    for _ in range(100):
        for asked in [*about_object(CUBE, rng), *about_picture([CUBE, BALL], rng)]:
            for text in (asked.question, asked.answer):
                pieces = tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])
                assert not any(piece.startswith("##") or piece == "[UNK]" for piece in pieces)
