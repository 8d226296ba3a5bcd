"""A tiny untrained inpainting pipeline of the real classes, written as a checkpoint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    StableDiffusionInpaintPipeline,
    UNet2DConditionModel,
)
from transformers import CLIPTextConfig, CLIPTextModel

from viper_lab.recipes.text import train_tokenizer

SIDE = 32


def tiny_pipeline(folder: Path, channels: int = 9, latents: int = 4) -> Path:
    """Writes a pipeline that sees squares of ``SIDE`` pixels; returns its folder."""
    torch.manual_seed(0)
    tokenizer = train_tokenizer(["red metal cube", "blue rubber ball"], 40, max_length=8)
    text = CLIPTextModel(
        CLIPTextConfig(
            vocab_size=len(tokenizer),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=8,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=len(tokenizer) - 1,
        )
    )
    vae = AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        latent_channels=latents,
        sample_size=SIDE,
        mid_block_add_attention=False,
    )
    unet = UNet2DConditionModel(
        sample_size=SIDE // 2,
        in_channels=channels,
        out_channels=latents,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        block_out_channels=(8, 16),
        layers_per_block=1,
        cross_attention_dim=16,
        attention_head_dim=2,
        norm_num_groups=4,
    )
    pipeline = StableDiffusionInpaintPipeline(
        vae=vae,
        text_encoder=text,
        tokenizer=tokenizer,
        unet=unet,
        scheduler=DDIMScheduler(clip_sample=False, steps_offset=1),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    pipeline.save_pretrained(folder)
    return folder


def picture(height: int = 40, width: int = 70) -> np.ndarray:
    """Noise, uint8 [H, W, 3]."""
    return np.random.default_rng(1).integers(0, 256, (height, width, 3), dtype=np.uint8)
