"""Which function trains which role; modules load only when their recipe is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from viper.errors import UnknownNameError

if TYPE_CHECKING:
    from viper.world.training.optim import TrainOptions

RECIPES: Mapping[str, str] = MappingProxyType(
    {
        "detector": "viper.world.training.detector:train",
        "vqa": "viper.world.training.vqa:train",
        "depth": "viper.world.training.depth:train",
        "matcher": "viper.world.training.matcher:train",
        "video": "viper.world.training.video:train",
        "inpainter": "viper.world.training.inpainter:train",
        "segmenter": "viper.world.training.segmenter:train",
        "writer": "viper.world.training.writer:train",
        "writer-small": "viper.world.training.writer:train_small",
        "planner": "viper.world.training.planner:train",
        "critic": "viper.world.training.critic:train",
        "seeker": "viper.world.training.seeker:train",
        "explorer": "viper.world.training.explorer:train",
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
