"""Wordings: templates, some of them held out for the test split, and word tables.

Templates are lower case without punctuation except a final question mark. The held-out ones
recombine words of the others, so a model trained on the others knows every word.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any


@dataclass(frozen=True)
class Templates:
    """Wordings of one meaning.

    Attributes:
        seen: in training and validation.
        held_out: in the test split only.
        practice: in training only; the more wordings a writer has read, the less it depends on a
            word's position in a sentence.
    """

    seen: tuple[str, ...]
    held_out: tuple[str, ...]
    practice: tuple[str, ...] = ()

    def pick(self, random: Random, split: str) -> tuple[str, str]:
        """Draw a template; return its name (``s2``, ``h0``, ``p1``) and its text."""
        by_mark = {"train": (("s", self.seen), ("p", self.practice)), "val": (("s", self.seen),)}
        test = (("h", self.held_out or self.seen),)
        named = [
            (f"{mark}{index}", text)
            for mark, texts in by_mark.get(split, test)
            for index, text in enumerate(texts)
        ]
        return named[int(random.random() * len(named))]


def read_templates(name: str) -> Mapping[str, Templates]:
    """Return the templates of ``wordings/NAME.toml``, in the file's order."""
    return {
        key: Templates(**{part: tuple(texts) for part, texts in table.items()})
        for key, table in read_wordings(name).items()
    }


def read_wordings(name: str) -> dict[str, Any]:
    """Return the tables of ``wordings/NAME.toml``."""
    path = Path(__file__).with_name("wordings") / f"{name}.toml"
    return tomllib.loads(path.read_text("utf-8"))


_WORDS = read_wordings("words")


@dataclass(frozen=True)
class SideWords:
    """Words for one end of an order: ``leftmost``, ``farthest left``, ``on the far left``."""

    most: str
    alt: str
    place: str
    edge: str
    compare: tuple[str, ...]


# The six ends of the three orders: across, up, and away from the camera.
SIDES: Mapping[str, SideWords] = {
    side: SideWords(**{**words, "compare": tuple(words["compare"])})
    for side, words in _WORDS["sides"].items()
}

RELATIONS: Mapping[str, Sequence[str]] = _WORDS["relations"]
AMBIGUOUS_RELATIONS: Mapping[str, Sequence[str]] = _WORDS["vague_relations"]

ORDINALS = ("first", "second", "third", "fourth", "fifth")

EXTENTS: Mapping[str, Sequence[str]] = _WORDS["extents"]
AMBIGUOUS_EXTENTS: Mapping[str, Sequence[str]] = _WORDS["vague_extents"]

EXTENT_COMPARE: Mapping[str, Sequence[str]] = _WORDS["compared_extents"]


def plural(kind: str) -> str:
    """Return ``red cubes`` of ``red cube``."""
    return f"{kind}s"


def a(kind: str) -> str:
    """Return the kind with its indefinite article."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
