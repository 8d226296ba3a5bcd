"""Words for the categories of a detector that knows no others.

A phrase is a category, a plural, a synonym, or a union of categories such as ``vehicle``; a color
may stand before it. Anything else raises: a detector that does not know a word must not answer that
there is nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from viper.errors import ToolError
from viper.models.vision.colors import color_named

# Plurals with another stem, and endings of the others with those of their singulars.
_IRREGULAR = {
    "people": "person", "mice": "mouse", "geese": "goose", "men": "man", "women": "woman",
    "children": "child", "feet": "foot", "teeth": "tooth",
}  # fmt: skip
_ENDINGS = {
    "ves": ("f", "fe"), "ies": ("y",), "ses": ("s",), "xes": ("x",), "zes": ("z",), "ches": ("ch",),
    "shes": ("sh",), "oes": ("o",), "s": ("",),
}  # fmt: skip

# Words before a noun that change nothing.
_DETERMINERS = frozenset({"a", "an", "the", "any", "some", "all", "every", "each"})

# Words of the longest name that is looked for in a text, and number of words that a message names.
_MOST_WORDS, _NEAREST = 4, 3


class UnknownPhraseError(ToolError):
    """A phrase that names none of a detector's categories.

    Attributes:
        phrase: as the program wrote it.
    """

    code = "unknown_phrase"

    def __init__(self, phrase: str, advice: str) -> None:
        self.phrase = phrase
        super().__init__(f"the detector knows no {phrase!r}; {advice}")


class Vocabulary:
    """Categories of a detector with the other words for them.

    Args:
        categories: names in the order of the detector's outputs; "" is never detected.
        synonyms: category -> other words.
        unions: word -> categories that it comprises; ``*`` stands for all.

    Attributes:
        nouns: the categories, and one word for each union.
    """

    def __init__(
        self,
        categories: Sequence[str],
        synonyms: Mapping[str, Sequence[str]],
        unions: Mapping[str, Sequence[str]],
    ) -> None:
        own = {name: (index,) for index, name in enumerate(categories) if name}
        every = tuple(index for (index,) in own.values())
        words = {
            word: every if "*" in names else tuple(own[name][0] for name in names)
            for word, names in unions.items()
        }
        chosen = {indices: word for word, indices in reversed(words.items())}
        self.nouns = [*own, *reversed(chosen.values())]
        words |= {word: own[name] for name, others in synonyms.items() for word in others} | own
        self._indices = {word.lower(): indices for word, indices in words.items()}
        self._singular = {singulars(word)[-1]: word for word in reversed(self._indices)}

    def named(self, phrase: str) -> tuple[list[int], str | None]:
        """Return what a phrase such as ``the red cars`` names: indices of categories, and the color
        before the noun or None.

        Raises:
            UnknownPhraseError: it names no category; the message has the nearest words.
        """
        words = phrase.lower().replace("-", " ").split()
        while len(words) > 1 and words[0] in _DETERMINERS:
            words = words[1:]
        color = color_named(words[0]) if len(words) > 1 else None
        for start in range(1 + bool(color)):
            if indices := self._find(words[start:]):
                return list(indices), color if start else None
        parts = {form for word in words for form in singulars(word)}
        sharing = [word for word in self._indices if parts & {*word.split()}]
        sharing.sort(key=lambda word: (word not in parts, len(word)))
        text = " ".join(words)
        nearest = (sharing or difflib.get_close_matches(text, self._indices, _NEAREST))[:_NEAREST]
        some = ", ".join([*self._indices][-_NEAREST:])
        advice = f"nearest: {', '.join(nearest)}" if nearest else f"it knows {some}, …"
        raise UnknownPhraseError(phrase, advice)

    def starting(self, words: Sequence[str]) -> int:
        """Return how many words at the start of a text name categories together; 0 for none."""
        counts = range(min(_MOST_WORDS, len(words)), 0, -1)
        return next((count for count in counts if self._find(words[:count])), 0)

    def _find(self, words: Sequence[str]) -> tuple[int, ...] | None:
        forms = singulars(" ".join(words))
        known = (form if form in self._indices else self._singular.get(form) for form in forms)
        return next((self._indices[word] for word in known if word), None)


def singulars(text: str) -> list[str]:
    """Return a noun as it is and in each form that its ending may be the plural of."""
    before, space, last = text.rpartition(" ")
    forms = [last, *([_IRREGULAR[last]] if last in _IRREGULAR else [])]
    for plural, endings in _ENDINGS.items():
        if last.endswith(plural) and len(last) > len(plural) + 1:
            forms += [last.removesuffix(plural) + ending for ending in endings]
    return [f"{before}{space}{form}" for form in forms]
