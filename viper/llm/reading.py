"""Reads tokens with a causal language model, and remembers the prompts that were read."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from viper.llm.prefixes import Prefill, PrefixStore, joined, snapshot

if TYPE_CHECKING:
    from torch import Tensor


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
