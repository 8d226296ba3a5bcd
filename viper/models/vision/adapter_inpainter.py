"""Adapter of inpainting models: learned vectors in the text encoder (textual inversion).

If a prompt names a learned concept, the learned vector replaces the embeddings of the concept's
tokens before the text encoder runs. Nothing else of the model changes. Inference
(``DiffusersInpainter.inpaint_adapted``) and training both use :func:`encode_adapted`. Training also
needs :class:`InpainterTraining`.

Source: CLOVA (Gao et al. 2024), supplement, sec. 8.5; Gal et al. 2023, An Image is Worth One Word.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viper.errors import UsageError
from viper.models.libraries import Tensor, torch, transformers
from viper.models.vision.soft_prompts import named

# Concept to its vectors, float [N, W], of the token embedding's width.
Vectors = Mapping[str, Tensor]

# Prompt that guidance leads away from; training replaces some prompts by it.
NO_PROMPT = ""


def encode_prompts(text_encoder: Any, tokenizer: Any, prompts: Sequence[str]) -> Tensor:
    """Return the text encoder's last hidden states ``[B, L, D]``, L being the tokenizer's own
    length.

    As in Stable Diffusion, prompts are padded to the full length and the padding is attended to. A
    longer prompt is cut.
    """
    tokens = tokenizer(
        list(prompts),
        padding="max_length",
        max_length=tokenizer.model_max_length,
        truncation=True,
        return_tensors="pt",
    )
    return text_encoder(tokens["input_ids"].to(text_encoder.device))[0]


# Row number of a token that keeps its own embedding.
_PLAIN = -1


def encode_adapted(
    text_encoder: Any, tokenizer: Any, prompts: Sequence[str], vectors: Vectors
) -> Tensor:
    """Encode like :func:`encode_prompts`, with vectors in place of concepts.

    A concept's name counts as a separate word, also with a plural's s. If names overlap, the longer
    one counts. Prompts that name no concept are encoded unchanged.

    Args:
        vectors: concept to its vectors, float [N, W], of the token embedding's width. They replace
            the name's tokens, however many these are.

    Returns:
        states [B, L, D]; gradients reach the vectors.
    """
    names = sorted((name for name in vectors if name.strip()), key=lambda each: (-len(each), each))
    first, place = {}, 0
    for name in names:
        first[name], place = place, place + len(vectors[name])
    most, blank = tokenizer.model_max_length, tokenizer.pad_token_id
    encoded = []  # of each prompt: token ids ``[L]``, and for each the row of its vector or _PLAIN
    for prompt in prompts:
        words = " ".join(prompt.casefold().split())
        parts = re.split(named(*names), words) if names else []
        ids, places = [tokenizer.bos_token_id], [_PLAIN]
        for turn, part in enumerate(parts if len(parts) > 1 else [prompt]):
            if turn % 2:  # every second part is a concept's name
                places += range(first[part], first[part] + len(vectors[part]))
                ids += [blank] * len(vectors[part])
            else:
                part_ids = tokenizer(part, add_special_tokens=False, verbose=False)["input_ids"]
                ids += part_ids
                places += [_PLAIN] * len(part_ids)
        missing = max(0, most - 1 - len(ids))
        ids = [*ids[: most - 1], tokenizer.eos_token_id, *[blank] * missing]
        encoded.append((ids, [*places[: most - 1], *[_PLAIN] * (missing + 1)]))
    if not any(at != _PLAIN for _, places in encoded for at in places):
        return encode_prompts(text_encoder, tokenizer, prompts)
    device, own_thread = text_encoder.device, threading.get_ident()
    rows_at = torch.tensor([places for _, places in encoded], device=device)
    rows = torch.cat([vectors[name].to(device) for name in names])

    def insert_rows(_module: Any, _inputs: Any, embeddings: Tensor) -> Tensor | None:
        if threading.get_ident() != own_thread or embeddings.shape[:-1] != rows_at.shape:
            return None
        chosen = rows.to(embeddings.dtype)[rows_at.clamp(min=0)]
        return torch.where((rows_at != _PLAIN)[..., None], chosen, embeddings)

    handle = text_encoder.get_input_embeddings().register_forward_hook(insert_rows)
    try:
        return text_encoder(torch.tensor([ids for ids, _ in encoded], device=device))[0]
    finally:
        handle.remove()


@dataclass(frozen=True, eq=False)
class Masked:
    """Masked squares as inputs of the denoiser.

    Attributes:
        latents: float [B, C, s, s] of the squares.
        cells: float [B, 1, s, s], 1 where masked.
        left: float [B, C, s, s], latents of the squares with grey where they are masked.
    """

    latents: Tensor
    cells: Tensor
    left: Tensor

    def __getitem__(self, index: Tensor) -> Masked:
        return Masked(self.latents[index], self.cells[index], self.left[index])


class InpainterTraining:
    """Training interface of a Stable Diffusion inpainting pipeline with frozen weights.

    Args:
        pipeline: of diffusers, as ``inpainter_diffusers.for_inpainting`` leaves it.
        side: pixels of its input square.

    Attributes:
        moments: number of noise steps in its training.

    Raises:
        UsageError: its text encoder, scheduler or UNet takes no soft prompts.
    """

    def __init__(self, pipeline: Any, side: int) -> None:
        from diffusers import DDPMScheduler

        encoder, tokenizer = pipeline.text_encoder, pipeline.tokenizer
        if not isinstance(encoder, transformers.CLIPTextModel) or tokenizer.pad_token_id is None:
            raise UsageError(
                f"an inpainter that reads prompts by {type(encoder).__name__} takes no soft "
                "prompts; expected Stable Diffusion with one CLIPTextModel"
            )
        kind = pipeline.scheduler.config.prediction_type
        if kind not in ("epsilon", "v_prediction", "sample"):
            raise UsageError(
                f"an inpainter that predicts {kind!r} takes no soft prompts; expected epsilon, "
                "v_prediction or sample"
            )
        self.side = side
        self._pipeline = pipeline
        # Other schedulers may lack methods that training needs; this one reads any configuration.
        make: Any = DDPMScheduler
        self._scheduler = make.from_config(pipeline.scheduler.config)
        self.moments = int(self._scheduler.config.num_train_timesteps)

    @property
    def width(self) -> int:
        """Return the width of a vector."""
        return int(self._pipeline.text_encoder.get_input_embeddings().embedding_dim)

    def word_vector(self, text: str) -> Tensor:
        """Return the mean embedding of a text's tokens, float32 [W]."""
        embedding = self._pipeline.text_encoder.get_input_embeddings().weight.detach()
        ids = self._pipeline.tokenizer(text, add_special_tokens=False)["input_ids"]
        return embedding[ids].float().mean(dim=0)

    def masked(
        self, squares: Tensor, masks: Tensor, generator: torch.Generator | None = None
    ) -> Masked:
        """Return the target and the input of the denoiser, computed like in the pipeline.

        Args:
            squares: float [B, 3, S, S] in [-1, 1].
            masks: float [B, 1, S, S], 1 where masked.
            generator: of the latents' own noise, on the processor.
        """
        vae = self._pipeline.vae
        place = next(vae.parameters())
        squares, masks = squares.to(place), masks.to(place)
        config = vae.config
        with torch.no_grad():
            # as the pipeline cuts masks: 1 and soft edges from .5 are hidden
            both = torch.cat([squares, squares * (masks < 0.5)])
            samples = vae.encode(both).latent_dist.sample(generator)
            shift = getattr(config, "shift_factor", None) or 0.0
            latents, left = ((samples - shift) * config.scaling_factor).chunk(2)
            cells = torch.nn.functional.interpolate(masks, size=latents.shape[-2:])
        return Masked(latents, cells, left)

    def errors(
        self, masked: Masked, times: Tensor, noise: Tensor, prompts: Sequence[str], vectors: Vectors
    ) -> Tensor:
        """Return the diffusion loss of each example inside its mask, float32 [B].

        It is the mean squared error of the model's training target: the noise, the velocity or the
        picture itself. Differs: cells outside the mask do not count, because they are pasted over
        after painting and do not depend on the prompt.

        Args:
            times: int64 [B], in [0, ``moments``).
            noise: float [B, C, s, s], normal.
        """
        scheduler, unet = self._scheduler, self._pipeline.unet
        place = masked.latents
        times, noise = times.to(place.device), noise.to(place)
        noisy = scheduler.add_noise(place, noise, times)
        target = {"epsilon": noise, "sample": place}.get(scheduler.config.prediction_type)
        if target is None:
            target = scheduler.get_velocity(place, noise, times)
        parts = self._pipeline.text_encoder, self._pipeline.tokenizer
        states = encode_adapted(*parts, prompts, vectors)
        prediction = unet(
            torch.cat([noisy, masked.cells, masked.left], dim=1).to(unet.dtype),
            times,
            encoder_hidden_states=states.to(unet.dtype),
        ).sample
        error = (prediction.float() - target.float()).square().mean(dim=1, keepdim=True)
        cells = masked.cells.float()
        total: Tensor = (error * cells).sum(dim=(1, 2, 3))
        return total / cells.sum(dim=(1, 2, 3)).clamp(min=1)
