"""Decoding of rows with a common beginning, which is kept and read once.

Prompts of one task share all but their last lines. With a cache each, decoding sixteen of them
reads (and copies, when a cache grows) the same keys and values sixteen times a token. For a small
model that costs more than its weights. Here :class:`Rows` keeps the shared beginning once. Each row
keeps only its own part, at its own length, so rows may get ahead of each other when guesses are
right. :func:`forward` runs the model with this module's attention (:func:`_attend`), in which the
beginning is one matrix product for all rows. This works for models with replaceable attention;
:func:`agrees` checks a model.

Source: the split of attention into a shared and an own part is that of Hydragen
(Juravsky et al. 2024) and of cascade inference (Ye et al. 2024).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from viper.models.libraries import Tensor, functional, torch
from viper.models.llm.engine.reading import Prefill, snapshot
from viper.models.llm.prompt_tokens import common

# Name of this module's attention in ``transformers``.
ATTENTION = "viper_shared_prefix"

# Largest allowed error of logits, in units of their spread times the root of the precision: sums in
# another order differ by less, another attention by far more.
_TOLERANCE = 4.0

# Arguments of attention that make no difference here.
_HARMLESS = frozenset({"dropout", "is_causal", "output_attentions", "position_ids", "use_cache"})

# Lengths in tokens of the two texts that check a model; unequal, as rows of a batch are.
_PROBE = (14, 20)

# Number of first tokens that both texts share: some, and not all of either.
_PROBE_SHARED = 9

# Tokens by which the memory of a row grows: a copy every 64 tokens costs little, and a short
# program wastes little.
_CHUNK = 64


class Rows:
    """Keys and values of rows: a shared beginning, and each row's own rest.

    It acts as a ``transformers`` cache for one model call after another.

    Args:
        prefills: each row's prompt as it was read, with plain keys and values.
        max_context: tokens the model can hold.

    Attributes:
        shared: tokens of the common beginning; 0 for a single row.
        lengths: tokens of each row in memory, the beginning included.
    """

    def __init__(self, prefills: Sequence[Prefill], max_context: int) -> None:
        first = prefills[0]
        self.shared = 0
        if len(prefills) > 1:  # a row alone shares nothing
            self.shared = min(common(first.ids, prefill.ids) for prefill in prefills)
        self.lengths = [len(prefill.ids) for prefill in prefills]
        self._last_position = max_context - 1
        self._room = max(self.lengths) - self.shared + _CHUNK
        self.layers: list[_Layer] = []
        for number, (keys, values) in enumerate(first.layers or ()):
            tails = []
            for which in (0, 1):
                rows = [(prefill.layers or ())[number][which] for prefill in prefills]
                own = [row[:, :, self.shared :] for row in rows]
                room = [(0, 0, 0, self._room - row.shape[2]) for row in own]
                tails.append(torch.cat(list(map(functional.pad, own, room))))
            begin = keys[0, :, : self.shared], values[0, :, : self.shared]
            self.layers.append(_Layer(begin, *tails))
        self.slots: Tensor | None = None
        self.bias: Tensor | None = None

    @contextmanager
    def reading(self, width: int) -> Iterator[Tensor]:
        """Prepare for ``width`` further tokens per row and yield their positions ``[rows, width]``.

        Tokens read here count only after :meth:`settle`; otherwise they are overwritten.
        """
        device = self.layers[0].keys.device
        lengths = torch.tensor(self.lengths, device=device)
        positions = lengths[:, None] + torch.arange(width, device=device)
        self.slots = positions - self.shared
        end = max(self.lengths) - self.shared + width
        if end > self._room:
            more = -(-(end - self._room) // _CHUNK) * _CHUNK
            self._room += more
            for layer in self.layers:
                layer.keys = functional.pad(layer.keys, (0, 0, 0, more))
                layer.values = functional.pad(layer.values, (0, 0, 0, more))
        visible = torch.arange(end, device=device) <= self.slots[:, :, None]  # (R, Q, T)
        zero = torch.zeros((), dtype=torch.float32, device=device)
        self.bias = torch.where(visible, zero, float("-inf"))[:, None, None]
        try:
            # Rows padded to the width of others may exceed the context; nobody reads that.
            yield positions.clamp(max=self._last_position)
        finally:
            self.slots = self.bias = None

    def settle(self, lengths: Sequence[int]) -> None:
        """Set how many tokens of each row are valid now."""
        self.lengths = list(lengths)

    def keep(self, rows: Sequence[int]) -> None:
        """Continue with these rows only."""
        self.lengths = [self.lengths[row] for row in rows]
        for layer in self.layers:
            which = torch.tensor(rows, device=layer.keys.device)
            layer.keys, layer.values = layer.keys[which], layer.values[which]

    # The methods below are the cache interface of transformers models.

    def update(self, keys: Tensor, values: Tensor, layer: int, *_: Any) -> tuple[Tensor, Tensor]:
        """Store a layer's keys and values; return each row's own part up to now."""
        assert self.slots is not None and self.bias is not None
        own, end = self.layers[layer], self.bias.shape[-1]
        for memory, new in ((own.keys, keys), (own.values, values)):
            where = self.slots.to(memory.device)[:, None, :, None]
            where = where.expand(-1, new.shape[1], -1, new.shape[3])
            memory.scatter_(2, where, new.to(memory.dtype))
        return own.keys[:, :, :end], own.values[:, :, :end]

    def get_seq_length(self, layer: int = 0) -> int:
        """Return the shared length; transformers uses it only for defaults that callers here
        override.
        """
        return self.shared

    @property
    def is_compileable(self) -> bool:
        return False


@dataclass
class _Layer:
    """One layer: ``begin`` is ``[heads, P, width]`` for keys and values each; each row's own
    ``keys`` and ``values`` are ``[rows, heads, T, width]``.
    """

    begin: tuple[Tensor, Tensor]
    keys: Tensor
    values: Tensor


def forward(model: Any, rows: Rows, tokens: Sequence[Sequence[int]]) -> Tensor:
    """Return logits ``float32 [rows, width, vocabulary]`` after each of the next tokens of every
    row.

    Args:
        model: a causal language model for which :func:`agrees` is True.
        rows: the rows read so far; call :meth:`Rows.settle` afterwards.
        tokens: equally many for each row.
    """
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    if ATTENTION not in ALL_ATTENTION_FUNCTIONS:
        ALL_ATTENTION_FUNCTIONS.register(ATTENTION, _attend)
    ids = torch.tensor(tokens, device=model.device)
    config = model.config
    before = config._attn_implementation
    config._attn_implementation = ATTENTION
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
    return output.logits.float()


def agrees(model: Any, max_context: int) -> bool:
    """Check that a model's own attention can be replaced by this module's.

    The model reads two texts with the same beginning in two passes, with guesses that are dropped.
    All logits must equal those of the model itself, to its precision.

    Args:
        model: any causal language model; it makes four small passes.
        max_context: tokens it can hold.
    """
    if max(_PROBE) > max_context:
        return False
    vocabulary = int(model.config.get_text_config().vocab_size)
    draw = torch.Generator().manual_seed(0)
    left, right = (torch.randint(vocabulary, (size,), generator=draw).tolist() for size in _PROBE)
    right[:_PROBE_SHARED] = left[:_PROBE_SHARED]
    own, prefills = [], []
    for ids in (left, right):
        output = model(input_ids=torch.tensor([ids], device=model.device), use_cache=True)
        layers = snapshot(getattr(output, "past_key_values", None))
        if layers is None:
            return False
        own.append(output.logits[0].float())
        length = len(ids) - 4
        read = [(k[:, :, :length], v[:, :, :length]) for k, v in layers]
        prefills.append(Prefill(ids[:length], read, own[-1]))
    rows = Rows(prefills, max_context)
    try:
        first = forward(model, rows, [[left[-4], left[0], left[1]], right[-4:-1]])
        rows.settle([len(left) - 3, len(right) - 1])
        second = forward(model, rows, [left[-3:], right[-1:] * 3])
    except Exception:  # noqa: BLE001 (boundary: any family of models, met by its own code)
        return False
    expected = torch.cat([own[0][-4:], own[1][-4:]])
    actual = torch.cat([first[0, :1], second[0], first[1], second[1, :1]])
    spread = max(1e-6, float(expected.std()))
    apart = float((actual - expected).abs().max()) / spread
    return apart <= _TOLERANCE * float(torch.finfo(model.dtype).eps) ** 0.5


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
    """Return the attention of ``query [R, heads, Q, D]`` over the shared beginning and each row's
    part.

    Scores are compared and summed in single precision, whatever the model's precision is.

    Raises:
        NotImplementedError: the model uses an option of attention that is not supported here.
    """
    wishes = {name for name, wish in more.items() if wish is not None}
    if unsupported := sorted(wishes - _HARMLESS):
        raise NotImplementedError(f"attention with {', '.join(unsupported)}")
    begin_keys, begin_values = shared_prefix.layers[module.layer_idx].begin
    assert shared_prefix.bias is not None
    bias = shared_prefix.bias.to(query.device)
    rows, heads, width, depth = query.shape
    kv_heads = key.shape[1]
    if not shared_prefix.shared:
        alone = functional.scaled_dot_product_attention(
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

    def by_row(values: Tensor) -> Tensor:
        return values.view(kv_heads, rows, per * width, -1).transpose(0, 1)

    def together(values: Tensor) -> Tensor:
        return values.transpose(0, 1).reshape(kv_heads, rows * per * width, -1)

    top = own.amax(-1, keepdim=True)
    if shared.shape[-1]:
        top = torch.maximum(top, by_row(shared.amax(-1, keepdim=True)))
    own.sub_(top).exp_()
    shared.sub_(together(top)).exp_()
    total = own.sum(-1, keepdim=True) + by_row(shared.sum(-1, keepdim=True))
    if value.dtype is torch.float16:
        # Its largest number is small, so normalise the weights to sum 1 before use.
        own, shared, total = own / total, shared / together(total), torch.ones_like(total)
    mixed = by_row(torch.matmul(shared.to(value.dtype), begin_values)).float()
    mixed = torch.matmul(own.to(value.dtype), value).float() + mixed
    result = (mixed / total).to(query.dtype).reshape(rows, heads, width, -1)
    return result.transpose(1, 2).contiguous(), None
