"""Writes the first programs of many queries in batches, ahead of the runs that need them.

One batch of sixteen costs a small model little more than one program. The programs
go into a response cache under the very prompts and settings that the runs use, so a
run finds its own or asks the model as ever: results cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from viper.llm.cache import CachedLLM
from viper.reasoner import Reasoner, RunOptions
from viper.schema import Query
from viper.strategies.program import attempt_sampling

BATCH = 16

_PICTURE = np.zeros((2, 2, 3), np.uint8)
_CLIP = np.zeros((2, 2, 2, 3), np.uint8)


def with_cache(reasoner: Reasoner) -> Reasoner:
    """The same reasoner with its language model's answers kept in memory."""
    components = reasoner.components
    return Reasoner(replace(components, llm=CachedLLM(components.llm)))


def prefetch_programs(
    reasoner: Reasoner,
    requests: Sequence[tuple[Query, RunOptions]],
    on_done: Callable[[int], None] | None = None,
) -> None:
    """Fills the cache of a reasoner made by :func:`with_cache`.

    Args:
        reasoner: its language model is a CachedLLM.
        requests: each query with the options its run will have.
        on_done: called with the number of programs after each batch.
    """
    ordered = sorted(requests, key=lambda item: (item[0].task, len(item[0].text)))
    for start in range(0, len(ordered), BATCH):
        batch = ordered[start : start + BATCH]
        settings = batch[0][1].settings(reasoner.components.settings)
        prompts = [
            reasoner.prompt(_CLIP if query.media == "video" else _PICTURE, query.text, options)
            for query, options in batch
        ]
        reasoner.components.llm.generate(prompts, attempt_sampling(settings))
        if on_done is not None:
            on_done(len(batch))
