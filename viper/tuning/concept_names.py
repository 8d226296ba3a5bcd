"""Names of concepts. Spellings that differ in case, underscores or plural name one concept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

# Most characters of a concept's name; further ones are ignored.
MAX_NAME = 100

_REMARK = re.compile(r"\([^()]*\)")
_BREAK = re.compile(r"[\s_\-/]+")

# Endings of English plurals and singulars, longest first.
_PLURALS = (("ies", "y"), ("ves", "f"), ("ves", "fe"), ("es", ""), ("s", ""))

# Least letters of a singular: ``bus`` is not the plural of ``bu``.
_SHORTEST = 3

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
    """Return a name in lower case with single spaces: ``Traffic_Light`` is ``traffic light``."""
    return _BREAK.sub(" ", name[:MAX_NAME]).strip().lower()


def without_remark(name: str) -> str:
    """Return the plain name without an explanation in brackets: ``bow`` of ``bow_(weapon)``."""
    return plain(_REMARK.sub(" ", name[:MAX_NAME]))


def spellings(name: str) -> Iterator[str]:
    """Yield the spellings under which a name may be listed: itself, then singulars.

    Singulars of the last word are formed by English endings. A spelling that is not a word only
    costs a look-up.
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
    in_name, in_concept = (
        [set(spellings(word)) for word in without_remark(each).split()] for each in (name, concept)
    )
    return bool(in_name and in_concept) and (
        _all_among(in_name, in_concept) or _all_among(in_concept, in_name)
    )


def _all_among(words: Sequence[set[str]], others: Sequence[set[str]]) -> bool:
    return all(any(word & other for other in others) for word in words)
