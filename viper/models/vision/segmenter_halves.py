"""Segmentation networks in two halves: what sees the picture, and what asks about it.

The first half (backbone and pixel decoder) is the expensive one and knows no question; its
result is kept as an encoding. The second (transformer decoder and heads) turns that into
segments. What a network is taught (``vision.taught_segmenter``) is read from the backbone's
feature maps. Where nothing was taught both halves call the library's own modules, so what was
there stays as it was, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class QueryLogits:
    """What queries say, under the names by which image processors of the library read it.

    Attributes:
        class_queries_logits: float [1, Q, L + 1]; the last class stands for no segment.
        masks_queries_logits: float [1, Q, h, w].
    """

    class_queries_logits: Tensor
    masks_queries_logits: Tensor


@dataclass(frozen=True)
class Halves:
    """A family's network in two halves.

    Attributes:
        look: (network, pixels float [B, 3, H, W]) to what is kept of a picture.
        ask: (network, what was kept) to what the queries say.
        maps: what was kept to the pixels as the network takes them and the backbone's feature
            maps, float [B, C, h, w] each, the finest first; None: the family cannot be taught.
    """

    look: Callable[[Any, Tensor], Any]
    ask: Callable[[Any, Any], QueryLogits]
    maps: Callable[[Any], tuple[Tensor, ...]] | None = None


def _look_maskformer(model: Any, pixels: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
    """Pixels and the backbone's maps, the last the decoder's memory; each pixel's embedding."""
    seen = model.model.pixel_level_module(pixels, output_hidden_states=True)
    return (pixels, *seen.encoder_hidden_states), seen.decoder_last_hidden_state


def _ask_maskformer(model: Any, kept: tuple[tuple[Tensor, ...], Tensor]) -> QueryLogits:
    import torch

    maps, embeddings = kept
    states = model.model.transformer_module(maps[-1]).last_hidden_state  # (1, Q, D)
    masks = torch.einsum("bqc,bchw->bqhw", model.mask_embedder(states), embeddings)
    return QueryLogits(model.class_predictor(states), masks)


def _look_mask2former(model: Any, pixels: Tensor) -> tuple[Any, Tensor, tuple[Tensor, ...]]:
    """The decoder's memory at three scales, each pixel's embedding, pixels and backbone's maps."""
    seen = model.model.pixel_level_module(pixel_values=pixels, output_hidden_states=True)
    maps = (pixels, *seen.encoder_hidden_states)
    return seen.decoder_hidden_states, seen.decoder_last_hidden_state, maps


def _ask_mask2former(model: Any, kept: tuple[Any, Tensor, tuple[Tensor, ...]]) -> QueryLogits:
    scales, embeddings, _ = kept
    said = model.model.transformer_module(
        multi_scale_features=scales, mask_features=embeddings, output_hidden_states=True
    )
    states = said.intermediate_hidden_states[-1].transpose(0, 1)  # (1, Q, D)
    return QueryLogits(model.class_predictor(states), said.masks_queries_logits[-1])


def _look_whole(model: Any, pixels: Tensor) -> Any:
    """Everything at once: its queries see the picture together with the backbone."""
    return model(pixel_values=pixels)


def _ask_whole(model: Any, kept: Any) -> QueryLogits:
    return QueryLogits(kept.class_queries_logits, kept.masks_queries_logits)


FAMILIES: Mapping[str, Halves] = MappingProxyType(
    {
        "maskformer": Halves(_look_maskformer, _ask_maskformer, lambda kept: kept[0]),
        "mask2former": Halves(_look_mask2former, _ask_mask2former, lambda kept: kept[2]),
        "eomt": Halves(_look_whole, _ask_whole),
        "eomt_dinov3": Halves(_look_whole, _ask_whole),
    }
)
"""``model_type`` of a checkpoint to its halves."""
