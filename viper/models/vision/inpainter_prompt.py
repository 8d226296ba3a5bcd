"""From a prompt to the vectors that an inpainting model's cross-attention reads.

Training and use go through :func:`encode_prompts`. It is also where a learned soft
prompt belongs (textual inversion): the rows of the token embedding that stand for a
concept's words are replaced by the learned vector before the text encoder runs, and
nothing else of the model changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

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
