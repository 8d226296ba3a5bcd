"""Checks that a verdict's words were found, so that no model adds facts of its own.

``exact`` wants every word and number as it stands in a finding, for small models that were trained
to copy. ``tolerant`` also takes another form of a word (carotene in carotenoids), the long form of
an abbreviation (United States for U.S.), and digits for number words (26 for twenty-six). Number
words are read by text2num and inflections by the Snowball stemmer; abbreviations are those of
``abbreviations.toml``, because initials alone fit too many names.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from os.path import commonprefix
from pathlib import Path
from typing import Any

from viper.record import read_toml

# Numbers with their decimals, and words without digits, so that ``3`` is not found in ``30``.
_TOKEN = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]+")
# An ordinal is one token here, so that ``1st`` is not found in ``1``.
_TOLERANT_TOKEN = re.compile(r"\d+(?:\.\d+)?(?:(?:st|nd|rd|th)\b)?|[^\W\d_]+")
# Words that a verdict may add: they state no fact. Any other word must have been found, so an
# injected instruction cannot add one.
_FREE = frozenset(
    ("a", "an", "and", "in", "is", "it", "of", "on", "or", "the", "was", "were", "yes", "no")
)

# Endings by which forms of a word with one stem differ, after a consonant that may be doubled.
_INFLECTION = re.compile(r"[bdgklmnprt]?(?:e?s|e?d|ing|er|est|al|ally|ly|i?es|i?ed|e|y)?")
# Endings that derive a word about the same matter. They count only after a long stem: short ones
# are names that begin alike, as Roman and Romania.
_DERIVATION = re.compile(r"(?:oid|al|ic|ism|ist)s?")
_LEAST_STEM = 6

_SCALES = {"thousand": 1e3, "million": 1e6, "billion": 1e9}
_SCALED = re.compile(rf"(\d+(?:\.\d+)?) ({'|'.join(_SCALES)})\b", re.IGNORECASE)

# Initials with full stops, or a word that may be an abbreviation.
_SHORT = re.compile(r"\b(?:[A-Z]\.){2,}|\b[A-Za-z]{2,8}\b")


def is_grounded(extracted: str, sources: Sequence[str], how: str = "tolerant") -> bool:
    """Return whether every word and number of a text occurs in a source, except small words.

    Args:
        how: ``exact``, ``tolerant`` or ``off``; the last takes any text.
    """
    if how == "exact":
        words = {token for text in sources for token in _tokens(text)}
        return all(token in words or token in _FREE for token in _tokens(extracted))
    return how == "off" or _Findings(sources).hold(extracted)


def _tokens(text: str) -> list[str]:
    tokens = _TOKEN.findall(text.lower().replace(",", ""))
    # `bus`, `gas` and `is` are no plurals; longer words that end in s mostly are
    return [token.removesuffix("s") if len(token) > 3 else token for token in tokens]


class _Findings:
    """Words, numbers and abbreviations of some texts."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._by_stem: defaultdict[str, set[str]] = defaultdict(set)
        texts = [_plain(text) for text in texts]
        self._short = {short for text in texts for short in _shorts(text)}
        long_forms = [form for short in self._short for form in _abbreviations().get(short, ())]
        for token in (token for text in (*texts, *long_forms) for token in _words(text)):
            # a number also stands in its ordinal
            for word in {token, token.rstrip("stndrh") if token[0].isdigit() else token}:
                self._by_stem[_stemmer().stemWord(word)].add(word)

    def hold(self, extracted: str) -> bool:
        """Return whether a text states nothing that they do not."""
        text = _plain(extracted)
        # In small letters an abbreviation is another word: US, us.
        if any(short in _abbreviations() and not self._knows(short) for short in _shorts(text)):
            return False
        rest = _SHORT.sub(lambda match: " " if self._knows(match[0]) else match[0], text)
        return all(token in _FREE or self._has(token) for token in _words(rest))

    def _knows(self, short: str) -> bool:
        short = short.replace(".", "")
        # Signs are in capitals, so MT is Mt; but us is not US.
        alike = (form for form in self._short if form.lower() == short.lower())
        is_found = any(form == short or not (short.isupper() and form.islower()) for form in alike)
        return is_found or any(map(self.hold, _abbreviations().get(short, ())))

    def _has(self, token: str) -> bool:
        stem = _stemmer().stemWord(token)
        alike = self._by_stem.get(stem, ())
        if token in alike or any(_is_inflected(token, other) for other in alike):
            return True
        return any(
            _is_derived(token, other_stem) or any(_is_derived(other, stem) for other in others)
            for other_stem, others in self._by_stem.items()
        )


def _plain(text: str) -> str:
    """Return a text without accents and possessives, with digits for number words."""
    from text_to_num import alpha2digit

    # text2num refuses lone surrogates, which JSON may hold.
    letters = unicodedata.normalize("NFKD", text.encode("utf-8", "ignore").decode())
    text = "".join(each for each in letters if not unicodedata.combining(each))
    text = re.sub(r"['’]s\b", "", text)
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)
    # text2num reads two million as 2000000 and 2 million as two numbers
    text = _SCALED.sub(lambda match: f"{float(match[1]) * _SCALES[match[2].lower()]:.0f}", text)
    return alpha2digit(text, "en", 0)


def _words(text: str) -> list[str]:
    return _TOLERANT_TOKEN.findall(text.lower())


def _shorts(text: str) -> set[str]:
    return {match.replace(".", "") for match in _SHORT.findall(text)}


def _is_inflected(word: str, other: str) -> bool:
    shared = len(commonprefix((word, other)))
    endings = {word[shared:], other[shared:]}
    # No inflection adds an e alone: franc and France.
    is_other_word = "e" in endings and bool(endings & {"", "s"})
    return not is_other_word and all(map(_INFLECTION.fullmatch, endings))


def _is_derived(word: str, stem: str) -> bool:
    is_long = len(stem) >= _LEAST_STEM and word.startswith(stem)
    return is_long and _DERIVATION.fullmatch(word, len(stem)) is not None


@cache
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("english")


@cache
def _abbreviations() -> Mapping[str, Sequence[str]]:
    return read_toml(Path(__file__).parent / "abbreviations.toml")[1]
