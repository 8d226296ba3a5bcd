"""Words of everyday questions: held-out wordings and synonyms are far from those for training."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from random import Random

import pytest

from viper_lab.world.everyday import say as say_module
from viper_lab.world.everyday.draw import FreeKinds, draw_ask
from viper_lab.world.everyday.phrases import NoWordingError
from viper_lab.world.everyday.say import say
from viper_lab.world.everyday.texts import everyday_selection, everyday_text
from viper_lab.world.everyday.words import HELD_OUT, in_world_words, world_words
from viper_lab.world.queries.lexicon import WORLD
from viper_lab.world.vocabulary import HELD_OUT_COMBINATIONS

FUNCTION_WORDS = re.compile(
    "an?|the|is|are|was|be|been|do|does|did|of|in|on|at|to|for|from|with|and|or|not?|its?|that|this|"
    "than|as|if|i|you|we|me|my|your|what|which|who|how|t?here|can|could|would|will|ha[sv]e?|s"
)


def variants(text: str) -> set[str]:
    """Return everything that a frame can say."""
    match = re.search(r"\(([^()]*)\)", text)
    if match is None:
        return {text}
    chosen = match.group(1).split("|")
    return set().union(
        *(variants(text[: match.start()] + part + text[match.end() :]) for part in chosen)
    )


def content_words(frame: str) -> set[str]:
    words = re.sub(r"\{[^}]*\}", " ", frame.lower())
    return {word for word in re.findall(r"[a-z]+", words) if not FUNCTION_WORDS.fullmatch(word)}


@pytest.mark.parametrize("name", ["wordings", "clip_wordings"])
def test_held_out_wordings_differ_in_three_content_words(name: str) -> None:
    path = Path(say_module.__file__).with_name(f"{name}.toml")
    frames = tomllib.loads(path.read_text("utf-8"))["frames"].values()
    training = {
        frozenset(content_words(variant))
        for table in frames
        for text in [*table["seen"], *table.get("say", ())]
        for variant in variants(text)
    }
    held = [text for table in frames for text in table.get("held", ())]
    assert len(held) >= 15
    near = [
        text
        for text in held
        if min(len(content_words(v) ^ words) for v in variants(text) for words in training) < 3
    ]
    assert not near


def test_training_texts_hold_no_held_out_word_or_pair() -> None:
    random = Random(2)
    for task in ("ground", "question", "statement", "choice"):
        for _ in range(300):
            text = everyday_text(random, task)
            words = set(re.findall(r"[a-z]+", f"{text.text} {text.program}".lower()))
            assert not words & HELD_OUT
            for literal in re.findall(r"'([^']*)'", text.program):
                pair = tuple(in_world_words(literal).split()[-2:])
                assert pair not in HELD_OUT_COMBINATIONS


def test_the_tools_know_every_synonym() -> None:
    own = {*WORLD.sizes, *WORLD.colors, *WORLD.materials, *WORLD.shapes}
    for words in (world_words(), world_words(held_out=True)):
        for family in (words.size, words.color, words.material, words.shape):
            assert {in_world_words(word) for word in family} <= own
    assert {in_world_words(word) for word in HELD_OUT} <= own


def test_the_same_seed_says_the_same() -> None:
    def texts() -> list[str]:
        random = Random(7)
        kinds = FreeKinds(random)
        return [say(draw_ask(random, kinds), random) for _ in range(50)]

    assert texts() == texts()


def test_a_selection_has_its_answer_once_and_no_other_right_one() -> None:
    random = Random(3)
    for _ in range(300):
        try:
            sample = everyday_selection(random)
        except NoWordingError:
            continue
        assert sample.options.count(sample.answer) == 1
        same = [o for o in sample.options if in_world_words(o) == in_world_words(sample.answer)]
        assert same == [sample.answer]
