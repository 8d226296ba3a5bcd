"""Words for the categories of a detector that knows no others.

A phrase is a category, a plural, a synonym, or a union of categories such as ``vehicle``. Anything
else raises: a detector that does not know a word must not answer that there is nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from viper.errors import ToolError
from viper.models.vision.colors import color_named

# Nouns whose plural has another stem; others change by their ending.
_IRREGULAR = {"people": "person", "mice": "mouse", "geese": "goose", "teeth": "tooth"}

# Endings of plurals and of their singulars.
_ENDINGS = (
    ("ves", "f"), ("ves", "fe"), ("ies", "y"),
    ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"), ("oes", "o"),
    ("s", ""),
)  # fmt: skip

# Words before a noun that change nothing.
_DETERMINERS = frozenset({"a", "an", "the", "any", "some", "all", "every", "each"})

# Nearest words that a message names.
_NEAREST = 3


class UnknownPhraseError(ToolError):
    """A phrase that names none of a detector's categories.

    Attributes:
        phrase: as the program wrote it.
    """

    code = "unknown_phrase"

    def __init__(self, phrase: str, advice: str) -> None:
        self.phrase = phrase
        super().__init__(f"the detector knows no {phrase!r}; {advice}")


class Named(NamedTuple):
    """What a phrase names: indices of categories, and the color before the noun or None."""

    indices: list[int]
    color: str | None


class Vocabulary:
    """Categories of a detector with the other words for them.

    Args:
        categories: names in the order of the detector's outputs; "" is never detected.
        synonyms: category -> other words.
        unions: word -> categories that it comprises; ``*`` stands for all.
    """

    def __init__(
        self,
        categories: Sequence[str],
        synonyms: Mapping[str, Sequence[str]],
        unions: Mapping[str, Sequence[str]],
    ) -> None:
        named = {name.lower(): (index,) for index, name in enumerate(categories) if name}
        others = {
            word.lower(): named[name.lower()] for name, words in synonyms.items() for word in words
        }
        every = tuple(index for (index,) in named.values())
        unions = {word.lower(): names for word, names in unions.items()}
        of_unions = {
            word: every if "*" in names else tuple(named[name.lower()][0] for name in names)
            for word, names in unions.items()
        }
        self._indices: dict[str, tuple[int, ...]] = {**of_unions, **others, **named}
        self._singular = {_forms(word)[-1]: word for word in reversed(self._indices)}

    @property
    def words(self) -> tuple[str, ...]:
        """Return all names, synonyms and unions."""
        return tuple(self._indices)

    def named(self, phrase: str) -> Named:
        """Return what a phrase names, such as ``the red cars``.

        Raises:
            UnknownPhraseError: it names no category; the message has the nearest words.
        """
        words = phrase.lower().replace("-", " ").split()
        while len(words) > 1 and words[0] in _DETERMINERS:
            words = words[1:]
        color = color_named(words[0]) if len(words) > 1 else None
        for start in range(1 + bool(color)):
            for form in _forms(" ".join(words[start:])):
                word = form if form in self._indices else self._singular.get(form)
                if word:
                    return Named(list(self._indices[word]), color if start else None)
        text = " ".join(words)
        nearest = ", ".join(self._nearest(text))
        advice = f"nearest: {nearest}" if nearest else f"it knows {', '.join(self.words[-5:])}, …"
        raise UnknownPhraseError(phrase, advice)

    def _nearest(self, text: str) -> list[str]:
        """Return known words that share a word with a text, then those of like spelling."""
        parts = {form for word in text.split() for form in _forms(word)}
        sharing = [word for word in self._indices if parts & {*word.split()}]
        sharing.sort(key=lambda word: (word not in parts, len(word)))
        return (sharing or difflib.get_close_matches(text, self._indices, _NEAREST))[:_NEAREST]


def _forms(text: str) -> list[str]:
    """Return a noun as it is and in each form that its ending may be the plural of."""

    def singulars(word: str) -> Iterator[str]:
        yield word
        for plural, singular in _ENDINGS:
            if word.endswith(plural) and len(word) > len(plural) + 1:
                yield word.removesuffix(plural) + singular

    before, space, last = text.rpartition(" ")
    last = _IRREGULAR.get(last, last)
    return [f"{before}{space}{word}" for word in singulars(last)]
