"""How a learned vector enters an inpainting model: textual inversion.

Where a prompt names a taught concept, the learned vector stands in place of the embeddings of the
concept's tokens, before the text encoder runs; nothing else of the model changes. Use
(``DiffusersInpainter.inpaint_adapted``) and training go through
:func:`encode_adapted`; :class:`InpainterTraining` is what training needs beside it.

Source: CLOVA (Gao et al. 2024), supplement, sec. 8.5; Gal et al. 2023, An Image is Worth One Word.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from viper.errors import UsageError

if TYPE_CHECKING:
    from torch import Generator, Tensor

NO_PROMPT = ""
"""What guidance leads away from; training leaves some prompts out and shows this."""


def encode_prompts(text_encoder: Any, tokenizer: Any, prompts: Sequence[str]) -> Tensor:
    """The text encoder's last hidden states ``[B, L, D]``, L being the tokenizer's own length.

    As Stable Diffusion does it: padded to the full length, padding attended to; a longer
    prompt is cut.
    """
    tokens = tokenizer(
        list(prompts),
        padding="max_length",
        max_length=tokenizer.model_max_length,
        truncation=True,
        return_tensors="pt",
    )
    states: Tensor = text_encoder(tokens["input_ids"].to(text_encoder.device))[0]
    return states


_PLAIN = -1
"""Where a token's own embedding stays."""


def encode_adapted(
    text_encoder: Any, tokenizer: Any, prompts: Sequence[str], taught: Mapping[str, Tensor]
) -> Tensor:
    """As :func:`encode_prompts`, with vectors in place of concepts.

    A concept's name counts wherever it stands as a word of its own, also with a plural's s; of
    names that overlap the longer one is meant. Prompts that name none are encoded as always.

    Args:
        taught: concept to its vectors, float [N, W], of the token embedding's width. They stand
            where the name's tokens stood, however many these were.

    Returns:
        states [B, L, D]; gradients reach the vectors.
    """
    import torch

    names = sorted((name for name in taught if name.strip()), key=lambda each: (-len(each), each))
    first, place = {}, 0
    for name in names:
        first[name], place = place, place + len(taught[name])
    written = [_written(tokenizer, prompt, names, first, taught) for prompt in prompts]
    if not any(at != _PLAIN for _, places in written for at in places):
        return encode_prompts(text_encoder, tokenizer, prompts)
    device = text_encoder.device
    ids = torch.tensor([ids for ids, _ in written], device=device)
    places = torch.tensor([places for _, places in written], device=device)
    rows = torch.cat([taught[name].to(device) for name in names])
    with _rows_in_place(text_encoder.get_input_embeddings(), places, rows):
        states: Tensor = text_encoder(ids)[0]
    return states


def _written(
    tokenizer: Any,
    prompt: str,
    names: Sequence[str],
    first: Mapping[str, int],
    taught: Mapping[str, Tensor],
) -> tuple[list[int], list[int]]:
    """A prompt's token ids ``[L]``, and for each the row of the vectors that stands there."""
    words = " ".join(prompt.casefold().split())
    parts = [words]
    if names:
        either = "|".join(map(re.escape, names))
        parts = re.split(rf"(?<!\w)({either})(?:e?s)?(?!\w)", words)
    if len(parts) == 1:
        parts = [prompt]
    most, blank = tokenizer.model_max_length, tokenizer.pad_token_id
    ids, places = [tokenizer.bos_token_id], [_PLAIN]
    for turn, part in enumerate(parts):
        if turn % 2:  # every second part is a concept's name
            places += range(first[part], first[part] + len(taught[part]))
            ids += [blank] * len(taught[part])
        else:
            found = tokenizer(part, add_special_tokens=False)["input_ids"]
            ids += found
            places += [_PLAIN] * len(found)
    ids, places = [*ids[: most - 1], tokenizer.eos_token_id], [*places[: most - 1], _PLAIN]
    missing = most - len(ids)
    return ids + [blank] * missing, places + [_PLAIN] * missing


@contextmanager
def _rows_in_place(embedding: Any, places: Tensor, rows: Tensor) -> Iterator[None]:
    """Lets the embedding answer rows where ``places`` says so, to this thread alone."""
    import torch

    mine = threading.get_ident()

    def put(_module: Any, _given: Any, found: Tensor) -> Tensor | None:
        if threading.get_ident() != mine or found.shape[:-1] != places.shape:
            return None
        chosen = rows.to(found.dtype)[places.clamp(min=0)]
        return torch.where((places != _PLAIN)[..., None], chosen, found)

    handle = embedding.register_forward_hook(put)
    try:
        yield
    finally:
        handle.remove()


@dataclass(frozen=True, eq=False)
class Masked:
    """Squares as the denoiser knows them.

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
    """What a Stable Diffusion inpainting pipeline is trained with, its weights held still.

    Args:
        pipeline: of diffusers, as ``inpainter_diffusers.for_inpainting`` leaves it.
        side: pixels of the square that it sees.

    Attributes:
        moments: steps of noise that it was trained with.

    Raises:
        UsageError: its text encoder, scheduler or UNet is of a kind that takes no soft prompts.
    """

    def __init__(self, pipeline: Any, side: int) -> None:
        from diffusers import DDPMScheduler

        _check(pipeline)
        self.side = side
        self._pipeline = pipeline
        # Samplers of use may lack what training asks of them; this one reads any one's noise.
        make: Any = DDPMScheduler
        self._scheduler = make.from_config(pipeline.scheduler.config)
        self.moments = int(self._scheduler.config.num_train_timesteps)

    @property
    def width(self) -> int:
        """Of a vector."""
        return int(self._pipeline.text_encoder.get_input_embeddings().embedding_dim)

    def word_vector(self, text: str) -> Tensor:
        """The mean embedding of a text's tokens, float32 [W]."""
        embedding = self._pipeline.text_encoder.get_input_embeddings().weight.detach()
        ids = self._pipeline.tokenizer(text, add_special_tokens=False)["input_ids"]
        mean: Tensor = embedding[ids].float().mean(dim=0)
        return mean

    def masked(self, squares: Tensor, masks: Tensor, generator: Generator | None = None) -> Masked:
        """What the denoiser is to restore and what it is shown, as the pipeline makes it.

        Args:
            squares: float [B, 3, S, S] in [-1, 1].
            masks: float [B, 1, S, S], 1 where masked.
            generator: of the latents' own noise, on the processor.
        """
        import torch

        vae = self._pipeline.vae
        place = next(vae.parameters())
        squares, masks = squares.to(place), masks.to(place)
        config = vae.config
        with torch.no_grad():
            both = torch.cat([squares, squares * (masks < 0.5)])
            drawn = vae.encode(both).latent_dist.sample(generator)
            shift = getattr(config, "shift_factor", None) or 0.0
            latents, left = ((drawn - shift) * config.scaling_factor).chunk(2)
            cells = torch.nn.functional.interpolate(masks, size=latents.shape[-2:])
        return Masked(latents, cells, left)

    def errors(
        self,
        masked: Masked,
        times: Tensor,
        noise: Tensor,
        prompts: Sequence[str],
        taught: Mapping[str, Tensor],
    ) -> Tensor:
        """The diffusion loss of each example where it is masked, float32 [B].

        Mean squared error of what the model was trained to tell: the noise, the velocity or the
        picture itself. Differs: cells that are not masked do not count, they are pasted over
        after painting and say nothing of the prompt.

        Args:
            times: int64 [B], in [0, ``moments``).
            noise: float [B, C, s, s], normal.
        """
        import torch

        scheduler, unet = self._scheduler, self._pipeline.unet
        place = masked.latents
        times, noise = times.to(place.device), noise.to(place)
        noisy = scheduler.add_noise(place, noise, times)
        target = {
            "epsilon": lambda: noise,
            "v_prediction": lambda: scheduler.get_velocity(place, noise, times),
            "sample": lambda: place,
        }[scheduler.config.prediction_type]()
        states = encode_adapted(
            self._pipeline.text_encoder, self._pipeline.tokenizer, prompts, taught
        )
        said = unet(
            torch.cat([noisy, masked.cells, masked.left], dim=1).to(unet.dtype),
            times,
            encoder_hidden_states=states.to(unet.dtype),
        ).sample
        error = (said.float() - target.float()).square().mean(dim=1, keepdim=True)
        cells = masked.cells.float()
        total: Tensor = (error * cells).sum(dim=(1, 2, 3))
        return total / cells.sum(dim=(1, 2, 3)).clamp(min=1)


def _check(pipeline: Any) -> None:
    from transformers import CLIPTextModel

    encoder, tokenizer = pipeline.text_encoder, pipeline.tokenizer
    if not isinstance(encoder, CLIPTextModel) or tokenizer.pad_token_id is None:
        raise UsageError(
            f"an inpainter that reads prompts by {type(encoder).__name__} takes no soft prompts; "
            "expected Stable Diffusion with one CLIPTextModel"
        )
    kind = pipeline.scheduler.config.prediction_type
    if kind not in ("epsilon", "v_prediction", "sample"):
        raise UsageError(
            f"an inpainter that predicts {kind!r} takes no soft prompts; expected epsilon, "
            "v_prediction or sample"
        )
