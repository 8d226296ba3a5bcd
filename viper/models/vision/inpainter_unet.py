"""Inpainting UNets of latents of any width, in a pipeline that knows one of four channels.

An inpainting UNet sees the noisy latents, the mask and the latents of what is left of the picture:
twice as many channels as the latents have, and one. The stock pipeline joins the three for nine
channels, and takes another UNet for one that sees noisy latents alone.
"""

from __future__ import annotations

from typing import Any

from viper.errors import ModelError

_STOCK_CHANNELS, _PLAIN_CHANNELS = 9, 4
"""Of UNets that the pipeline gives mask and picture to, and of those that it gives neither."""


def for_inpainting(name: str, pipeline: Any) -> Any:
    """The pipeline, able to use its UNet.

    Raises:
        ModelError: the UNet is none for inpainting.
    """
    channels = int(pipeline.unet.config.in_channels)
    expected = 2 * int(pipeline.vae.config.latent_channels) + 1
    if channels != expected:
        raise ModelError(
            f"{name}: its UNet takes {channels} channels, one for inpainting {expected}; "
            "give a checkpoint made for inpainting"
        )
    if channels != _STOCK_CHANNELS:
        _join_beside(pipeline, channels)
    return pipeline


def _join_beside(pipeline: Any, channels: int) -> None:
    """Lets the pipeline take its UNet for one of noisy latents; the rest is joined on the way in.

    So the latents of what is not masked are also set right after every step, as the pipeline does
    for such a UNet.
    """
    import torch

    unet, prepare = pipeline.unet, pipeline.prepare_mask_latents
    beside: list[Any] = []

    def prepared(*given: Any, **named: Any) -> tuple[Any, Any]:
        mask, left = prepare(*given, **named)
        beside[:] = [mask, left]
        return mask, left

    def joined(_module: Any, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        noisy, *others = given
        if noisy.shape[1] == channels:
            return None  # training joins them itself
        return (torch.cat([noisy, *beside], dim=1), *others), named

    unet.register_to_config(in_channels=_PLAIN_CHANNELS)
    pipeline.prepare_mask_latents = prepared
    unet.register_forward_pre_hook(joined, with_kwargs=True)
