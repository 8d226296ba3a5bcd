"""The embedded inpainter's parts: a small latent diffusion of stock diffusers classes.

The detector's trained text tower reads the prompts. It tells the words of the world apart, and it
is the same transformer as CLIP's, so its weights are copied and trained further.
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_CONFIG: Mapping[str, Any] = tomllib.loads(
    Path(__file__).with_name("inpainter.toml").read_text("utf-8")
)


@dataclass(frozen=True)
class InpainterShape:
    """Sizes of the autoencoder and the denoiser.

    Attributes:
        side: pixels of the model's input square.
        autoencoder_widths: channels at ``side``, half of it, and so on; the last are those at the
            latents' resolution.
        latent_channels: of the latents.
        unet_widths: channels at the latents' resolution, half of it, and so on; from the second on
            they attend to the prompt.
        heads: of each attention.
        groups: of each group norm.
    """

    side: int = 64
    autoencoder_widths: tuple[int, ...] = (16, 32, 64)
    latent_channels: int = 6
    unet_widths: tuple[int, ...] = (64, 96, 112)
    heads: int = 4
    groups: int = 8

    @property
    def latent_side(self) -> int:
        """Return the number of cells along a side of the latents."""
        return self.side // 2 ** (len(self.autoencoder_widths) - 1)


def build_autoencoder(shape: InpainterShape) -> Any:
    """Build an untrained ``AutoencoderKL``."""
    from diffusers import AutoencoderKL

    levels = len(shape.autoencoder_widths)
    make: Any = AutoencoderKL
    return make(
        down_block_types=("DownEncoderBlock2D",) * levels,
        up_block_types=("UpDecoderBlock2D",) * levels,
        block_out_channels=shape.autoencoder_widths,
        latent_channels=shape.latent_channels,
        norm_num_groups=shape.groups,
        sample_size=shape.side,
        **_CONFIG["autoencoder"],
    ).to(memory_format=torch.channels_last)


def build_unet(shape: InpainterShape, text_width: int) -> Any:
    """Build an untrained ``UNet2DConditionModel`` with the mask and the unmasked rest as inputs."""
    from diffusers import UNet2DConditionModel

    attending = len(shape.unet_widths) - 1
    make: Any = UNet2DConditionModel
    unet = make(
        sample_size=shape.latent_side,
        in_channels=2 * shape.latent_channels + 1,
        out_channels=shape.latent_channels,
        down_block_types=("DownBlock2D",) + ("CrossAttnDownBlock2D",) * attending,
        up_block_types=("CrossAttnUpBlock2D",) * attending + ("UpBlock2D",),
        block_out_channels=shape.unet_widths,
        layers_per_block=1,
        cross_attention_dim=text_width,
        attention_head_dim=shape.heads,
        norm_num_groups=shape.groups,
    )
    # Zero is the best first guess; the stock weights start with three times the error.
    torch.nn.init.zeros_(unet.conv_out.weight)
    return unet.to(memory_format=torch.channels_last)


def build_scheduler() -> Any:
    """Build a velocity scheduler that ends at pure noise, so that inference starts as training did.

    Source: Lin et al. 2024, Common Diffusion Noise Schedules and Sample Steps are Flawed.
    """
    from diffusers import DDIMScheduler

    return DDIMScheduler(**_CONFIG["scheduler"])


def text_side(detector: Path) -> tuple[Any, Any]:
    """Build a ``CLIPTextModel`` with the weights of a detector's text tower, and its tokenizer."""
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer, Owlv2ForObjectDetection

    model: Any = Owlv2ForObjectDetection.from_pretrained(detector, dtype=torch.float32)
    tower = model.owlv2.text_model
    make_config: Any = CLIPTextConfig
    encoder = CLIPTextModel(
        make_config(**{name: getattr(tower.config, name) for name in _CONFIG["text_sizes"]})
    )
    encoder.load_state_dict(tower.state_dict())
    return encoder, CLIPTokenizer.from_pretrained(detector)


@torch.no_grad()
def whiten_latents(autoencoder: Any, images: Tensor) -> None:
    """Give each latent channel mean 0 and spread 1 without changing the decoded pictures.

    The pipeline has one factor for all channels and no mean, so both are folded into the 1x1
    convolutions before and after the latents.

    Args:
        autoencoder: trained; changed in place.
        images: float [N, 3, S, S] in [-1, 1], to measure on.
    """
    latents = autoencoder.encode(images).latent_dist.mean
    mean, spread = latents.mean(dim=(0, 2, 3)), latents.std(dim=(0, 2, 3))
    before, after = autoencoder.quant_conv, autoencoder.post_quant_conv
    channels = len(mean)
    before.weight[:channels] /= spread[:, None, None, None]
    before.bias[:channels] = (before.bias[:channels] - mean) / spread
    before.bias[channels:] -= 2 * spread.log()
    after.bias += after.weight[:, :, 0, 0] @ mean
    after.weight *= spread[None, :, None, None]


def save(autoencoder: Any, unet: Any, text_encoder: Any, tokenizer: Any, folder: Path) -> None:
    """Write a ``StableDiffusionInpaintPipeline`` without safety checker, in half precision."""
    from diffusers import StableDiffusionInpaintPipeline

    vae, unet, text_encoder = (
        copy.deepcopy(part).cpu().half().to(memory_format=torch.contiguous_format)
        for part in (autoencoder, unet, text_encoder)
    )
    make: Any = StableDiffusionInpaintPipeline
    pipeline = make(
        vae=vae,
        text_encoder=text_encoder,
        tokenizer=tokenizer,
        unet=unet,
        scheduler=build_scheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    pipeline.save_pretrained(folder)
    for weights in folder.rglob("*.safetensors"):
        weights.chmod(0o644)
