"""Ranks texts by how well they fit a query: by shared words, or by meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from viper.errors import UnknownNameError, UsageError

Embed = Callable[[Sequence[str]], NDArray[np.float32]]
"""Texts to rows of unit length, float32 ``[N, D]``."""

Rank = Callable[[str, Sequence[str]], list[float]]
"""A score for each text given a query; larger fits better."""

RANKERS = ("bm25", "embeddings")


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
        return lambda query, texts: by_meaning(query, texts, embed)
    raise UnknownNameError("ranking", name, RANKERS)


def by_words(query: str, texts: Sequence[str]) -> list[float]:
    """BM25 over stemmed words.

    Source: Robertson and Zaragoza 2009, as implemented by the library bm25s.
    """
    import bm25s
    import Stemmer

    if not texts:
        return []
    stemmer = Stemmer.Stemmer("english")

    def words(parts: Sequence[str]) -> list[list[str]]:
        found = bm25s.tokenize(
            list(parts), stopwords="en", stemmer=stemmer, return_ids=False, show_progress=False
        )
        return [list(entry) for entry in found]

    corpus = words(texts)
    known = {word for entry in corpus for word in entry}
    asked = [word for word in words([query])[0] if word in known]
    if not asked:
        return [0.0] * len(texts)
    index = bm25s.BM25()
    index.index(corpus, show_progress=False)
    return [float(score) for score in index.get_scores(asked)]


def by_meaning(query: str, texts: Sequence[str], embed: Embed) -> list[float]:
    """Cosine similarity of embeddings."""
    if not texts:
        return []
    rows = embed([query, *texts])
    return [float(score) for score in rows[1:] @ rows[0]]
