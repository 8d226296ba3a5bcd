"""Sentence embeddings by any encoder that transformers loads, pooled as its repository states.

``from_pretrained`` reads the pooling, the prefix and the longest text from the repository's files
(:func:`_stated`); ``embed`` tokenises, runs the encoder, pools its tokens and normalises.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from viper.errors import ModelError, ProfileError
from viper.models.hub import local_copy
from viper.models.libraries import torch
from viper.models.loading import Checkpoint, load_errors, split_options
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

        def forward(batch: Sequence[str]) -> Any:
            tokens = self._processor(
                [self._prefix + text for text in batch],
                padding=True,
                padding_side="right",  # decoders then see no padding before a text
                truncation=True,
                max_length=self._max_tokens,
                return_tensors="pt",
            ).to(self._place().device)
            states = self._model(**tokens).last_hidden_state  # (B, T, D)
            mask = tokens["attention_mask"]
            if self._pooling == "cls":
                pooled = states[:, 0]
            elif self._pooling == "lasttoken":
                pooled = states[torch.arange(len(states)), mask.sum(dim=1) - 1]
            else:
                mask = mask[..., None].to(states.dtype)
                pooled = (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
            return torch.nn.functional.normalize(pooled.float(), dim=-1)

        return self._embeddings(texts, forward)


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
                # An older configuration has a flag for each pooling.
                flags = {"mean_tokens": "mean", "cls_token": "cls"}
                names = [name for name, is_on in config.items() if is_on is True]
                modes = [name.partition("pooling_mode_")[2] for name in names]
                older = "+".join(flags.get(mode, mode) for mode in modes if mode)
                stated["pooling"] = config.get("pooling_mode", older)
        prompts = _read(folder / "config_sentence_transformers.json", {})
        if prompts.get("default_prompt_name") is not None:
            stated["prefix"] = str(prompts["prompts"][prompts["default_prompt_name"]])
        longest = _read(folder / "sentence_bert_config.json", {}).get("max_seq_length")
        if longest is not None:
            stated["max_tokens"] = int(longest)
    return stated


def _read(path: Path, default: Any) -> Any:
    """Return a file's JSON, or the default, whose type it must have, if there is no such file."""
    value = json.loads(path.read_text("utf-8")) if path.is_file() else default
    if type(value) is not type(default):
        raise ValueError(f"{path.name} holds {type(value).__name__}")
    return value
