"""Records the tensors that leave their device, also on a machine that has only one."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_LEAVING = ("cpu", "to", "numpy", "tolist", "item", "__int__", "__float__")


class Copies(TorchFunctionMode):
    """Records every tensor that is sent to a named device or turned into Python numbers.

    Attributes:
        shapes: their shapes, in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[tuple[int, ...]] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in _LEAVING and args and isinstance(args[0], torch.Tensor):
            places = [*args[1:], *(kwargs or {}).values()]
            # ``to`` with a precision alone moves nothing.
            if name != "to" or any(isinstance(place, str | torch.device) for place in places):
                self.shapes.append(tuple(args[0].shape))
        return func(*args, **(kwargs or {}))
