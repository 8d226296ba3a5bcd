"""The embedded inpainter: a small latent diffusion that paints objects of the table's world.

``viper world train inpainter``. First an autoencoder for squares of stills, then a
denoiser of its latents that fills in what a mask hides from what a prompt says
(:mod:`viper_lab.recipes.inpainter_batches`), by velocity prediction with some prompts
left out, so that guidance has something to lead away from.

Source: Rombach et al. 2022, High-Resolution Image Synthesis with Latent Diffusion Models;
guidance from Ho and Salimans 2022, Classifier-Free Diffusion Guidance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from viper.models.vision.inpainter_diffusers import DiffusersInpainter
from viper.profiles.wiring import WEIGHTS
from viper_lab.recipes.inpainter_batches import draw_example, tensors
from viper_lab.recipes.inpainter_losses import autoencoder_loss, denoiser_loss
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
from viper_lab.recipes.optim import Plan, TrainOptions, fit

DETECTOR = WEIGHTS / "detector"
"""The trained detector that lends its text tower."""

AUTOENCODER_STEPS, STEPS = 1200, 3000

MEASURED = 256
"""Squares on which the latents' mean and spread are measured."""

SAMPLING_STEPS, GUIDANCE = 20, 2.5
"""Of use, and of the score."""

SCORED = 200
"""Validation scenes."""


def train(options: TrainOptions) -> dict[str, float]:
    """Trains on rendered stills, writes the weights, and returns what they reach on validation.

    ``options.steps`` counts the steps of the denoiser; the autoencoder takes
    ``AUTOENCODER_STEPS / STEPS`` times as many.
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
    """Both stages; goes on from checkpoints in ``options.work`` and writes the pipeline."""
    torch.manual_seed(options.seed)
    steps = options.steps or STEPS
    folder = options.work / "inpainter"
    untrained = build_autoencoder(shape).to(options.device)
    loss_at = autoencoder_loss(untrained, views, shape.side, options)
    plan = Plan(max(1, steps * AUTOENCODER_STEPS // STEPS), 1.5e-3, weight_decay=0.0)
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
    plan = Plan(steps, 8e-4, decay="tail")
    trained: Any = fit(denoiser, loss_at, plan, folder / "denoiser.pt")
    save(autoencoder, trained["unet"], trained["text_encoder"], tokenizer, options.out)
