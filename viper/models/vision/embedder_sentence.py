"""Sentence embeddings by any encoder that transformers loads, pooled as its repository states.

``from_pretrained`` reads the pooling, the prefix and the longest text from the repository's files
(:func:`_stated`); ``embed`` tokenises, runs the encoder, pools its tokens and normalises.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from viper.errors import ModelError, ProfileError
from viper.models.hub import local_copy
from viper.models.loading import Checkpoint, in_batches, load_errors, split_options
from viper.models.vision.boxes import require_finite
from viper.models.vision.roles import Floats

# Ways to make one vector of the vectors of tokens: their mean, the first one, or the last one.
POOLINGS = ("mean", "cls", "lasttoken")

# Modules of a repository of sentence-transformers that this backend computes.
_MODULES = ("Transformer", "Pooling", "Normalize")


class SentenceEmbedder(Checkpoint):
    """The :class:`~viper.models.vision.roles.TextEmbedder` role.

    Repositories of sentence-transformers state their pooling, their default prompt and their
    longest text; the options override them. Other repositories are averaged over their tokens.

    Source: Reimers and Gurevych 2019, mean pooling. The files are those of sentence-transformers.

    Args:
        model: the network.
        processor: its tokenizer.
        name: goes into traces and cache keys, together with another pooling and a prefix.
        pooling: one of :data:`POOLINGS`.
        prefix: stands before each text, such as ``query: ``.
        max_tokens: longer texts are cut; None takes the tokenizer's limit.
        batch_size: maximum number of texts in one forward pass.

    Raises:
        ProfileError: an unknown pooling.
    """

    network = "transformers:AutoModel"
    readers = ("transformers:AutoTokenizer",)

    def __init__(
        self,
        *parts: Any,
        pooling: str = "mean",
        prefix: str = "",
        max_tokens: int | None = None,
        batch_size: int = 64,
    ) -> None:
        super().__init__(*parts, batch_size=batch_size)
        if pooling not in POOLINGS:
            raise ProfileError(f"pooling {pooling!r} is not known; known: {', '.join(POOLINGS)}")
        self._pooling, self._prefix, self._max_tokens = pooling, prefix, max_tokens
        if (pooling, prefix) != ("mean", ""):
            self.model_id = f"{self.model_id}:{pooling}:{prefix}"

    @classmethod
    def from_pretrained(cls, source: str | Path, **options: Any) -> Self:
        """Load like every checkpoint; options that are not given are those of the repository.

        Raises:
            ModelError: nothing loadable there, or a repository with further layers.
            ProfileError: a wrong value.
        """
        stated = _stated(local_copy(source, split_options(options)[0]))
        return super().from_pretrained(source, **{**stated, **options})

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return L2-normalised embeddings ``[N, D]``; N may be 0.

        Raises:
            ModelError: an embedding is not finite.
        """
        import torch

        def forward(batch: Sequence[str]) -> Any:
            tokens = self._processor(
                [self._prefix + text for text in batch],
                padding=True,
                padding_side="right",  # decoders then see no padding before a text
                truncation=True,
                max_length=self._max_tokens,
                return_tensors="pt",
            ).to(self._place().device)
            pooled = self._pooled(self._model(**tokens).last_hidden_state, tokens["attention_mask"])
            return torch.nn.functional.normalize(pooled.float(), dim=-1)

        if not texts:
            return np.zeros((0, 0), np.float32)
        with torch.inference_mode():
            rows = in_batches(texts, self._batch_size, forward)
        embeddings = np.stack([row.cpu().numpy() for row in rows]).astype(np.float32)
        require_finite(self.model_id, "embeddings", embeddings)
        return embeddings

    def _pooled(self, states: Any, mask: Any) -> Any:
        """Return one vector a text ``[B, D]`` from those of its tokens ``[B, T, D]``."""
        import torch

        if self._pooling == "cls":
            return states[:, 0]
        if self._pooling == "lasttoken":
            return states[torch.arange(len(states)), mask.sum(dim=1) - 1]
        mask = mask[..., None].to(states.dtype)
        return (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)


def _stated(folder: Path) -> dict[str, Any]:
    """Return the options that a repository of sentence-transformers states; else none.

    Raises:
        ModelError: it has layers that this backend does not compute, or its files are broken.
    """
    stated: dict[str, Any] = {}
    with load_errors("a repository of sentence-transformers", folder):
        for module in _read(folder / "modules.json", []):
            kind = str(module["type"]).rpartition(".")[2]
            if kind not in _MODULES:
                raise ModelError(
                    f"{folder}: its embeddings pass through a layer {kind}; this backend computes "
                    f"{', '.join(_MODULES)} alone: name another model"
                )
            if kind == "Pooling":
                config = _read(folder / Path(module["path"]).name / "config.json", {})
                stated["pooling"] = config.get("pooling_mode", _modes(config))
        prompts = _read(folder / "config_sentence_transformers.json", {})
        if prompts.get("default_prompt_name") is not None:
            stated["prefix"] = str(prompts["prompts"][prompts["default_prompt_name"]])
        longest = _read(folder / "sentence_bert_config.json", {}).get("max_seq_length")
        if longest is not None:
            stated["max_tokens"] = int(longest)
    return stated


def _modes(config: Mapping[str, Any]) -> str:
    """Return the pooling of an older configuration, which has a flag for each."""
    flags = {"mean_tokens": "mean", "cls_token": "cls"}
    stated = [name.partition("pooling_mode_")[2] for name, on in config.items() if on is True]
    return "+".join(flags.get(mode, mode) for mode in stated if mode)


def _read(path: Path, default: Any) -> Any:
    """Return a file's JSON, or the default, whose type it must have, if there is no such file."""
    value = json.loads(path.read_text("utf-8")) if path.is_file() else default
    if type(value) is not type(default):
        raise ValueError(f"{path.name} holds {type(value).__name__}")
    return value
