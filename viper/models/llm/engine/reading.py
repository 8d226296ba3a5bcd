"""Reading of prompts by a causal language model; keys and values of prefixes are reused.

:meth:`PromptReader.read` finds the earlier prompt with the longest common beginning, reads only
what follows, and keeps the result as a :class:`Prefill`.
Decoding joins the prefills of its rows (:func:`join_prefills`), as scoring does for its
continuations.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from viper.models.libraries import Tensor, torch, transformers
from viper.models.llm.prompt_tokens import common


@dataclass
class Prefill:
    """Prompt that the model has read. ``layers``: keys and values per layer, ``[1, heads, length,
    dim]``.

    ``layers`` is None for models whose memory is not plain keys and values. Then ``cache`` is that
    memory, usable once. ``logits``: ``[vocabulary]`` after the last token.
    """

    ids: list[int]
    layers: list[tuple[Tensor, Tensor]] | None
    logits: Tensor
    cache: Any = None


def snapshot(cache: Any) -> list[tuple[Tensor, Tensor]] | None:
    """Return the keys and values of a plain cache, or None for any other kind of memory."""
    from transformers.cache_utils import DynamicLayer

    layers = getattr(cache, "layers", None)
    if not layers or any(type(layer) is not DynamicLayer for layer in layers):
        return None
    return [(layer.keys, layer.values) for layer in layers]


def repeatable(cache: Any) -> bool:
    """Return True if the memory of one row can be copied to several; other kinds are unknown."""
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    layers = getattr(cache, "layers", None) or [None]
    return all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers)


def join_prefills(prefills: Sequence[Prefill], longest: int) -> Any:
    """Return one cache for all rows, padded on the left to ``longest`` tokens.

    Prompts whose memory is not plain keys and values cannot be joined with others. Then all of
    ``prefills`` are one prompt, and its memory is used up.
    """
    if prefills[0].layers is None:
        cache = prefills[0].cache
        if len(prefills) > 1:
            cache.batch_repeat_interleave(len(prefills))
        return cache

    def pad(tensor: Tensor) -> Tensor:
        missing = longest - tensor.shape[2]
        return torch.nn.functional.pad(tensor, (0, 0, missing, 0)) if missing else tensor

    columns = zip(*(prefill.layers or [] for prefill in prefills), strict=True)
    return transformers.DynamicCache(
        [
            (torch.cat([pad(k) for k, _ in layer]), torch.cat([pad(v) for _, v in layer]))
            for layer in columns
        ]
    )


class PromptReader:
    """Calls a model through the ``transformers`` interface; not thread-safe.

    Args:
        model: any causal language model of the library.
        kept_prompts: number of prompts whose keys and values are kept for reuse.

    Attributes:
        max_context: maximum number of tokens that the model can hold.
    """

    def __init__(self, model: Any, kept_prompts: int) -> None:
        self.model = model
        self.device = model.device
        self.max_context = int(getattr(model.config, "max_position_embeddings", None) or 1 << 20)
        self._kept_prompts = kept_prompts
        self._kept: OrderedDict[tuple[int, ...], Prefill] = OrderedDict()  # latest use last
        # State space models have another name for their memory.
        parameters = inspect.signature(model.forward).parameters
        self._memory = "cache_params" if "cache_params" in parameters else "past_key_values"

    def read(self, ids: list[int]) -> Prefill:
        """Return keys, values and last logits of a prompt, reusing a prefix of an earlier one.

        A prompt takes the place of an earlier one that shares most of its tokens, so that the kept
        ones begin in different ways: questions about videos do not push out those about pictures.
        """
        if tuple(ids) in self._kept:
            self._kept.move_to_end(tuple(ids))
            return self._kept[tuple(ids)]
        cache: Any = None
        shared = {key: min(common(ids, key), len(ids) - 1) for key in self._kept}
        longest = max(shared, key=lambda key: shared[key], default=())
        if start := shared.get(longest, 0):
            self._kept.move_to_end(longest)
            layers = self._kept[longest].layers or ()
            beginnings = [(k[:, :, :start], v[:, :, :start]) for k, v in layers]
            cache = transformers.DynamicCache(beginnings)
        logits, cache = self.forward([ids[start:]], cache, start)
        prefill = Prefill(ids, snapshot(cache), logits[0, -1])
        if prefill.layers is None:
            prefill.cache = cache
            return prefill
        if 2 * start > len(longest):
            del self._kept[longest]
        self._kept[tuple(ids)] = prefill
        while len(self._kept) > self._kept_prompts:
            self._kept.popitem(last=False)
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
        """Return logits ``[rows, last, vocabulary]`` and the grown cache, which holds ``start``
        tokens.
        """
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
        """Return the mean log-likelihood per token of each tail, at least one token, after
        ``ids``.
        """
        prefill = self.read(ids)
        if prefill.layers is None and len(tails) > 1:
            # Kinds of memory other than plain keys and values are used up by further reading.
            return [self.mean_scores(ids, [tail])[0] for tail in tails]
        width = max(map(len, tails))
        first = prefill.logits.log_softmax(-1)
        cache = join_prefills([prefill] * len(tails), len(prefill.ids))
        # Right padding: tokens after a row's end cannot affect its own tokens.
        rows = [tail + [tail[-1]] * (width - len(tail)) for tail in tails]
        logits, _ = self.forward(rows, cache, len(prefill.ids), last=0)
        after = logits.log_softmax(-1)
        scores = []
        for row, tail in zip(after, tails, strict=True):
            later = torch.tensor(tail[1:], device=row.device)[:, None]
            picked = row[: len(tail) - 1].gather(-1, later)
            scores.append(float((first[tail[0]] + picked.sum()) / len(tail)))
        return scores
