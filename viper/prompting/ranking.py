"""Ranks texts by their fit to a query: by shared words, or by meaning.

Prompts need every text's exact score and lists of up to some thousand texts, so BM25 is computed
here. An index of millions of passages on disk is :mod:`viper.search.text_index`; its engine rounds
lengths and has other constants, which would choose other examples for 4 to 15 of 100 prompts.
"""

from __future__ import annotations

import math
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from viper.errors import UnknownNameError, UsageError
from viper.schema import RANKERS
from viper.storage.cache import RecentTexts

# Turns texts into rows of unit length, float32 ``[N, D]``.
Embed = Callable[[Sequence[str]], NDArray[np.float32]]

# Turns a query into one score per text; larger fits better.
Scores = Callable[[str], list[float]]

# Reads texts once and returns the function that scores them for any query.
Rank = Callable[[Sequence[str]], Scores]


def ranker(name: str, embed: Embed | None = None) -> Rank:
    """Return the ranking of that name.

    Args:
        embed: embeds the texts that ``embeddings`` compares.

    Raises:
        UnknownNameError: no ranking has that name.
        UsageError: ``embeddings`` without a model to embed with.
    """
    if name == "bm25":
        return by_words
    if name == "embeddings":
        if embed is None:
            raise UsageError(
                "ranking by embeddings needs a model: give the profile a role "
                'embedder, as embedder = { backend = "sentence", model = "…" }'
            )
        return partial(by_meaning, embed=embed)
    raise UnknownNameError("ranking", name, RANKERS)


# Saturation of a repeated word and weight of a text's length: the usual values of the literature.
# Others would choose other examples, and the prompts of all profiles would change.
K1, B = 1.5, 0.75

# Words of two letters and more that are not in Lucene's English list of stop words.
_WORD = re.compile(
    r"\b(?!(?:an|and|are|as|at|be|but|by|for|if|in|into|is|it|no|not|of|on|or|such|that|the|their"
    r"|then|there|these|they|this|to|was|will|with)\b)\w\w+\b"
)


def by_words(texts: Sequence[str]) -> Scores:
    """Rank by BM25 over stemmed words.

    Source: Robertson and Zaragoza 2009, with the inverse document frequency of Lucene.
    """
    return _by_words(tuple(texts))


@lru_cache(maxsize=16)  # a bank and an API for each task of some running profiles
def _by_words(texts: tuple[str, ...]) -> Scores:
    corpus = _words(texts)
    lengths = np.array([len(words) for words in corpus])
    saturation = K1 * (1 - B + B * lengths / (lengths.mean() if lengths.any() else 1))
    places: dict[str, list[tuple[int, int]]] = {}
    for place, words in enumerate(corpus):
        for word, count in Counter(words).items():
            places.setdefault(word, []).append((place, count))
    weights = {}
    for word, pairs in places.items():
        rows, counts = np.array(pairs).T
        # Lucene's form: the 1 keeps words of more than half of the texts from counting negative
        rarity = np.float32(math.log(1 + (len(corpus) - len(rows) + 0.5) / (len(rows) + 0.5)))
        weights[word] = rows, (rarity * (counts / (saturation[rows] + counts))).astype(np.float32)

    def scores(query: str) -> list[float]:
        total = np.zeros(len(corpus), np.float32)
        for word in _words([query])[0]:
            if word in weights:
                rows, values = weights[word]
                total[rows] += values
        return [float(score) for score in total]

    return scores


def by_meaning(texts: Sequence[str], embed: Embed) -> Scores:
    """Rank by cosine similarity of embeddings."""
    rows = embed(texts)

    def scores(query: str) -> list[float]:
        if not len(rows):
            return []
        return [float(score) for score in rows @ embed([query])[0]]

    return scores


class CachedEmbeddings:
    """Embeds each text once, for lists that change little from one ranking to the next.

    Args:
        embed: computes the embeddings.
        most: greatest number of cached texts; the least recently used are evicted.
    """

    def __init__(self, embed: Embed, most: int = 20_000) -> None:
        self.embed = embed
        self._rows = RecentTexts[NDArray[np.float32]](most)
        self._lock = threading.Lock()

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if not texts:
            return self.embed(texts)
        with self._lock:
            return np.stack(self._rows.get(texts, self.embed))


def _words(texts: Sequence[str]) -> list[list[str]]:
    """Return the stemmed words of each text, without stop words."""
    import Stemmer

    stemmer = Stemmer.Stemmer("english")  # one per call: a stemmer is not thread-safe
    return [stemmer.stemWords(_WORD.findall(text.lower())) for text in texts]
