"""Sentence embeddings by any encoder that transformers loads, averaged over its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from viper.models.loading import (
    Loading,
    LoadOptions,
    LocalModel,
    in_batches,
    load_pretrained,
    load_processor,
    model_id,
)
from viper.models.vision.roles import Floats


class SentenceEmbedder(LocalModel):
    """The :class:`~viper.models.vision.roles.TextEmbedder` role.

    Source: Reimers and Gurevych 2019, mean pooling.
    """

    def __init__(self, model: Any, tokenizer: Any, name: str, batch_size: int = 64) -> None:
        self.model_id = name
        self._model = model.eval()
        self._tokenizer = tokenizer
        self._batch_size = batch_size

    @classmethod
    def from_pretrained(
        cls, source: str | Path, *, batch_size: int = 64, **loading: Unpack[Loading]
    ) -> SentenceEmbedder:
        """Loads a folder or a published checkpoint.

        Raises:
            ModelError: nothing loadable under that name.
        """
        from transformers import AutoModel, AutoTokenizer

        options = LoadOptions(**loading)
        model = load_pretrained(AutoModel, source, options)
        tokenizer = load_processor(AutoTokenizer, source, options)
        return cls(model, tokenizer, model_id(source), batch_size)

    def embed(self, texts: Sequence[str]) -> Floats:
        """L2-normalised embeddings ``[N, D]``; N may be 0."""
        import torch

        def forward(batch: Sequence[str]) -> Any:
            tokens = self._tokenizer(
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
