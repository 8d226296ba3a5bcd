"""Prompts that were read: their keys and values, kept for prompts that begin alike."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class Prefill:
    """A prompt that was read. ``layers``: keys and values a layer, ``[1, heads, length, dim]``.

    ``layers`` is None for models whose memory is not plain keys and values; then
    ``cache`` is that memory, good for one use. ``logits``: ``[vocabulary]`` after the last
    token.
    """

    ids: list[int]
    layers: list[tuple[Tensor, Tensor]] | None
    logits: Tensor
    cache: Any = None


class PrefixStore:
    """The last prompts that were read; finds the one that shares the longest beginning."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[tuple[int, ...], Prefill] = OrderedDict()

    def longest(self, ids: list[int]) -> tuple[int, Any]:
        """How many tokens are known (at least one is left to read), and a cache of them."""
        from transformers import DynamicCache

        best, source = 0, None
        for prefill in self._kept.values():
            shared = min(common(ids, prefill.ids), len(ids) - 1)
            if shared > best:
                best, source = shared, prefill
        if source is None or source.layers is None:
            return 0, None
        self._kept.move_to_end(tuple(source.ids))
        return best, DynamicCache([(k[:, :, :best], v[:, :, :best]) for k, v in source.layers])

    def keep(self, prefill: Prefill) -> None:
        """Keeps a prompt that was read; the one not asked for longest goes."""
        key = tuple(prefill.ids)
        self._kept[key] = prefill
        self._kept.move_to_end(key)
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)


def snapshot(cache: Any) -> list[tuple[Tensor, Tensor]] | None:
    """The keys and values of a plain cache, or None for any other kind of memory."""
    from transformers.cache_utils import DynamicLayer

    layers = getattr(cache, "layers", None)
    if not layers or any(type(layer) is not DynamicLayer for layer in layers):
        return None
    return [(layer.keys, layer.values) for layer in layers]


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """The length of the common beginning."""
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return index
    return min(len(one), len(other))


def repeatable(cache: Any) -> bool:
    """Whether a memory of one row can become that of several; of other kinds nobody knows how."""
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    layers = getattr(cache, "layers", None) or [None]
    return all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers)


def joined(prefills: Sequence[Prefill], longest: int) -> Any:
    """One cache for all rows, padded on the left to ``longest`` tokens.

    Prompts whose memory is not plain keys and values cannot be joined with others: then
    all of ``prefills`` are one prompt, and its memory is used up.
    """
    import torch
    from transformers import DynamicCache

    if prefills[0].layers is None:
        cache = prefills[0].cache
        if len(prefills) > 1:
            cache.batch_repeat_interleave(len(prefills))
        return cache

    def pad(tensor: Tensor) -> Tensor:
        missing = longest - tensor.shape[2]
        return torch.nn.functional.pad(tensor, (0, 0, missing, 0)) if missing else tensor

    columns = zip(*(prefill.layers or [] for prefill in prefills), strict=True)
    return DynamicCache(
        [
            (torch.cat([pad(k) for k, _ in layer]), torch.cat([pad(v) for _, v in layer]))
            for layer in columns
        ]
    )
