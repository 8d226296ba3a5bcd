"""Adapter of an open_clip model: how soft prompts enter it, differentiably.

A prompt is one array ``[N, W]``. Its last row is added to the embedding of a text. The others
enter the image tower at its first three layers:

- a Vision Transformer (CLIP's own, or timm's as in SigLIP): 100 rows per layer, additional tokens
  that follow the layer's own and are removed after it, so each layer has separate ones;
- a ResNet (CLIP's own, or timm's): one row per stage, added at every position of its output.

``W`` is the width of the widest of these places. A narrower place uses the first columns of a row
and ignores the rest.

Source: CLOVA (Gao et al. 2024), supplement, sec. 8.4; Jia et al. 2022, "Visual Prompt Tuning",
deep. Differs: a ResNet has no tokens, so it gets a vector per stage. The text has a row, because
the embedding of a word that the model never read means nothing. The gain of each is in
:mod:`viper.tuning.soft_prompts.match`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from viper.errors import UsageError
from viper.models.libraries import Tensor, torch

# Number of layers or stages of the image tower that a prompt enters, and of tokens per layer of a
# Vision Transformer: those of CLOVA's supplement, sec. 8.4. Stored prompts have these sizes.
LAYERS = 3
TOKENS = 100


@dataclass(frozen=True)
class Places:
    """Places where a prompt enters a model.

    Attributes:
        layers: of the image tower.
        widths: of each of them.
        rows: of the prompt for each of them.
        tokens: True if these rows are tokens; otherwise they are added.
        text_width: D of the embeddings.
        batch_first: True if a layer takes ``[B, L, W]``; otherwise ``[L, B, W]``.
    """

    layers: tuple[Any, ...]
    widths: tuple[int, ...]
    rows: int
    tokens: bool
    text_width: int
    batch_first: bool = True

    @property
    def shape(self) -> tuple[int, int]:
        """Return N and W of a prompt."""
        return len(self.layers) * self.rows + 1, max(*self.widths, self.text_width)

    def used(self) -> Tensor:
        """Return the mask of the used numbers of a prompt, bool ``[N, W]``."""
        rows = [width for width in self.widths for _ in range(self.rows)]
        bounds = torch.tensor([*rows, self.text_width])
        return torch.arange(self.shape[1])[None] < bounds[:, None]

    @contextmanager
    def entered_by(self, vectors: Tensor | None) -> Iterator[None]:
        """Put a prompt into the image tower while the block runs.

        The block must have the model for itself.

        Args:
            vectors: ``[N, W]``, or ``[B, N, W]`` with a prompt for each picture, or several
                :meth:`together`; None: no prompt.
        """
        with ExitStack() as stack:
            for number, (layer, width) in enumerate(zip(self.layers, self.widths, strict=True)):
                if vectors is None:
                    break
                rows = (vectors.shape[-2] - 1) // len(self.layers)
                part = vectors[..., number * rows : (number + 1) * rows, :width]
                for handle in self._hooked(layer, part):
                    stack.callback(handle.remove)
            yield

    def _hooked(self, layer: Any, part: Tensor) -> list[Any]:
        """Return the handles of new hooks by which rows enter a layer."""
        if not self.tokens:

            def added(_: Any, __: Any, output: Tensor) -> Tensor:
                return output + as_channels(part[..., 0, :], output)

            return [layer.register_forward_hook(added)]

        along = 1 if self.batch_first else 0

        def widened(_: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            hidden = inputs[0]
            shape = hidden.shape[1 - along], *part.shape[-2:]
            rows = part.to(hidden.dtype).expand(shape)  # (B, M, W)
            rows = rows if self.batch_first else rows.transpose(0, 1)
            return torch.cat([hidden, rows], dim=along), *inputs[1:]

        def narrowed(_: Any, __: Any, output: Tensor) -> Tensor:
            return output.narrow(along, 0, output.shape[along] - part.shape[-2])

        return [layer.register_forward_pre_hook(widened), layer.register_forward_hook(narrowed)]

    def text_row(self, vectors: Tensor) -> Tensor:
        """Return the row that a prompt adds to the embedding of a text, ``[D]`` or ``[B, D]``."""
        return vectors[..., -1, : self.text_width]

    def together(self, prompts: list[Tensor]) -> Tensor:
        """Return several concepts' prompts ``[N, W]`` as one: their sum, but tokens side by
        side.
        """
        if not self.tokens:
            return torch.stack(prompts).sum(dim=0)
        layers = [prompt[:-1].unflatten(0, (len(self.layers), -1)) for prompt in prompts]
        texts = torch.stack([prompt[-1:] for prompt in prompts]).sum(dim=0)
        return torch.cat([torch.cat(layers, dim=1).flatten(0, 1), texts])


def places_in(model: Any, text_width: int) -> Places:
    """Return the places where a prompt enters this model of open_clip.

    Args:
        text_width: D of its embeddings.

    Raises:
        UsageError: its image tower is neither a Vision Transformer nor a ResNet.
    """
    tower = tower_of(model)
    transformer = getattr(tower, "transformer", None)
    blocks: Any = getattr(transformer, "resblocks", getattr(tower, "blocks", ()))
    layers = tuple(blocks[:LAYERS])
    norms: list[Any] = [getattr(each, "ln_1", getattr(each, "norm1", None)) for each in layers]
    # A layer of a Vision Transformer, of open_clip or of timm, has attention after a norm.
    is_vit = bool(layers) and hasattr(layers[0], "attn") and norms[0] is not None
    if is_vit and getattr(tower, "rope", None) is None:
        widths = tuple(int(norm.weight.shape[0]) for norm in norms)
        first = bool(getattr(transformer, "batch_first", True))
        return Places(layers, widths, TOKENS, True, text_width, first)
    stages: list[Any] = [getattr(tower, f"layer{i}", None) for i in range(1, LAYERS + 2)]
    if all(stage is not None for stage in stages):
        # The output of a stage of residual blocks is that of its last convolution.
        parts = [list(stage[-1].children()) for stage in stages[:LAYERS]]
        last = [[each for each in part if type(each).__name__ == "Conv2d"][-1] for part in parts]
        widths = tuple(int(convolution.out_channels) for convolution in last)
        return Places(tuple(stages[:LAYERS]), widths, 1, False, text_width)
    raise UsageError(
        f"a matcher whose image tower is a {type(tower).__name__} takes no soft prompts; "
        "use one with a Vision Transformer or a ResNet"
    )


def as_channels(rows: Tensor, hidden: Tensor) -> Tensor:
    """Return rows ``[C]`` or ``[B, C]`` in the shape to add to ``[B, C, h, w]``."""
    return rows.to(hidden.dtype).reshape(-1, hidden.shape[1], 1, 1)


def tower_of(model: Any) -> Any:
    """Return the image tower itself, which timm's towers have inside a wrapper."""
    return getattr(model.visual, "trunk", model.visual)
