"""Segmentation networks in two halves: what sees the picture, and what asks about it.

The first half (backbone and pixel decoder) is the expensive one and knows no question; its
result is kept as an encoding. The second (transformer decoder and heads) turns that into
segments, and is where a network can be taught. A learned soft prompt belongs into
``_ask_maskformer`` and ``_ask_mask2former``: vectors of the decoder's width put before its memory
(with a zero position) or before its queries (their outputs dropped again), and the memory's mean
is the feature of the picture by which prompts are found again. Without a prompt both call the
library's own module, so what was there stays as it was, bit for bit.

Source: Gao et al. 2024 (CLOVA), supplement sec. 8.3: 100 vectors, learned by the mask loss alone.
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
        look: (network, pixels float [1, 3, H, W]) to what is kept of a picture.
        ask: (network, what was kept) to what the queries say.
    """

    look: Callable[[Any, Tensor], Any]
    ask: Callable[[Any, Any], QueryLogits]


def _look_maskformer(model: Any, pixels: Tensor) -> tuple[Tensor, Tensor]:
    """The decoder's memory [1, C, h, w] and an embedding of each pixel [1, E, H / 4, W / 4]."""
    seen = model.model.pixel_level_module(pixels)
    return seen.encoder_last_hidden_state, seen.decoder_last_hidden_state


def _ask_maskformer(model: Any, kept: tuple[Tensor, Tensor]) -> QueryLogits:
    import torch

    memory, embeddings = kept
    states = model.model.transformer_module(memory).last_hidden_state  # (1, Q, D)
    masks = torch.einsum("bqc,bchw->bqhw", model.mask_embedder(states), embeddings)
    return QueryLogits(model.class_predictor(states), masks)


def _look_mask2former(model: Any, pixels: Tensor) -> tuple[Any, Tensor]:
    """The decoder's memory at three scales and an embedding of each pixel."""
    seen = model.model.pixel_level_module(pixel_values=pixels, output_hidden_states=False)
    return seen.decoder_hidden_states, seen.decoder_last_hidden_state


def _ask_mask2former(model: Any, kept: tuple[Any, Tensor]) -> QueryLogits:
    scales, embeddings = kept
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
        "maskformer": Halves(_look_maskformer, _ask_maskformer),
        "mask2former": Halves(_look_mask2former, _ask_mask2former),
        "eomt": Halves(_look_whole, _ask_whole),
        "eomt_dinov3": Halves(_look_whole, _ask_whole),
    }
)
"""``model_type`` of a checkpoint to its halves."""
