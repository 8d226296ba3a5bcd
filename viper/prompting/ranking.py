"""Ranks texts by their fit to a query: by shared words, or by meaning.

Prompts need every text's exact score, and their lists fit in memory: the library bm25s. An index of
millions of passages on disk is :mod:`viper.search.text_index`, by tantivy, which rounds lengths and
has other constants: it would choose other examples for 4 to 15 of 96 prompts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

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


def by_words(texts: Sequence[str]) -> Scores:
    """Rank by BM25 over stemmed words.

    Source: Robertson and Zaragoza 2009, as implemented by the library bm25s.
    """
    return _by_words(tuple(texts))


@lru_cache(maxsize=16)  # a bank and an API for each task of some running profiles
def _by_words(texts: tuple[str, ...]) -> Scores:
    bm25s = _bm25s()
    corpus = _words(texts)
    vocabulary = {word for entry in corpus for word in entry}
    index = bm25s.BM25()
    if vocabulary:
        index.index(corpus, show_progress=False)

    def scores(query: str) -> list[float]:
        words = [word for word in _words([query])[0] if word in vocabulary]
        if not words:
            return [0.0] * len(corpus)
        return [float(score) for score in index.get_scores(words)]

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

    bm25s = _bm25s()
    stemmer = Stemmer.Stemmer("english")  # one per call: a stemmer is not thread-safe
    tokens = bm25s.tokenize(
        list(texts), stopwords="en", stemmer=stemmer, return_ids=False, show_progress=False
    )
    return [list(words) for words in tokens]


def _bm25s() -> Any:
    """Import the library and silence its logger, which reports every detail."""
    import bm25s

    logging.getLogger("bm25s").setLevel(logging.WARNING)
    return bm25s
