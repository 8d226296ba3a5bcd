"""Initial weights of the program writer: a stock Llama that can already copy and look back.

A small model needs more than a million tokens to learn to copy an unseen word, that is, to attend
to the token after the last occurrence of the current tokens. It needs more to tell a word of the
query from the same word in the API text. Here both circuits are in the initial weights; everything
is trained afterwards.

The residual stream starts as five blocks of equal width: the token; the token before it; the token
before that; a blend of some earlier ones; and its context. Layer 0 fills them. Three heads attend
by distance alone, through biases on the fast rotary dimensions. A fourth locates the last mark (the
start of a line, or the word that opens a query), so that every token knows the kind of its line. In
layer 1, two heads match those blocks on the slow rotary dimensions, shifted by one step. They point
to the token that followed the same context and copy it into the fourth block, which the output
layer reads. A third head collects the words of the latest query.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM


@dataclass(frozen=True)
class WriterShape:
    """Sizes of the writer. ``width`` is a multiple of 5; ``heads`` at least 4."""

    width: int = 160
    layers: int = 5
    heads: int = 5
    head_dim: int = 32
    inner: int = 320
    max_positions: int = 2048
    rope_theta: float = 1e8


@dataclass(frozen=True)
class LineTokens:
    """Ids of the tokens that start lines, and of the word that opens a query."""

    line_starts: tuple[int, ...] = ()
    query: int | None = None


# Logit gap of a distance head between its distance and the next, and of one matched token.
_DISTANCE_SHARPNESS = 8.0
_MATCH_LOGIT = 6.0
_COPY_LOGIT = 5.0
# Which earlier tokens the fourth block blends: centred here, falling off over some tokens.
_BLEND_CENTRE = 5.0
_BLEND_SHARPNESS = 0.25
# A mark's share of its token's norm, and what it adds to the logit of the mark head.
_MARK, _QUERY_MARK = 0.70, 0.75
_MARK_LOGIT = 150.0
# Rotary rate -> logit: the nearer a mark, the better (in layer 1: the latest query's words).
_NEAREST_MARK = {0.1: 20.0, 0.03: 100.0, 0.01: 50.0, 0.003: 30.0}
_LATEST_QUERY = {0.01: 5.0, 0.003: 10.0}
_QUERY_LOGIT = 12.0


def build_writer(
    vocab_size: int,
    pad: int,
    bos: int,
    eos: int,
    *,
    marks: LineTokens | None = None,
    seed: int = 0,
    shape: WriterShape | None = None,
) -> LlamaForCausalLM:
    """Build a ``LlamaForCausalLM`` with copying and looking back in its initial weights."""
    shape = shape or WriterShape()
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=shape.width,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        head_dim=shape.head_dim,
        max_position_embeddings=shape.max_positions,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta},
        attention_bias=True,
        tie_word_embeddings=False,
        initializer_range=0.03,
        pad_token_id=pad,
        bos_token_id=bos,
        eos_token_id=eos,
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        generator = torch.Generator().manual_seed(seed)
        _Builder(model, shape, marks or LineTokens(), generator).build()
    return model


class _Builder:
    """Writes the circuit into a new model."""

    def __init__(
        self,
        model: LlamaForCausalLM,
        shape: WriterShape,
        marks: LineTokens,
        generator: torch.Generator,
    ) -> None:
        self.model, self.shape, self.marks, self.generator = model, shape, marks, generator
        self.block = shape.width // 5
        pairs = shape.head_dim // 2
        self.rates = [shape.rope_theta ** (-i / pairs) for i in range(pairs)]
        self.slow = [i for i, rate in enumerate(self.rates) if rate < 1.5e-3]
        self.slow += [i + pairs for i in self.slow]

    def build(self) -> None:
        self._randomise()
        rotations = [self._rotation() for _ in range(3)]
        embedding = self._embedding()
        tokens = self.model.model.embed_tokens.weight
        tokens.mul_(0.1)
        tokens[:, : self.block] = embedding
        for head, (distance, rates) in enumerate(
            [(1.0, slice(0, 8)), (2.0, slice(0, 8)), (_BLEND_CENTRE, slice(3, 8))]
        ):
            sharpness = _DISTANCE_SHARPNESS if head < 2 else _BLEND_SHARPNESS
            self._distance_head(head, distance, rates, sharpness, rotations[head])
        for head, blend in enumerate((0.5, 1.0)):
            self._match_head(head, blend, rotations)
        if self.marks.query is not None:
            kind = self._mark_head(3)
            self._query_head(2, kind @ embedding[self.marks.query])
        output = self.model.lm_head.weight
        output.mul_(0.5)
        # The copied token has about the norm of every other block.
        scale = _COPY_LOGIT / (self.shape.width / 5) ** 0.5
        output[:, 3 * self.block : 4 * self.block] = embedding * scale

    def _randomise(self) -> None:
        depth = (2 * self.shape.layers) ** -0.5
        for name, parameter in self.model.named_parameters():
            if parameter.ndim > 1:
                parameter.copy_(self._normal(*parameter.shape) * 0.03)
            elif "norm" not in name:
                parameter.zero_()
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                parameter.mul_(depth)

    def _embedding(self) -> Tensor:
        """Return unit vectors; the last dimension separates marks from all other tokens."""
        embedding = self._normal(self.model.config.vocab_size, self.block)
        embedding[:, -1] = 0.0
        embedding /= embedding.norm(dim=1, keepdim=True)
        marked = dict.fromkeys(self.marks.line_starts, _MARK)
        if self.marks.query is not None:
            marked[self.marks.query] = _QUERY_MARK
        for token, share in marked.items():
            embedding[token] *= (1 - share**2) ** 0.5
            embedding[token, -1] = share
        return embedding

    def _mark_head(self, head: int) -> Tensor:
        """Build a head that attends to the nearest mark; return its code in the context block."""
        attention = self.model.model.layers[0].self_attn
        rows = self._quiet_head(attention, head)
        product = _MARK_LOGIT * self.shape.head_dim**0.5
        slowest = rows.start + self.shape.head_dim // 2 - 1
        weight = (product / (_MARK * self.shape.width**0.5)) ** 0.5
        attention.q_proj.bias[slowest] = weight
        attention.k_proj.weight[slowest, self.block - 1] = weight
        self._prefer_near(attention, rows, _NEAREST_MARK)
        kind = self._rotation()
        kind[:, -1] = 0.0
        self._copy(attention, rows, kind * self.shape.width**-0.5, self._blocks()[4])
        return kind

    def _query_head(self, head: int, query_kind: Tensor) -> None:
        """Build a head that collects tokens whose context is the latest query."""
        attention = self.model.model.layers[1].self_attn
        rows = self._quiet_head(attention, head)
        slowest = rows.start + self.shape.head_dim // 2 - 1
        norm = float(query_kind.norm())
        block_norm = (self.shape.width / 4.5) ** 0.5
        weight = (_QUERY_LOGIT * self.shape.head_dim**0.5 / (norm * block_norm)) ** 0.5
        attention.q_proj.bias[slowest] = weight
        attention.k_proj.weight[slowest, self._blocks()[4]] = weight * query_kind / norm
        self._prefer_near(attention, rows, _LATEST_QUERY)
        # A blend of some ten words is short; three times its length stands out.
        scale = 3 * (4.5 / self.shape.width) ** 0.5
        self._copy(attention, rows, self._rotation() * scale, self._blocks()[4])

    def _prefer_near(self, attention: Any, rows: slice, logits: Mapping[float, float]) -> None:
        """Set biases that lower a logit smoothly with distance, by the nearest available rates."""
        pairs = self.shape.head_dim // 2
        for rate, logit in logits.items():
            pair = min(range(pairs), key=lambda i: abs(math.log(self.rates[i] / rate)))
            amplitude = (logit * self.shape.head_dim**0.5) ** 0.5
            attention.q_proj.bias[rows.start + pair] = amplitude
            attention.k_proj.bias[rows.start + pair] = amplitude

    def _quiet_head(self, attention: Any, head: int) -> slice:
        """Shrink the head's random query and key weights and return its rows."""
        rows = self._rows(head)
        for projection in (attention.q_proj, attention.k_proj):
            projection.weight[rows] *= 0.05
        return rows

    def _blocks(self) -> list[slice]:
        return [slice(i * self.block, (i + 1) * self.block) for i in range(5)]

    def _distance_head(
        self, head: int, distance: float, rates: slice, sharpness: float, rotation: Tensor
    ) -> None:
        """Build a head that attends ``distance`` tokens back and copies the token to its block."""
        attention = self.model.model.layers[0].self_attn
        rows = self._quiet_head(attention, head)
        pairs = self.shape.head_dim // 2
        indices = range(pairs)[rates]
        gap = sum(1 - math.cos(self.rates[i]) for i in indices)
        amplitude = (sharpness * self.shape.head_dim**0.5 / gap) ** 0.5
        for i in indices:
            angle = self.rates[i] * distance
            attention.q_proj.bias[rows.start + i] = amplitude
            attention.k_proj.bias[rows.start + i] = amplitude * math.cos(angle)
            attention.k_proj.bias[rows.start + i + pairs] = amplitude * math.sin(angle)
        # After the norm a lone token block has norm sqrt(width); the copy must have norm 1.
        scale = self.shape.width**-0.5
        self._copy(attention, rows, rotation * scale, self._blocks()[head + 1])

    def _match_head(self, head: int, blend: float, rotations: list[Tensor]) -> None:
        """Build a head that matches recent tokens one step earlier and copies the next token."""
        attention = self.model.model.layers[1].self_attn
        rows = self._quiet_head(attention, head)
        query, key = attention.q_proj.weight, attention.k_proj.weight
        slow = [rows.start + i for i in self.slow]
        # About 4.5 blocks of equal norm make up the normalised input.
        block_norm = self.shape.width / 4.5
        share = min(1.0, len(slow) / self.block)
        gain = (_MATCH_LOGIT * self.shape.head_dim**0.5 / (block_norm * share)) ** 0.5
        token, previous, blend_of = (self._projection(len(slow)) * gain for _ in range(3))
        first, second, third = (rotation.T for rotation in rotations)
        here, before, earlier, blended, _ = self._blocks()
        query[slow, here] += token
        query[slow, before] += previous @ first
        query[slow, blended] += blend * blend_of @ third
        key[slow, before] += token @ first
        key[slow, earlier] += previous @ second
        key[slow, blended] += blend * blend_of @ third
        scale = (4.5 / self.shape.width) ** 0.5 / 2
        self._copy(attention, rows, self._eye() * scale, blended)

    def _copy(self, attention: Any, rows: slice, matrix: Tensor, target: slice) -> None:
        """Set value and output projections that carry the token block through ``matrix``."""
        inner = slice(rows.start, rows.start + self.block)
        value, output = attention.v_proj.weight, attention.o_proj.weight
        value[rows] = 0.0
        output[:, rows] *= 0.05
        value[inner, : self.block] = self._eye()
        output[target, inner] = matrix

    def _rows(self, head: int) -> slice:
        return slice(head * self.shape.head_dim, (head + 1) * self.shape.head_dim)

    def _normal(self, *size: int) -> Tensor:

        return torch.randn(*size, generator=self.generator)

    def _eye(self) -> Tensor:

        return torch.eye(self.block)

    def _rotation(self) -> Tensor:
        """Return a random orthogonal matrix of the block's width."""
        return torch.linalg.qr(self._normal(self.block, self.block))[0]

    def _projection(self, rows: int) -> Tensor:
        """Return ``rows`` random orthonormal directions of a block (all of it if it fits)."""
        rotation = self._rotation()
        if rows <= self.block:
            return rotation[:rows]

        return torch.cat([rotation, torch.zeros(rows - self.block, self.block)])
