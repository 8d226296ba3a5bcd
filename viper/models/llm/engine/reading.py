"""Reads prompts with a causal language model; keeps keys and values for those that begin alike."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from viper.models.llm.prompt_tokens import common

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


class PromptReader:
    """Calls a model the way the ``transformers`` library means it; not thread-safe.

    Args:
        model: any causal language model of the library.
        kept_prompts: of how many prompts keys and values are kept for reuse.

    Attributes:
        max_context: how many tokens the model can hold.
    """

    def __init__(self, model: Any, kept_prompts: int) -> None:
        self.model = model
        self.device = model.device
        self.max_context = int(getattr(model.config, "max_position_embeddings", None) or 1 << 20)
        self._prefixes = PrefixStore(kept_prompts)
        # State space models have another name for what they remember.
        known = inspect.signature(model.forward).parameters
        self._memory = "cache_params" if "cache_params" in known else "past_key_values"

    def read(self, ids: list[int]) -> Prefill:
        """Keys, values and last logits of a prompt, reusing what an earlier one shares."""
        known, cache = self._prefixes.longest(ids)
        logits, cache = self.forward([ids[known:]], cache, known)
        prefill = Prefill(ids, snapshot(cache), logits[0, -1])
        if prefill.layers is None:
            prefill.cache = cache
        else:
            self._prefixes.keep(prefill)
        return prefill

    def forward(
        self,
        ids: Sequence[Sequence[int]],
        cache: Any,
        start: int,
        *,
        mask: Tensor | None = None,
        positions: Tensor | None = None,
        last: int = 1,
    ) -> tuple[Tensor, Any]:
        """Logits ``[rows, last, vocabulary]`` and the grown cache; ``start`` tokens are in it."""
        import torch

        tokens = torch.tensor(ids, device=self.device)
        if positions is None:
            positions = torch.arange(start, start + tokens.shape[1], device=self.device)[None]
        output = self.model(
            input_ids=tokens,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=last,
            **{self._memory: cache},
        )
        return output.logits.float(), output[self._memory]

    def mean_scores(self, ids: list[int], tails: Sequence[list[int]]) -> list[float]:
        """Mean log-likelihood per token of each tail, at least one token, after ``ids``."""
        prefill = self.read(ids)
        if prefill.layers is not None:
            return self._mean_scores(prefill, tails)
        # Memory of another kind is used up by what is read on.
        return [self._mean_scores(self.read(ids), [tail])[0] for tail in tails]

    def _mean_scores(self, prefill: Prefill, tails: Sequence[list[int]]) -> list[float]:
        import torch

        width = max(map(len, tails))
        first = prefill.logits.log_softmax(-1)
        cache = joined([prefill] * len(tails), len(prefill.ids))
        # Right padding: what stands after a row's end cannot reach its tokens.
        rows = [tail + [tail[-1]] * (width - len(tail)) for tail in tails]
        logits, _ = self.forward(rows, cache, len(prefill.ids), last=0)
        after = logits.log_softmax(-1)
        scores = []
        for row, tail in zip(after, tails, strict=True):
            later = torch.tensor(tail[1:], device=row.device)[:, None]
            picked = row[: len(tail) - 1].gather(-1, later)
            scores.append(float((first[tail[0]] + picked.sum()) / len(tail)))
        return scores
