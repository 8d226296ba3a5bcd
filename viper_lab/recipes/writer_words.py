"""Invented nouns and routine names, which the program writer has to copy.

Words for training and words for testing are disjoint: a checksum decides the side of a word, and
the English words in routine names come from two separate lists. Names of common words alone
(:func:`plain_names`) are for scoring; training has none.
"""

from __future__ import annotations

import keyword
import tomllib
import zlib
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from random import Random

from viper_lab.world.queries.lexicon import WORLD, Lexicon

_WORDS = {
    kind: tuple(words.split())
    for kind, words in tomllib.loads(
        Path(__file__).with_name("writer_words.toml").read_text("utf-8")
    ).items()
}


def is_test_word(word: str) -> bool:
    """Return whether an invented word is reserved for testing (one in six)."""
    return zlib.crc32(word.encode()) % 6 == 0


def made_up_word(random: Random, *, test: bool = False) -> str:
    """Return a pronounceable word, ``blicket``; it never ends in ``s``."""
    while True:
        syllables = random.choices((1, 2, 3), (5, 4, 1))[0]
        parts = [*("onsets", "vowels") * syllables, "codas"]
        word = "".join(random.choice(_WORDS[part]) for part in parts)
        if random.random() < 0.3:
            word += random.choice(_WORDS["endings"])
        if random.random() < 0.05:
            word = "".join(random.choice("abcdefghijklmnopqrtuvwxyz") for _ in range(5))
        if len(word) >= 3 and is_test_word(word) == test and not keyword.iskeyword(word):
            return word


def made_up_words(random: Random, count: int, *, test: bool = False) -> list[str]:
    """Return distinct invented words."""
    words: dict[str, None] = {}
    while len(words) < count:
        words[made_up_word(random, test=test)] = None
    return list(words)


def spelling_samples(random: Random, count: int) -> list[str]:
    """Return invented words and names from which a tokenizer learns its merges."""
    words = [made_up_word(random) for _ in range(count)]
    names = [made_up_name(random) for _ in range(count)]
    return [*words, *names]


def made_up_lexicon(random: Random, *, test: bool = False, adjectives: float = 0.3) -> Lexicon:
    """Return the world's words with invented nouns, some of two words.

    Args:
        adjectives: probability that sizes, colors and materials, each, are invented as well.
    """
    shapes = [
        " ".join(made_up_words(random, 2, test=test))
        if random.random() < 0.15
        else made_up_word(random, test=test)
        for _ in range(6)
    ]
    changed: dict[str, tuple[str, ...]] = {}
    for family, words in (
        ("sizes", WORLD.sizes),
        ("colors", WORLD.colors),
        ("materials", WORLD.materials),
    ):
        if random.random() < adjectives:
            changed[family] = tuple(made_up_words(random, len(words), test=test))
    return Lexicon(shapes=tuple(dict.fromkeys(shapes)), held_out=frozenset(), **changed)


def real_lexicon(random: Random, *, adjectives: float = 0.5) -> Lexicon:
    """Return a lexicon of real things that the world lacks, in half of them beside its own.

    Args:
        adjectives: probability that sizes, colors and materials, each, are others as well.
    """

    def draw(kind: str, count: int) -> tuple[str, ...]:
        words = [word for word in _WORDS[kind] if not is_test_word(word)]
        return tuple(random.sample(words, count))

    shapes = draw("things", 6) + (WORLD.shapes if random.random() < 0.5 else ())
    changed = {
        family: draw(f"thing_{family}", len(WORLD.family(family.removesuffix("s"))))
        for family in ("sizes", "colors", "materials")
        if random.random() < adjectives
    }
    return Lexicon(shapes=shapes, held_out=frozenset(), **changed)


def made_up_name(random: Random, *, test: bool = False) -> str:
    """Return a routine name of one to three parts, at least one of them invented or unusual."""
    english = _WORDS["test_english"] if test else _WORDS["train_english"]
    parts = random.choices((1, 2, 3), (4, 5, 1))[0]
    share = random.choice((0.0, 0.0, 0.5, 1.0)) if parts > 1 else 0.0
    return "_".join(
        random.choice(english) if random.random() < share else made_up_word(random, test=test)
        for _ in range(parts)
    )


def made_up_names(
    random: Random, names: Iterable[str], *, test: bool = False, avoid: Collection[str] = ()
) -> dict[str, str]:
    """Map each name to an invented one; all are distinct and none hides a name of a program."""
    return _mapping(names, avoid, lambda: made_up_name(random, test=test))


def plain_names(
    random: Random, names: Iterable[str], *, avoid: Collection[str] = ()
) -> dict[str, str]:
    """Map names like :func:`made_up_names`, to two or three common words, ``outer_part``.

    Some names share their last word, as names chosen by people do.
    """
    shared = random.sample(_WORDS["common"], 3)

    def draw() -> str:
        last = random.choice(shared if random.random() < 0.5 else _WORDS["common"])
        others = [word for word in _WORDS["common"] if word != last]
        return "_".join([*random.sample(others, random.choice((1, 1, 1, 2))), last])

    return _mapping(names, avoid, draw)


def _mapping(
    names: Iterable[str], avoid: Collection[str], draw: Callable[[], str]
) -> dict[str, str]:
    reserved = {*_WORDS["taken"], *avoid}
    mapping: dict[str, str] = {}
    for name in names:
        fresh = draw()
        while fresh in reserved or keyword.iskeyword(fresh):
            fresh = draw()
        reserved.add(fresh)
        mapping[name] = fresh
    return mapping
