"""Which function trains which role; modules load only when their recipe is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from viper.errors import UnknownNameError

if TYPE_CHECKING:
    from viper_lab.recipes.optim import TrainOptions

RECIPES: Mapping[str, str] = MappingProxyType(
    {
        "detector": "viper_lab.recipes.detector:train",
        "vqa": "viper_lab.recipes.vqa:train",
        "depth": "viper_lab.recipes.depth:train",
        "matcher": "viper_lab.recipes.matcher:train",
        "video": "viper_lab.recipes.video:train",
        "inpainter": "viper_lab.recipes.inpainter:train",
        "segmenter": "viper_lab.recipes.segmenter:train",
        "writer": "viper_lab.recipes.writer:train",
        "writer-small": "viper_lab.recipes.writer:train_small",
        "planner": "viper_lab.recipes.planner:train",
        "critic": "viper_lab.recipes.critic:train",
        "seeker": "viper_lab.recipes.seeker:train",
        "explorer": "viper_lab.recipes.explorer:train",
    }
)
"""Role -> ``module:function`` taking a ``TrainOptions`` and returning what it reached."""


def recipe(role: str) -> Callable[[TrainOptions], Mapping[str, float]]:
    """The training function of a role.

    Raises:
        UnknownNameError: no recipe has that name; the message lists those there are.
    """
    if role not in RECIPES:
        raise UnknownNameError("recipe", role, RECIPES)
    module, function = RECIPES[role].split(":")
    found: Callable[[TrainOptions], Mapping[str, float]] = getattr(
        importlib.import_module(module), function
    )
    return found
