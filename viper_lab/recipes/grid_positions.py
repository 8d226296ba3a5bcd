"""Initial position embeddings of vision towers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def grid_positions(rows: int, columns: int, width: int) -> Tensor:
    """Sines and cosines of row and column, ``[rows * columns, width]``: neighbours look alike.

    A tower that starts from these need not find out first which patches are neighbours.
    ``width`` must be divisible by 4.
    """
    import torch

    rates = 1.0 / 100 ** (torch.arange(width // 4) / (width // 4))

    def waves(count: int) -> Tensor:
        angles = torch.arange(count, dtype=torch.float32)[:, None] * rates[None, :]
        return torch.cat([angles.sin(), angles.cos()], dim=1)

    by_row = waves(rows)[:, None, :].expand(rows, columns, -1)
    by_column = waves(columns)[None, :, :].expand(rows, columns, -1)
    return torch.cat([by_row, by_column], dim=2).reshape(rows * columns, width)
