"""Queries and programs as text: regular, parsable, split cleanly."""

from __future__ import annotations

import ast
import re
from collections import Counter
from random import Random

import pytest

from viper_lab.world.queries import compositional, selections, temporal
from viper_lab.world.queries.lexicon import Lexicon
from viper_lab.world.queries.meaning import FAMILIES, Meaning, steps
from viper_lab.world.queries.programs import gold_program
from viper_lab.world.queries.texts import selection_sample, text_sample
from viper_lab.world.vocabulary import HELD_OUT_COMBINATIONS

from .from_json import meaning_from_json

ALL_TEMPLATES = [
    *(texts for name, texts in selections.TEMPLATES.items() if name != "nested_extreme"),
    *compositional.TEMPLATES.values(),
    *temporal.TEMPLATES.values(),
    selections.FRAME,
]


def samples_of(split: str, seed: int, count: int, **drawn):
    random = Random(f"text {split} {seed}")
    return [text_sample(random, split, **drawn) for _ in range(count)]


@pytest.mark.parametrize("api", ["abstract", "vipergpt"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_programs_parse_and_texts_are_regular(api: str, split: str) -> None:
    for sample in samples_of(split, 3, 600, api=api):
        ast.parse(sample.program)
        assert re.fullmatch(r"[a-z ]+\??", sample.text), sample.text
        assert "  " not in sample.text
        assert sample.program.startswith("def execute_command(")
        assert "\n\n" not in sample.program
        if sample.task == "choice":
            assert len(sample.options) in (4, 5)
            assert len(set(sample.options)) == len(sample.options)


def test_held_out_templates_and_combinations_stay_in_the_test_split() -> None:
    seen = {sample.text for sample in samples_of("train", 0, 4000)}
    for text in seen:
        for colour, shape in HELD_OUT_COMBINATIONS:
            assert f"{colour} {shape}" not in text
    test = samples_of("test", 0, 2000)
    for sample in test:
        assert ":h" in sample.template, sample.template
        assert ":s" not in sample.template, sample.template
    assert not seen & {sample.text for sample in test}


def test_a_third_of_the_scored_templates_is_held_out_and_recombines_known_words() -> None:
    held_out = sum(len(t.held_out) for t in ALL_TEMPLATES)
    share = held_out / (held_out + sum(len(t.seen) for t in ALL_TEMPLATES))
    assert 0.28 <= share <= 0.4
    assert all(len(t.seen) + len(t.held_out) >= 4 for t in ALL_TEMPLATES)
    known = {word for t in ALL_TEMPLATES for text in t.seen for word in text.rstrip("?").split()}
    for templates in ALL_TEMPLATES:
        for text in templates.held_out:
            assert set(text.rstrip("?").split()) <= known, text


def test_what_only_training_says_is_never_a_held_out_way_of_saying_it() -> None:
    assert all(t.practice for t in ALL_TEMPLATES)
    for templates in ALL_TEMPLATES:
        texts = (*templates.seen, *templates.held_out, *templates.practice)
        assert len(set(texts)) == len(texts)


def test_validation_says_nothing_that_only_training_says() -> None:
    for sample in samples_of("val", 0, 500):
        assert ":p" not in sample.template and ":h" not in sample.template, sample.template


def test_other_words_make_another_language() -> None:
    lexicon = Lexicon(
        ("zu", "po"), ("blim", "korv"), ("mettle", "tor"), ("dax", "wug", "fep"), frozenset()
    )
    for sample in samples_of("train", 1, 300, lexicon=lexicon):
        words = set(sample.text.rstrip("?").split())
        assert not words & {"cube", "ball", "red", "small", "cubes"}, sample.text


def test_selections_have_their_answer_among_the_options_and_in_the_information() -> None:
    places: Counter[int] = Counter()
    random = Random("selections")
    for sample in (selection_sample(random) for _ in range(1000)):
        assert sample.answer in sample.options
        assert [option for option in sample.options if option in sample.info] == [sample.answer]
        places[sample.options.index(sample.answer)] += 1
    assert min(places[i] for i in range(4)) > 120


def test_same_seed_same_texts() -> None:
    assert samples_of("val", 5, 50) == samples_of("val", 5, 50)
    assert samples_of("val", 5, 50) != samples_of("val", 6, 50)


def test_meanings_survive_json() -> None:
    for sample in samples_of("train", 2, 300):
        again = meaning_from_json(sample.meaning.to_json())
        assert again == sample.meaning
        assert gold_program(again, "abstract") == sample.program


@pytest.mark.parametrize("family", FAMILIES[:2])
def test_half_of_the_picture_queries_need_two_steps(family: str) -> None:
    samples = samples_of("train", 4, 1000, family=family)
    assert sum(steps(sample.meaning) >= 2 for sample in samples) >= 550
    yes_no = sum(sample.query_type in compositional.YES_NO for sample in samples)
    assert yes_no <= 200


def test_two_hop_program() -> None:
    anchor = Meaning("extreme", {"kind": "cube", "side": "left"})
    meaning = Meaning("closest", {"kind": "ball", "anchor": anchor})
    assert gold_program(meaning, "abstract").splitlines() == [
        "def execute_command(image):",
        "    image_patch = ImagePatch(image)",
        "    anchors = image_patch.find('cube')",
        "    anchors = sort_patches_left_to_right(anchors)",
        "    anchor = anchors[0]",
        "    patches = image_patch.find('ball')",
        "    patch = get_patch_closest_to_anchor_object(patches, anchor)",
        "    return patch",
    ]
    text = selections.say_selection(meaning, Random(0), "train")[1]
    assert "ball" in text and "cube" in text
