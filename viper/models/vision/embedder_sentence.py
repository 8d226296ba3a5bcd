"""Sentence embeddings by any encoder that transformers loads, averaged over its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viper.models.loading import Checkpoint, in_batches
from viper.models.vision.roles import Floats


class SentenceEmbedder(Checkpoint):
    """The :class:`~viper.models.vision.roles.TextEmbedder` role.

    Source: Reimers and Gurevych 2019, mean pooling.
    """

    network = "transformers:AutoModel"
    readers = ("transformers:AutoTokenizer",)

    def __init__(self, *parts: Any, batch_size: int = 64) -> None:
        super().__init__(*parts, batch_size=batch_size)

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return L2-normalised embeddings ``[N, D]``; N may be 0."""
        import torch

        def forward(batch: Sequence[str]) -> Any:
            tokens = self._processor(
                list(batch), padding=True, truncation=True, return_tensors="pt"
            ).to(self._place().device)
            states = self._model(**tokens).last_hidden_state
            mask = tokens["attention_mask"][..., None].to(states.dtype)
            pooled = (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
            return torch.nn.functional.normalize(pooled.float(), dim=-1)

        if not texts:
            return np.zeros((0, 0), np.float32)
        with torch.inference_mode():
            rows = in_batches(texts, self._batch_size, forward)
        return np.stack([row.cpu().numpy() for row in rows]).astype(np.float32)
