"""Image-text similarity by any open_clip model (CLIP, SigLIP, or the embedded one).

``encode_images`` and ``encode_texts`` give embeddings, which the tools compare. With learned
prompts ``encode_image_adapted`` and ``encode_text_adapted`` give them for one concept. Training
reads a picture once (``run_stem``) and embeds it under many prompts (``embed_from``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from viper.errors import ModelError
from viper.models.hub import OPEN_CLIP, local_copy
from viper.models.libraries import Image, LazyModule, Tensor, functional, torch
from viper.models.loading import LoadOptions, LocalModel, check_loading, load_errors, model_id
from viper.models.vision.adapter_matcher import LAYERS, Places, as_channels, places_in, tower_of
from viper.models.vision.roles import Floats, Pixels
from viper.models.vision.soft_prompts import LearnedPrompt

open_clip: Any = LazyModule("open_clip")


class OpenClipMatcher(LocalModel):
    """A :class:`~viper.models.vision.roles.Matcher` on an open_clip model, with soft prompts.

    Attributes:
        model_id: identifies the model in traces and cache keys.
        logit_scale: factor on a cosine before a softmax, as the model learned it.
        places: where soft prompts enter it; asking a model for them that takes none raises
            UsageError.
    """

    loads_with = frozenset({"device", "dtype", "local_only", "revision"})

    def __init__(
        self, model: Any, preprocess: Any, tokenizer: Any, name: str, batch_size: int = 64
    ) -> None:
        """Wrap a model of ``open_clip``; ``preprocess`` maps a PIL image to ``[3, S, S]``."""
        self.model_id = name
        self.logit_scale = float(model.logit_scale.detach().exp())
        self._model = model.eval().requires_grad_(False)
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
        **loading: Any,
    ) -> OpenClipMatcher:
        """Load a folder (``open_clip_config.json`` and its weights) or a published model.

        Args:
            source: a folder, ``hf-hub:org/name``, or an architecture name of open_clip.
            pretrained: the weights' tag if ``source`` is an architecture name.
            batch_size: maximum number of pictures or texts in one forward pass.
            loading: those of ``loads_with``.

        Raises:
            ModelError: nothing loadable under that name.
        """
        check_loading(cls, loading)
        options = LoadOptions(**loading)
        name, quick_gelu = published_weights(str(source), pretrained)
        with load_errors("an open_clip model", source):
            if name == str(source) and not name.startswith(OPEN_CLIP) and not Path(name).is_dir():
                raise ValueError(
                    f"no such folder; give a folder, {OPEN_CLIP}org/name, or an architecture of "
                    "open_clip and its weights' tag (pretrained)"
                )
            folder = local_copy(name, options)
            with _quietly_from_disk(options):
                model, preprocess = open_clip.create_model_from_pretrained(
                    f"local-dir:{folder}",
                    device=options.resolved_device(),
                    precision=_PRECISIONS[options.dtype],
                    force_quick_gelu=quick_gelu,
                )
                tokenizer = open_clip.get_tokenizer(f"local-dir:{folder}")
            # SigLIP 2 reads the last token. Its tokenizer pads left if no file tells it otherwise,
            # and then every text of another length gets another embedding than in training.
            if getattr(getattr(tokenizer, "tokenizer", None), "padding_side", "right") == "left":
                raise ValueError(
                    "its tokenizer pads texts on the left, unlike in training; write "
                    f'"padding_side": "right" into {folder / "tokenizer_config.json"}'
                )
        return cls(model, preprocess, tokenizer, model_id(folder), batch_size)

    def encode_images(self, images: Sequence[Pixels]) -> Floats:
        """Return L2-normalised embeddings ``[N, D]``; N may be 0."""
        return self._embeddings(images, lambda batch: self._embed(self.as_input(batch)))

    @property
    def prepare(self) -> Callable[[Pixels], Any]:
        """See :class:`~viper.models.vision.roles.PreparesPictures`."""
        return partial(_prepared, self._preprocess)

    def encode_prepared(self, inputs: Sequence[Any]) -> Floats:
        """Return L2-normalised embeddings ``[N, D]`` of prepared pictures."""
        return self._embeddings(inputs, lambda batch: self._embed(self._stacked(batch)))

    def encode_texts(self, texts: Sequence[str]) -> Floats:
        """Return L2-normalised embeddings ``[M, D]``; M may be 0."""

        def forward(batch: Sequence[str]) -> Any:
            tokens = self._tokenizer(list(batch)).to(self._place().device)
            return self._model.encode_text(tokens, normalize=True)

        return self._embeddings(texts, forward)

    @cached_property
    def places(self) -> Places:
        return places_in(self._model, self.encode_texts(["a"]).shape[1])

    def as_input(self, images: Sequence[Pixels]) -> Tensor:
        """Return pictures as the image tower takes them, ``[N, 3, S, S]`` on its device."""
        return self._stacked([_prepared(self._preprocess, image) for image in images])

    def run_stem(self, inputs: Tensor) -> Tensor:
        """Return the part of the image tower's output that no soft prompt changes.

        It is a ResNet's first stage ``[B, C, h, w]``; for a Vision Transformer the inputs.
        """
        if self.places.tokens:
            return inputs
        outputs: list[Tensor] = []
        stage = self.places.layers[0]
        handle = stage.register_forward_hook(lambda _, __, output: outputs.append(output))
        try:
            self._model.visual(inputs)
        finally:
            handle.remove()
        return outputs[0]

    def embed_from(self, stem: Tensor, vectors: Tensor | None) -> Tensor:
        """Return embeddings ``[B, D]`` of length 1 from the output of :meth:`run_stem`.

        Gradients reach the prompts.

        Args:
            vectors: ``[N, W]``, or ``[B, N, W]`` with one for each picture; None: no prompt.
        """
        places, model = self.places, self._model
        if places.tokens:
            with places.entered_by(vectors):
                return self._embed(stem)
        hidden, tower = stem, tower_of(model)
        for number, width in enumerate(places.widths):
            if number:
                hidden = places.layers[number](hidden)
            if vectors is not None:
                hidden = hidden + as_channels(vectors[..., number, :width], hidden)
        hidden = getattr(tower, f"layer{LAYERS + 1}")(hidden)
        if hasattr(tower, "attnpool"):
            return functional.normalize(tower.attnpool(hidden), dim=-1)
        return functional.normalize(model.visual.head(tower.forward_head(hidden)), dim=-1)

    def encode_image_adapted(self, pixels: Pixels, prompts: Sequence[LearnedPrompt]) -> Floats:
        """Return the L2-normalised embedding [D] of a picture for comparison with the prompts'
        concepts.
        """
        with self.places.entered_by(self._vectors(prompts)):
            return self.encode_images([pixels])[0]

    def encode_text_adapted(self, text: str, prompts: Sequence[LearnedPrompt]) -> Floats:
        """Return the L2-normalised embedding [D] of a text that names the concepts of all the
        prompts.
        """
        added = self.places.text_row(self._vectors(prompts)).cpu().numpy()
        moved = self.encode_texts([text])[0] + added
        return (moved / np.linalg.norm(moved)).astype(np.float32)

    def _vectors(self, prompts: Sequence[LearnedPrompt]) -> Tensor:
        """Return the prompts as one, on the model's device."""
        device = self._place().device
        for prompt in prompts:
            if prompt.vectors.shape != self.places.shape:
                raise ValueError(
                    f"a soft prompt of shape {prompt.vectors.shape} for {prompt.concept!r}; "
                    f"this matcher's are {self.places.shape}"
                )
        vectors = [torch.from_numpy(np.array(each.vectors)).to(device) for each in prompts]
        return self.places.together(vectors)

    def _stacked(self, inputs: Sequence[Tensor]) -> Tensor:
        return self._fitted({"image": torch.stack(list(inputs))})["image"]

    def _embed(self, inputs: Tensor) -> Any:
        return self._model.encode_image(inputs, normalize=True)


def _prepared(preprocess: Any, image: Pixels) -> Tensor:
    return preprocess(Image.fromarray(image))


# Names of dtypes in open_clip.
_PRECISIONS = {"auto": "fp32", "float32": "fp32", "float16": "pure_fp16", "bfloat16": "pure_bf16"}


def published_weights(source: str, pretrained: str | None) -> tuple[str, bool]:
    """Return the folder or hub id of weights, and whether they were trained with QuickGELU.

    The configuration of an architecture states another activation than some of its weights want.

    Raises:
        ModelError: the architecture has no weights under that tag.
    """
    if pretrained is not None:
        tags = open_clip.list_pretrained_tags_by_model(source)
        if pretrained not in tags:
            known = ", ".join(tags) or "none"
            raise ModelError(f"open_clip has no weights {pretrained!r} of {source}; known: {known}")
        published = open_clip.get_pretrained_cfg(source, pretrained)["hf_hub"]
        repository, _, file = published.rpartition("/")
        source = repository if file else OPEN_CLIP + repository
    listed = [open_clip.get_pretrained_cfg(*each) for each in open_clip.list_pretrained()]
    quick = [each["hf_hub"].rpartition("/")[0] for each in listed if each.get("quick_gelu")]
    return source, source.removeprefix(OPEN_CLIP) in quick


@contextmanager
def _quietly_from_disk(options: LoadOptions) -> Iterator[None]:
    """Let transformers, as open_clip calls it, ask neither standard input nor (local_only) the hub.

    open_clip passes on no such options.
    """
    from huggingface_hub import constants
    from transformers import dynamic_module_utils

    offline, seconds = constants.HF_HUB_OFFLINE, dynamic_module_utils.TIME_OUT_REMOTE_CODE
    constants.HF_HUB_OFFLINE = offline or options.local_only
    dynamic_module_utils.TIME_OUT_REMOTE_CODE = 0
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = offline
        dynamic_module_utils.TIME_OUT_REMOTE_CODE = seconds
