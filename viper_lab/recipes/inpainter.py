"""The embedded inpainter: a small latent diffusion that paints objects of the table's world.

``viper lab world train inpainter``. First an autoencoder for squares of stills is trained, then a
denoiser of its latents that fills in a masked area from a prompt
(:mod:`viper_lab.recipes.inpainter_batches`). The denoiser predicts the velocity, and some prompts
are dropped for classifier-free guidance.

Source: Rombach et al. 2022, High-Resolution Image Synthesis with Latent Diffusion Models; guidance
from Ho and Salimans 2022, Classifier-Free Diffusion Guidance.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from viper.embedded import WEIGHTS
from viper.models.vision.adapter_inpainter import NO_PROMPT, encode_prompts
from viper.models.vision.inpainter_diffusers import DiffusersInpainter
from viper_lab.recipes.inpainter_batches import draw_example, tensors
from viper_lab.recipes.inpainter_model import (
    InpainterShape,
    build_autoencoder,
    build_scheduler,
    build_unet,
    save,
    text_side,
    whiten_latents,
)
from viper_lab.recipes.inpainter_score import evaluate
from viper_lab.recipes.object_views import ObjectViews
from viper_lab.recipes.optim import FitOptions, LossAt, TrainOptions, fit

# Trained detector whose text tower is reused.
DETECTOR = WEIGHTS / "detector"

AUTOENCODER_STEPS, STEPS = 1200, 3000

# Squares on which mean and spread of the latents are measured.
MEASURED = 256

# Sampling steps and guidance, in use and in the score.
SAMPLING_STEPS, GUIDANCE = 20, 2.5

# Number of validation scenes in the score.
SCORED = 200


def train(options: TrainOptions) -> dict[str, float]:
    """Train on rendered stills, write the weights, and return the validation figures.

    ``options.steps`` counts the steps of the denoiser; the autoencoder takes ``AUTOENCODER_STEPS /
    STEPS`` times as many.
    """
    learn(options, InpainterShape(), ObjectViews.load("train", options.work))
    inpainter = DiffusersInpainter.from_pretrained(
        options.out,
        steps=SAMPLING_STEPS,
        guidance=GUIDANCE,
        safety_checker=False,
        device=options.device,
    )
    return evaluate(inpainter, SCORED)


def learn(options: TrainOptions, shape: InpainterShape, views: ObjectViews) -> None:
    """Train both stages, resuming from checkpoints in ``options.work``, and write the pipeline."""
    torch.manual_seed(options.seed)
    steps = options.steps or STEPS
    folder = options.work / "inpainter"
    untrained = build_autoencoder(shape).to(options.device)
    loss_at = autoencoder_loss(untrained, views, shape.side, options)
    plan = FitOptions(max(1, steps * AUTOENCODER_STEPS // STEPS), 1.5e-3, weight_decay=0.0)
    autoencoder: Any = fit(untrained, loss_at, plan, folder / "autoencoder.pt")
    rng = np.random.default_rng((options.seed, MEASURED))
    squares = [draw_example(views, rng, shape.side) for _ in range(MEASURED)]
    whiten_latents(autoencoder, tensors(squares, options.device)[0])
    text_encoder, tokenizer = text_side(DETECTOR)
    unet = build_unet(shape, text_encoder.config.hidden_size)
    denoiser = torch.nn.ModuleDict({"unet": unet, "text_encoder": text_encoder})
    denoiser.to(options.device)
    parts = (autoencoder, tokenizer, build_scheduler())
    loss_at = denoiser_loss(denoiser, parts, views, shape.side, options)
    plan = FitOptions(steps, 8e-4, decay="tail")
    trained: Any = fit(denoiser, loss_at, plan, folder / "denoiser.pt")
    save(autoencoder, trained["unet"], trained["text_encoder"], tokenizer, options.out)


AUTOENCODER_BATCH, BATCH = 16, 24

# Weight of a latent value's divergence from a unit normal, relative to a pixel's mean error.
KL_WEIGHT = 1e-5

# Weights of a pixel's squared error and of its colour part. Most pixels show the grey table, so
# without these weights the absolute error alone trained the model to paint grey everywhere.
SQUARED_WEIGHT, COLOUR_WEIGHT = 4.0, 8.0

# Share of examples whose prompt is dropped.
WITHOUT_PROMPT = 0.1

# Weight of an unmasked cell, which the final picture does not use.
OUTSIDE_WEIGHT = 0.1


def autoencoder_loss(
    autoencoder: Any, views: ObjectViews, side: int, options: TrainOptions
) -> LossAt:
    """Return the loss: error of a pixel in [-1, 1], absolute and squared, plus some divergence.

    Half of the squares have their masked part grey, as the denoiser will show them. The figure
    ``colour`` is the colourfulness of the decoded squares divided by that of the originals.
    """

    def loss_at(step: int) -> tuple[Tensor, Mapping[str, float]]:
        rng = np.random.default_rng((options.seed, step))
        examples = [draw_example(views, rng, side) for _ in range(AUTOENCODER_BATCH)]
        squares, masks = tensors(examples, options.device)
        squares[::2] *= 1 - masks[::2]
        latents = autoencoder.encode(squares).latent_dist
        decoded = autoencoder.decode(latents.sample(_generator(rng))).sample
        error = decoded - squares
        pixel, divergence = error.abs().mean(), latents.kl().mean() / latents.mean[0].numel()
        squared = SQUARED_WEIGHT * error.square().mean()
        squared = squared + COLOUR_WEIGHT * _colour(error).square().mean()
        figures = {
            "pixel": float(pixel.detach()),
            "colour": float(_colour(decoded.detach()).abs().sum() / _colour(squares).abs().sum()),
            "kl": float(divergence.detach()),
        }
        return pixel + squared + KL_WEIGHT * divergence, figures

    return loss_at


def denoiser_loss(
    denoiser: Any, parts: tuple[Any, Any, Any], views: ObjectViews, side: int, options: TrainOptions
) -> LossAt:
    """Return the loss: mean squared error of the velocity, nearly all of it on masked cells.

    Args:
        denoiser: holds ``unet`` and ``text_encoder``.
        parts: the trained autoencoder, the tokenizer, and the scheduler.
        views: objects to paint.
        side: pixels of a square.
        options: seed and device.
    """
    autoencoder, tokenizer, scheduler = parts
    unet, text_encoder = denoiser["unet"], denoiser["text_encoder"]
    moments = scheduler.config.num_train_timesteps

    def loss_at(step: int) -> tuple[Tensor, Mapping[str, float]]:
        rng = np.random.default_rng((options.seed + 1, step))
        examples = [draw_example(views, rng, side) for _ in range(BATCH)]
        squares, masks = tensors(examples, options.device)
        generator = _generator(rng)
        latents, cells, left = conditions(autoencoder, squares, masks, generator)
        times = torch.randint(0, moments, (BATCH,), generator=generator)
        noise = torch.randn(latents.shape, generator=generator).to(latents)
        times = times.to(latents.device)
        noisy = scheduler.add_noise(latents, noise, times)
        velocity = scheduler.get_velocity(latents, noise, times)
        prompts = [NO_PROMPT if rng.random() < WITHOUT_PROMPT else e.prompt for e in examples]
        predicted = unet(
            torch.cat([noisy, cells, left], dim=1),
            times,
            encoder_hidden_states=encode_prompts(text_encoder, tokenizer, prompts),
        ).sample
        error = (predicted - velocity).square().mean(dim=1, keepdim=True)
        inside = (error * cells).sum() / cells.sum().clamp(min=1)
        outside = (error * (1 - cells)).sum() / (1 - cells).sum().clamp(min=1)
        figures = {"inside": float(inside.detach()), "outside": float(outside.detach())}
        return inside + OUTSIDE_WEIGHT * outside, figures

    return loss_at


def conditions(
    autoencoder: Any, squares: Tensor, masks: Tensor, generator: Generator | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the denoiser's targets and conditions, computed as in the pipeline.

    Args:
        autoencoder: with latents of unit spread.
        squares: float [B, 3, S, S] in [-1, 1].
        masks: float [B, 1, S, S], 1 where masked.
        generator: of the latents' own noise.

    Returns:
        latents ``[B, C, s, s]`` of the squares, masks ``[B, 1, s, s]``, and latents
        ``[B, C, s, s]`` of the squares with the masked part grey.
    """
    with torch.no_grad():
        both = autoencoder.encode(torch.cat([squares, squares * (masks < 0.5)])).latent_dist
        latents, left = both.sample(generator).chunk(2)
        cells = torch.nn.functional.interpolate(masks, size=latents.shape[-2:])
    return latents, cells, left


def _colour(pixels: Tensor) -> Tensor:
    """Return the part of pixels [B, 3, H, W] that is not grey."""
    return pixels - pixels.mean(dim=1, keepdim=True)


def _generator(rng: np.random.Generator) -> Generator:
    """Return a CPU noise generator that depends on the step alone, so that training can resume."""
    return torch.Generator().manual_seed(int(rng.integers(2**62)))
