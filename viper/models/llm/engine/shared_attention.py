"""A model's forward pass with attention over a shared beginning and each row's own rest.

The shared beginning is one matrix product for all rows (``engine.shared_prefix`` keeps
it). Models that let their attention be replaced take part; :func:`agrees` says which.

Source: the split of attention into a shared and an own part is that of Hydragen
(Juravsky et al. 2024) and of cascade inference (Ye et al. 2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from viper.models.llm.engine.reading import Prefill, snapshot
from viper.models.llm.engine.shared_prefix import Rows

if TYPE_CHECKING:
    from torch import Tensor

ATTENTION = "viper_shared_prefix"
"""Name under which the attention of this module is known to ``transformers``."""

_TOLERANCE = 4.0
"""How far logits may be from the model's own, in their spread times the root of its precision."""

_HARMLESS = frozenset({"dropout", "is_causal", "output_attentions", "position_ids", "use_cache"})
"""What models hand to their attention that does not change it here."""

_PROBE = (14, 20)
"""Tokens of the two texts by which a model is checked."""

_PROBE_SHARED = 9
"""How many of them are the same in both."""


def forward(model: Any, rows: Rows, tokens: Sequence[Sequence[int]]) -> Tensor:
    """Logits ``float32 [rows, width, vocabulary]`` after each of the next tokens of every row.

    Args:
        model: a causal language model for which :func:`agrees`.
        rows: what was read before; call :meth:`Rows.settle` afterwards.
        tokens: as many for each row.
    """
    import torch

    ids = torch.tensor(tokens, device=model.device)
    config = model.config
    before = config._attn_implementation
    config._attn_implementation = _registered()
    try:
        with rows.reading(ids.shape[1]) as positions:
            output = model(
                input_ids=ids,
                past_key_values=rows,
                position_ids=positions,
                use_cache=True,
                shared_prefix=rows,
            )
    finally:
        config._attn_implementation = before
    logits: Tensor = output.logits.float()
    return logits


def agrees(model: Any, max_context: int) -> bool:
    """Whether a model's own attention is plain enough to be replaced by this module's.

    Two texts that begin alike are read on in two passes, with guesses that are taken back;
    all logits must be those that the model gives itself, to its precision.

    Args:
        model: any causal language model; it makes four small passes.
        max_context: tokens it can hold.
    """
    import torch

    if max(_PROBE) > max_context:
        return False
    vocabulary = int(model.config.get_text_config().vocab_size)
    draw = torch.Generator().manual_seed(0)
    one, two = (torch.randint(vocabulary, (size,), generator=draw).tolist() for size in _PROBE)
    two[:_PROBE_SHARED] = one[:_PROBE_SHARED]
    own, prefills = [], []
    for ids in (one, two):
        output = model(input_ids=torch.tensor([ids], device=model.device), use_cache=True)
        layers = snapshot(getattr(output, "past_key_values", None))
        if layers is None:
            return False
        own.append(output.logits[0].float())
        known = len(ids) - 4
        prefills.append(
            Prefill(ids[:known], [(k[:, :, :known], v[:, :, :known]) for k, v in layers], own[-1])
        )
    rows = Rows(prefills, max_context)
    try:
        first = forward(model, rows, [[one[-4], one[0], one[1]], two[-4:-1]])
        rows.settle([len(one) - 3, len(two) - 1])
        second = forward(model, rows, [one[-3:], two[-1:] * 3])
    except Exception:  # noqa: BLE001 (boundary: any family of models, met by its own code)
        return False
    wanted = torch.cat([own[0][-4:], own[1][-4:]])
    found = torch.cat([first[0, :1], second[0], first[1], second[1, :1]])
    spread = max(1e-6, float(wanted.std()))
    apart = float((found - wanted).abs().max()) / spread
    return apart <= _TOLERANCE * float(torch.finfo(model.dtype).eps) ** 0.5


def _registered() -> str:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    if ATTENTION not in ALL_ATTENTION_FUNCTIONS:
        ALL_ATTENTION_FUNCTIONS.register(ATTENTION, _attend)
    return ATTENTION


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    shared_prefix: Rows,
    scaling: float | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """Attention of ``query [R, heads, Q, D]`` over the shared beginning and each row's own part.

    Scores are compared and summed up in single precision whatever the model's is.

    Raises:
        NotImplementedError: the model wants something of its attention that is not done here.
    """
    import torch

    asked = [name for name, wish in more.items() if wish is not None and name not in _HARMLESS]
    if asked:
        raise NotImplementedError(f"attention with {', '.join(asked)}")
    begin_keys, begin_values = shared_prefix.layers[module.layer_idx].begin
    assert shared_prefix.bias is not None
    bias = shared_prefix.bias.to(query.device)
    rows, heads, width, depth = query.shape
    kv_heads = key.shape[1]
    if not shared_prefix.shared:
        alone = torch.nn.functional.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=bias[:, :, 0].to(query.dtype),
            scale=scaling,
            enable_gqa=heads != kv_heads,
        )
        return alone.transpose(1, 2).contiguous(), None
    per = heads // kv_heads
    scale = depth**-0.5 if scaling is None else scaling
    grouped = (query * scale).reshape(rows, kv_heads, per * width, depth)
    # One product for all rows over the beginning: (kv, rows * per * Q, P).
    flat = grouped.transpose(0, 1).reshape(kv_heads, rows * per * width, depth)
    shared = torch.matmul(flat, begin_keys.transpose(1, 2)).float()
    own = torch.matmul(grouped, key.transpose(2, 3)).float()  # (rows, kv, per * Q, T)
    own = (own.view(rows, kv_heads, per, width, -1) + bias).flatten(2, 3)

    def by_row(found: Tensor) -> Tensor:
        return found.view(kv_heads, rows, per * width, -1).transpose(0, 1)

    def together(found: Tensor) -> Tensor:
        return found.transpose(0, 1).reshape(kv_heads, rows * per * width, -1)

    top = own.amax(-1, keepdim=True)
    if shared.shape[-1]:
        top = torch.maximum(top, by_row(shared.amax(-1, keepdim=True)))
    own.sub_(top).exp_()
    shared.sub_(together(top)).exp_()
    total = own.sum(-1, keepdim=True) + by_row(shared.sum(-1, keepdim=True))
    if value.dtype is torch.float16:
        # Its largest number is small: weights are made to add up to 1 before they are used.
        own, shared, total = own / total, shared / together(total), torch.ones_like(total)
    mixed = by_row(torch.matmul(shared.to(value.dtype), begin_values)).float()
    mixed = torch.matmul(own.to(value.dtype), value).float() + mixed
    result = (mixed / total).to(query.dtype).reshape(rows, heads, width, -1)
    return result.transpose(1, 2).contiguous(), None
