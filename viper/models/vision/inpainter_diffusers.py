"""Inpainting by a Stable Diffusion inpainting checkpoint, through diffusers.

``inpaint`` cuts one square around all masked pixels (:func:`window_around`), scales it to the
model's resolution, encodes the prompt (with learned vectors, if there are any), runs the pipeline,
and pastes the masked pixels back. Training uses the same squares, so a model sees the same in both.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from viper.errors import ModelError, ProfileError
from viper.models.hub import local_copy
from viper.models.libraries import Image, torch
from viper.models.loading import (
    LocalModel,
    check_loading,
    load_errors,
    model_id,
    split_options,
    without_progress_bars,
)
from viper.models.vision.adapter_inpainter import NO_PROMPT, InpainterTraining, encode_adapted
from viper.models.vision.boxes import mask_box
from viper.models.vision.roles import Mask, Pixels
from viper.models.vision.soft_prompts import LearnedPrompt

# Usual values for published checkpoints: the defaults of diffusers' pipeline.
STEPS, GUIDANCE = 50, 7.5

# Context on each side of the masked part, as a share of its longer side: enough to see the light
# and the ground, while the part still fills two thirds of the square's side.
PADDING = 0.25

Value = TypeVar("Value", bound=np.generic)


class DiffusersInpainter(LocalModel):
    """An :class:`~viper.models.vision.roles.Inpainter` on ``StableDiffusionInpaintPipeline``.

    It takes soft prompts (:mod:`~viper.models.vision.adapter_inpainter`).

    The model sees one square around all masked pixels (:func:`window_around`) at its own
    resolution. Noise is drawn on the processor, on any device of the model. Not for several threads
    at once; the toolbox holds a lock for each model.

    Args:
        pipeline: loaded, with a UNet that takes mask and picture beside the noisy latents.
        name: goes into traces and cache keys.
        steps: number of denoising steps, each one or (with guidance) two runs of the UNet.
        guidance: strength of the prompt in a step; 1 turns guidance off.
        padding: context on each side as a share of the longer side of the masked part.
    """

    def __init__(
        self,
        pipeline: Any,
        name: str,
        *,
        steps: int = STEPS,
        guidance: float = GUIDANCE,
        padding: float = PADDING,
    ) -> None:
        if steps < 1:
            raise ProfileError(f"steps must be at least 1, not {steps}")
        if guidance < 0 or padding < 0:
            raise ProfileError(
                f"guidance and padding must not be negative, not {guidance} and {padding}"
            )
        pipeline = for_inpainting(name, pipeline)
        self.model_id = name
        self._pipeline = pipeline
        self._steps, self._guidance, self._padding = steps, guidance, padding
        parts = [pipeline.text_encoder, pipeline.unet, pipeline.vae, pipeline.safety_checker]
        self._model = torch.nn.ModuleList([part for part in parts if part is not None]).eval()
        self._model.requires_grad_(False)  # soft prompts change no weight
        self._side = pipeline.unet.config.sample_size * pipeline.vae_scale_factor
        pipeline.set_progress_bar_config(disable=True)

    loads_with = frozenset({"device", "dtype", "local_only", "revision"})

    @classmethod
    def from_pretrained(
        cls, source: str | Path, *, safety_checker: bool = True, **options: Any
    ) -> DiffusersInpainter:
        """Load a folder or a published checkpoint; weights in safetensors files only.

        Args:
            safety_checker: use the checkpoint's own, if it has one. False leaves it out, which
                suits a model that cannot paint anything unsafe.
            options: those of ``loads_with``, and the class's own.

        Raises:
            ModelError: nothing loadable under that name, or no inpainting checkpoint.
            ProfileError: a wrong value.
        """
        check_loading(cls, options)
        loading, own = split_options(options)
        inspect.signature(cls).bind_partial(**own)
        folder = local_copy(source, loading)
        dtype = loading.resolved_dtype()
        leave_out = {"safety_checker": None, "requires_safety_checker": False}
        with (
            load_errors("a Stable Diffusion inpainting pipeline", source),
            without_progress_bars("diffusers"),
        ):
            from diffusers import StableDiffusionInpaintPipeline

            pipeline = StableDiffusionInpaintPipeline.from_pretrained(
                folder,
                dtype=None if dtype == "auto" else dtype,
                use_safetensors=True,
                local_files_only=True,
                trust_remote_code=False,
                **({} if safety_checker else leave_out),
            ).to(loading.resolved_device())
        return cls(pipeline, model_id(folder), **own)

    def inpaint(self, pixels: Pixels, mask: Mask, prompt: str, seed: int) -> Pixels:
        """Return a picture of the same size with the prompt's content painted where ``mask`` is
        True.

        Args:
            pixels: uint8 [H, W, 3].
            mask: bool [H, W]; an empty mask returns the picture unchanged.
            prompt: a noun phrase; text beyond the text encoder's limit is cut off.
            seed: of the noise.

        Raises:
            ValueError: the mask is not a bool array of the picture's size.
            ModelError: the checkpoint's safety checker withheld the result.
        """
        return self.inpaint_adapted(pixels, mask, prompt, seed, ())

    def inpaint_adapted(
        self, pixels: Pixels, mask: Mask, prompt: str, seed: int, prompts: Sequence[LearnedPrompt]
    ) -> Pixels:
        """Paint like :meth:`inpaint`, with learned vectors in place of the named concepts.

        Args:
            prompts: vectors [N, W] in the width of the text encoder's token embedding.

        Raises:
            ValueError: as for :meth:`inpaint`, or vectors of another width.
            ModelError: as for :meth:`inpaint`.
        """
        width = self._pipeline.text_encoder.get_input_embeddings().embedding_dim
        for each in prompts:
            if each.vectors.ndim != 2 or each.vectors.shape[1] != width:
                raise ValueError(
                    f"a soft prompt of shape {each.vectors.shape} for {each.concept!r}; "
                    f"{self.model_id} takes vectors of width {width}"
                )
        if mask.dtype != np.bool_ or mask.shape != pixels.shape[:2]:
            raise ValueError(
                f"a mask of bool {pixels.shape[:2]} is expected, not {mask.dtype} {mask.shape}"
            )
        if not mask.any():
            return pixels.copy()
        # A smaller square would be little more than enlarged noise.
        window = window_around(mask, self._side // 2, self._padding)
        square = resize_square(window.cut(pixels), self._side)
        masked = resize_mask(window.cut(mask), self._side)
        painted = self._paint(square, masked, prompt, seed, prompts)
        return window.paste(pixels, mask, resize_square(painted, window.side))

    def lessons(self) -> InpainterTraining:
        """Return the training interface of the pipeline.

        Raises:
            UsageError: a pipeline of a kind that takes no soft prompts.
        """
        return InpainterTraining(self._pipeline, self._side)

    def _paint(
        self, square: Pixels, mask: Mask, prompt: str, seed: int, prompts: Sequence[LearnedPrompt]
    ) -> Pixels:
        """Run the pipeline on a square at the model's resolution."""
        with torch.inference_mode():
            vectors = {each.concept: torch.from_numpy(each.vectors) for each in prompts}
            parts = self._pipeline.text_encoder, self._pipeline.tokenizer
            # States [1, L, D] of the prompt and of the empty prompt.
            positive, negative = encode_adapted(*parts, [prompt, NO_PROMPT], vectors).split(1)
            output = self._pipeline(
                prompt_embeds=positive,
                negative_prompt_embeds=negative,
                image=Image.fromarray(square),
                mask_image=Image.fromarray(mask.astype(np.uint8) * 255),
                height=self._side,
                width=self._side,
                num_inference_steps=self._steps,
                guidance_scale=self._guidance,
                generator=torch.Generator("cpu").manual_seed(seed),
                output_type="np",
            )
        if any(output.nsfw_content_detected or ()):
            raise ModelError(
                f"the safety checker of {self.model_id} withheld what it painted for {prompt!r}; "
                "ask for something else, or try another seed"
            )
        return (output.images[0] * 255).round().astype(np.uint8)


# Input channels of UNets with mask and picture in the stock pipeline, and of those without: latents
# have four, and the pipeline decides by exactly these numbers.
_STOCK_CHANNELS, _PLAIN_CHANNELS = 9, 4


def for_inpainting(name: str, pipeline: Any) -> Any:
    """Return the pipeline, ready to use its UNet, whose latents may have any width.

    An inpainting UNet takes the noisy latents, the mask and the latents of the unmasked part of the
    picture: twice as many channels as the latents have, and one. The stock pipeline joins the three
    for nine channels, and treats any other UNet as one for noisy latents alone.

    Raises:
        ModelError: the UNet is not for inpainting.
    """
    channels = int(pipeline.unet.config.in_channels)
    expected = 2 * int(pipeline.vae.config.latent_channels) + 1
    if channels != expected:
        raise ModelError(
            f"{name}: its UNet takes {channels} channels, one for inpainting {expected}; "
            "give a checkpoint made for inpainting"
        )
    if channels == _STOCK_CHANNELS:
        return pipeline
    # The pipeline is made to treat its UNet as one for noisy latents, and a hook joins the other
    # inputs. It then also resets the unmasked latents after every step, as for such a UNet.
    unet, prepare = pipeline.unet, pipeline.prepare_mask_latents
    beside: list[Any] = []

    def prepared(*args: Any, **named: Any) -> tuple[Any, Any]:
        mask, left = prepare(*args, **named)
        beside[:] = [mask, left]
        return mask, left

    def joined(_module: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        noisy, *others = args
        if noisy.shape[1] == channels:
            return None  # training joins them itself
        return (torch.cat([noisy, *beside], dim=1), *others), named

    unet.register_to_config(in_channels=_PLAIN_CHANNELS)
    pipeline.prepare_mask_latents = prepared
    unet.register_forward_pre_hook(joined, with_kwargs=True)
    return pipeline


@dataclass(frozen=True)
class Window:
    """Square of a picture, in whole pixels from its top-left corner; it may extend beyond it."""

    left: int
    top: int
    side: int

    def cut(self, array: NDArray[Value]) -> NDArray[Value]:
        """Return the square ``[side, side, ...]`` of an array ``[H, W, ...]``.

        Border pixels are repeated beyond the array.
        """
        steps, (height, width) = np.arange(self.side), array.shape[:2]
        rows = np.clip(self.top + steps, 0, height - 1)
        columns = np.clip(self.left + steps, 0, width - 1)
        return np.ascontiguousarray(array[rows[:, None], columns[None, :]])

    def paste(self, pixels: Pixels, mask: Mask, painted: Pixels) -> Pixels:
        """Return a copy of a picture with the square's pixels where the mask is True.

        Args:
            pixels: uint8 [H, W, 3].
            mask: bool [H, W].
            painted: uint8 [side, side, 3].
        """
        ys, xs = np.nonzero(mask)
        result = pixels.copy()
        result[ys, xs] = painted[ys - self.top, xs - self.left]
        return result


def window_around(mask: Mask, least_side: int, padding: float = PADDING) -> Window:
    """Return the square around all masked pixels, with context, inside the picture if it fits.

    Several masked places share one square.

    Args:
        mask: bool [H, W], some of it True.
        least_side: pixels; a smaller square would be little more than enlarged noise.
        padding: context on each side as a share of the longer side of the masked part.
    """
    height, width = mask.shape
    left, top, right, bottom = mask_box(mask)
    longer = max(bottom - top, right - left)
    side = max(math.ceil(longer * (1 + 2 * padding)), least_side)
    # Context beyond the picture's longer side would only repeat the border.
    side = max(min(side, max(height, width)), longer)
    return Window(_start(left, right, side, width), _start(top, bottom, side, height), side)


def _start(first: int, end: int, side: int, size: int) -> int:
    """Return the start of a square along one axis: around ``[first, end)``, moved inside if it
    fits.
    """
    start = round((first + end - side) / 2)
    return round((size - side) / 2) if side >= size else min(max(start, 0), size - side)


def resize_square(pixels: Pixels, side: int) -> Pixels:
    """Return a square picture at another size, uint8 [side, side, 3], with smooth scaling."""
    if len(pixels) == side:
        return pixels
    return np.asarray(Image.fromarray(pixels).resize((side, side), Image.Resampling.BICUBIC))


def resize_mask(mask: Mask, side: int) -> Mask:
    """Return a square mask at another size, bool [side, side], without values in between."""
    image = Image.fromarray(mask.astype(np.uint8))
    return np.asarray(image.resize((side, side), Image.Resampling.NEAREST)).astype(bool)
