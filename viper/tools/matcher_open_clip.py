"""Image-text similarity by any open_clip model (CLIP, SigLIP, or the embedded one)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from viper.errors import ProfileError
from viper.tools.loading import Loading, LoadOptions, LocalModel, in_batches, load_errors
from viper.tools.model_id import model_id
from viper.tools.roles import Floats, Pixels


class OpenClipMatcher(LocalModel):
    """A :class:`~viper.tools.roles.Matcher` on an open_clip model.

    Attributes:
        model_id: what tells its answers from another model's.
        logit_scale: factor on a cosine before a softmax, as the model learned it.
    """

    def __init__(
        self, model: Any, preprocess: Any, tokenizer: Any, name: str, batch_size: int = 64
    ) -> None:
        """Wraps what ``open_clip`` loaded; ``preprocess`` maps a PIL image to ``[3, S, S]``."""
        self.model_id = name
        self.logit_scale = float(model.logit_scale.detach().exp())
        self._model = model.eval()
        self._preprocess = preprocess
        self._tokenizer = tokenizer
        self._batch_size = batch_size

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path,
        *,
        pretrained: str | None = None,
        batch_size: int = 64,
        **loading: Unpack[Loading],
    ) -> OpenClipMatcher:
        """Loads a folder (``open_clip_config.json`` and its weights) or a published model.

        Args:
            source: a folder, ``hf-hub:org/name``, or an architecture name of open_clip.
            pretrained: the weights' tag where ``source`` is an architecture name.
            batch_size: pictures or texts in one forward pass at most.

        Raises:
            ModelError: nothing loadable under that name.
        """
        import open_clip

        options = LoadOptions(**loading)
        _refuse_unsupported(options)
        name = f"local-dir:{source}" if Path(source).is_dir() else str(source)
        with load_errors("an open_clip model", source):
            model, _, preprocess = open_clip.create_model_and_transforms(
                name,
                pretrained=pretrained,
                device=options.resolved_device(),
                precision=_PRECISIONS[options.dtype],
            )
            tokenizer = open_clip.get_tokenizer(name)
        identity = model_id(source) + (f":{pretrained}" if pretrained else "")
        return cls(model, preprocess, tokenizer, identity, batch_size)

    def encode_images(self, images: Sequence[Pixels]) -> Floats:
        """L2-normalised embeddings ``[N, D]``; N may be 0."""
        import torch
        from PIL import Image

        def forward(batch: Sequence[Pixels]) -> Any:
            pixels = torch.stack([self._preprocess(Image.fromarray(image)) for image in batch])
            return self._model.encode_image(**self._fitted({"image": pixels}), normalize=True)

        return self._in_batches(images, forward)

    def encode_texts(self, texts: Sequence[str]) -> Floats:
        """L2-normalised embeddings ``[M, D]``; M may be 0."""

        def forward(batch: Sequence[str]) -> Any:
            tokens = self._tokenizer(list(batch)).to(self._place().device)
            return self._model.encode_text(tokens, normalize=True)

        return self._in_batches(texts, forward)

    def _in_batches(self, items: Sequence[Any], forward: Any) -> Floats:
        import torch

        if not items:
            return np.zeros((0, 0), dtype=np.float32)
        with torch.inference_mode():
            rows = in_batches(items, self._batch_size, forward)
        return np.stack([row.float().cpu().numpy() for row in rows])


_PRECISIONS = {"auto": "fp32", "float32": "fp32", "float16": "pure_fp16", "bfloat16": "pure_bf16"}
"""open_clip's words for dtypes."""


def _refuse_unsupported(options: LoadOptions) -> None:
    for name in ("device_map", "quantize", "revision"):
        if getattr(options, name) is not None:
            raise ProfileError(f"the backend open_clip takes no option {name}")
