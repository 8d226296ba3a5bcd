"""When two spellings name one concept: case, underscores and plurals apart, they are the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

MAX_NAME = 100
"""Characters of a concept's name that are looked at."""

_REMARK = re.compile(r"\([^()]*\)")
_BREAK = re.compile(r"[\s_\-/]+")

_PLURALS = (("ies", "y"), ("ves", "f"), ("ves", "fe"), ("es", ""), ("s", ""))
"""Endings of English plurals and of their singulars, the longer ones first."""

_SHORTEST = 3
"""Letters that are left of a singular at least: a ``bus`` is not several ``bu``."""

_IRREGULAR = {
    "children": "child",
    "feet": "foot",
    "geese": "goose",
    "men": "man",
    "mice": "mouse",
    "people": "person",
    "teeth": "tooth",
    "women": "woman",
}


def plain(name: str) -> str:
    """Return a name in lower case, its words separated by one space, as ``traffic light`` for
    ``Traffic_Light``."""
    return _BREAK.sub(" ", name[:MAX_NAME]).strip().lower()


def without_remark(name: str) -> str:
    """Return the plain name without an explanation in brackets: ``bow`` of ``bow_(weapon)``."""
    return plain(_REMARK.sub(" ", name[:MAX_NAME]))


def spellings(name: str) -> Iterator[str]:
    """Return the spellings under which a name may be listed, likeliest first: itself, then
    singulars of its last word.

    By the endings of English; what is no word costs a look-up and finds nothing.
    """
    text = plain(name)
    yield text
    head, _, last = text.rpartition(" ")
    before = f"{head} " if head else ""
    if last in _IRREGULAR:
        yield before + _IRREGULAR[last]
    for plural, singular in _PLURALS:
        stem = last.removesuffix(plural)
        if stem != last and len(stem + singular) >= _SHORTEST:
            yield before + stem + singular


def is_about(name: str, concept: str) -> bool:
    """Return whether one name contains all words of the other: ``red cubes`` is about ``cube``."""
    one, other = (
        [set(spellings(word)) for word in without_remark(each).split()] for each in (name, concept)
    )
    return bool(one and other) and (_all_among(one, other) or _all_among(other, one))


def _all_among(words: Sequence[set[str]], others: Sequence[set[str]]) -> bool:
    return all(any(word & other for other in others) for word in words)
