"""Pictures of a lesson as the matcher is trained on them: several views of each, looked at once.

What a soft prompt does not change of the image tower's work is done once for each view and kept:
training then costs a few layers a step, and next to nothing where the image tower stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from viper.models.vision.roles import Pixels
from viper.tuning.soft_prompts.base import Using

if TYPE_CHECKING:
    from torch import Generator, Tensor

VIEWS = 6
"""Of each picture; the first is the picture itself."""

_BATCH = 32

_SCALE, _SQUEEZE, _TURN, _SHIFT = 0.17, 0.07, 0.15, 0.12
"""How far a view is scaled, squeezed, turned (radians) and shifted (halves of the side) at most."""

_EXPOSURE = 0.1
"""Standard deviation of the factor on a view's values, taken from their least one."""


@dataclass(frozen=True, eq=False)
class Views:
    """Views of some pictures.

    Attributes:
        begun: ``[V, n, ...]`` what ``OpenClipMatcher.begun``
            gave of each.
        plain: float32 ``[V, n, D]``, their embeddings by the matcher as it came.
    """

    begun: Tensor
    plain: Tensor

    def of(self, pictures: Tensor) -> Views:
        """The views of some of the pictures."""
        return Views(self.begun[:, pictures], self.plain[:, pictures])


def views_of(
    using: Using, pictures: Sequence[Pixels], exchanged: bool, generator: Generator
) -> Views:
    """Mirrored, scaled, turned, shifted, brighter and darker views of pictures.

    Args:
        exchanged: the colour channels of all views but the first are exchanged at random: another
            colour, the same shape and pattern.
    """
    import torch

    with using() as backend:
        inputs = backend.as_input(pictures)
    begun, plain = [], []
    for number in range(VIEWS):
        seen = inputs if number == 0 else _view(inputs, exchanged, generator)
        parts = [_looked_at(using, part) for part in seen.split(_BATCH)]
        begun.append(torch.cat([part[0] for part in parts]))
        plain.append(torch.cat([part[1] for part in parts]).float())
    return Views(torch.stack(begun), torch.stack(plain))


def _looked_at(using: Using, part: Tensor) -> tuple[Any, Any]:
    import torch

    with using() as backend, torch.no_grad():
        begun = backend.begun(part)
        return begun, backend.embedded(begun, None)


def _view(inputs: Tensor, exchanged: bool, generator: Generator) -> Tensor:
    """One view of each picture ``[n, 3, S, S]``."""
    import torch
    from torch.nn.functional import affine_grid, grid_sample

    count = len(inputs)

    def drawn(reach: float) -> Tensor:
        return (2 * torch.rand(count, generator=generator) - 1) * reach

    turn, scale, squeeze = drawn(_TURN), 1 + drawn(_SCALE), 1 + drawn(_SQUEEZE)
    mirror = 1 - 2 * (torch.rand(count, generator=generator) < 0.5).float()
    rows = (
        (scale * mirror * squeeze * turn.cos(), -scale * turn.sin(), drawn(_SHIFT)),
        (scale * mirror * turn.sin(), scale * turn.cos() / squeeze, drawn(_SHIFT)),
    )
    moves = torch.stack([torch.stack(row, dim=1) for row in rows], dim=1)  # (n, 2, 3)
    exposure = 1 + _EXPOSURE * torch.randn(count, 1, 1, 1, generator=generator)
    order = torch.rand(count, 3, generator=generator).argsort(dim=1)
    grid = affine_grid(moves.to(inputs), list(inputs.shape), align_corners=False)
    seen = grid_sample(inputs, grid, padding_mode="border", align_corners=False)
    if exchanged:
        chosen = order.to(inputs.device)[:, :, None, None].expand_as(seen)
        seen = seen.gather(1, chosen)
    least, most = inputs.amin(), inputs.amax()
    return ((seen - least) * exposure.to(inputs) + least).clamp(least, most)
