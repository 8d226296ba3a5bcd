"""Memory of rows with a common beginning, which is kept and read once.

Prompts of one task share all but their last lines. With a cache each, decoding sixteen of them
reads (and copies, when a cache grows) the same keys and values sixteen times a token. For a small
model that costs more than its weights. Here the shared beginning is kept once. Each row keeps only
its own part, at its own length, so rows may get ahead of each other when guesses are right.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from viper.models.llm.engine.reading import Prefill
from viper.models.llm.prompt_tokens import common

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

# Number of tokens by which the memory of a row grows.
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
        import torch

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
                _, heads, _, width = (keys, values)[which].shape
                tail = keys.new_zeros(len(prefills), heads, self._room, width)
                for row, prefill in enumerate(prefills):
                    assert prefill.layers is not None
                    own = prefill.layers[number][which][0, :, self.shared :]
                    tail[row, :, : own.shape[1]] = own
                tails.append(tail)
            begin = keys[0, :, : self.shared], values[0, :, : self.shared]
            self.layers.append(_Layer(begin, (tails[0], tails[1])))
        self._torch = torch
        self.slots: Tensor | None = None
        self.bias: Tensor | None = None

    @contextmanager
    def reading(self, width: int) -> Iterator[Tensor]:
        """Prepare for ``width`` further tokens per row and yield their positions ``[rows, width]``.

        Tokens read here count only after :meth:`settle`; otherwise they are overwritten.
        """
        torch = self._torch
        device = self.layers[0].keys.device
        lengths = torch.tensor(self.lengths, device=device)
        positions = lengths[:, None] + torch.arange(width, device=device)
        self.slots = positions - self.shared
        end = max(self.lengths) - self.shared + width
        self._make_room(end)
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
            layer.keep(self._torch.tensor(rows, device=layer.keys.device))

    def _make_room(self, end: int) -> None:
        if end <= self._room:
            return
        more = -(-(end - self._room) // _CHUNK) * _CHUNK
        self._room += more
        for layer in self.layers:
            layer.grow(more)

    # The methods below are the cache interface of transformers models.

    def update(self, keys: Tensor, values: Tensor, layer: int, *_: Any) -> tuple[Tensor, Tensor]:
        """Store a layer's keys and values; return each row's own part up to now."""
        assert self.slots is not None and self.bias is not None
        return self.layers[layer].write(keys, values, self.slots, self.bias.shape[-1])

    def get_seq_length(self, layer: int = 0) -> int:
        """Return the shared length; transformers uses it only for defaults that callers here
        override.
        """
        return self.shared

    @property
    def is_compileable(self) -> bool:
        return False


class _Layer:
    """One layer: ``begin`` is ``[heads, P, width]``, each row's own part is
    ``[rows, heads, T, width]``, for keys and values each."""

    def __init__(self, begin: tuple[Tensor, Tensor], own: tuple[Tensor, Tensor]) -> None:
        self.begin = begin
        self.keys, self.values = own

    def write(self, keys: Tensor, values: Tensor, slots: Tensor, end: int) -> tuple[Tensor, Tensor]:
        for own, new in ((self.keys, keys), (self.values, values)):
            where = slots.to(own.device)[:, None, :, None]
            where = where.expand(-1, new.shape[1], -1, new.shape[3])
            own.scatter_(2, where, new.to(own.dtype))
        return self.keys[:, :, :end], self.values[:, :, :end]

    def keep(self, rows: Tensor) -> None:
        self.keys, self.values = self.keys[rows], self.values[rows]

    def grow(self, more: int) -> None:
        from torch.nn.functional import pad

        self.keys = pad(self.keys, (0, 0, 0, more))
        self.values = pad(self.values, (0, 0, 0, more))
