"""Recipes that train the embedded models on rendered scenes, one module a role."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping

from viper.errors import UnknownNameError

RECIPES: Mapping[str, str] = {
    role: f"viper_lab.recipes.{role}:train"
    for role in ("detector", "vqa", "depth", "matcher", "video", "inpainter", "segmenter", "writer")
    + ("planner", "critic", "seeker", "explorer")
} | {"writer-small": "viper_lab.recipes.writer:train_small"}
"""Role -> ``module:function`` taking a ``TrainOptions`` and returning what it reached.

Modules load only when their recipe is asked for.
"""


def recipe(role: str) -> Callable[..., Mapping[str, float]]:
    """The training function of a role.

    Raises:
        UnknownNameError: no recipe has that name; the message lists those there are.
    """
    if role not in RECIPES:
        raise UnknownNameError("recipe", role, RECIPES)
    module, function = RECIPES[role].split(":")
    found: Callable[..., Mapping[str, float]] = getattr(importlib.import_module(module), function)
    return found
