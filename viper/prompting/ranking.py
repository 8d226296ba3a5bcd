"""Ranks texts by how well they fit a query: by shared words, or by meaning."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viper.errors import UnknownNameError, UsageError
from viper.schema import RANKERS
from viper.storage.cache import RecentTexts

Embed = Callable[[Sequence[str]], NDArray[np.float32]]
"""Texts to rows of unit length, float32 ``[N, D]``."""

Scores = Callable[[str], list[float]]
"""A query to a score for each of some texts; larger fits better."""

Rank = Callable[[Sequence[str]], Scores]
"""Texts, read once, to what scores them for any number of queries."""


def ranker(name: str, embed: Embed | None = None) -> Rank:
    """The ranking of that name.

    Args:
        embed: what ``embeddings`` compares texts by.

    Raises:
        UnknownNameError: no such ranking.
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
    """BM25 over stemmed words.

    Source: Robertson and Zaragoza 2009, as implemented by the library bm25s.
    """
    bm25s = _bm25s()
    corpus = _words(texts)
    known = {word for entry in corpus for word in entry}
    index = bm25s.BM25()
    if known:
        index.index(corpus, show_progress=False)

    def scores(query: str) -> list[float]:
        asked = [word for word in _words([query])[0] if word in known]
        if not asked:
            return [0.0] * len(corpus)
        return [float(score) for score in index.get_scores(asked)]

    return scores


def by_meaning(texts: Sequence[str], embed: Embed) -> Scores:
    """Cosine similarity of embeddings."""
    rows = embed(texts)

    def scores(query: str) -> list[float]:
        if not len(rows):
            return []
        return [float(score) for score in rows @ embed([query])[0]]

    return scores


class KeptEmbeddings:
    """Embeds each text once, for lists that change a little from one ranking to the next.

    Args:
        embed: what computes them.
        most: texts that are kept; those used longest ago go first.
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
    """The stemmed words of each text, without the commonest."""
    import Stemmer

    bm25s = _bm25s()
    stemmer = Stemmer.Stemmer("english")  # of this call alone: it is not safe from two threads
    found = bm25s.tokenize(
        list(texts), stopwords="en", stemmer=stemmer, return_ids=False, show_progress=False
    )
    return [list(entry) for entry in found]


def _bm25s() -> Any:
    """The library, silenced: its logger passes on every detail to whoever listens at all."""
    import bm25s

    logging.getLogger("bm25s").setLevel(logging.WARNING)
    return bm25s
