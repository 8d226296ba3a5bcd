"""Recipes that train the embedded models on rendered scenes, one module per role."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping

from viper.errors import UnknownNameError

# Map each role to ``module:function``; the function takes ``TrainOptions`` and returns figures.
#
# A module is loaded only when its recipe is requested.
RECIPES: Mapping[str, str] = {
    role: f"viper_lab.recipes.{role}:train"
    for role in ("detector", "vqa", "depth", "matcher", "video", "inpainter", "segmenter")
    + ("seeker", "looker", "domain")
} | {
    "writer": "viper_lab.recipes.pretrained:train",
    "writer-small": "viper_lab.recipes.writer:train",
    "seeker-without-graph": "viper_lab.recipes.seeker:train_without_graph",
    "vqa-baseline": "viper_lab.recipes.vqa_baseline:train",
}


def recipe(role: str) -> Callable[..., Mapping[str, float]]:
    """Return the training function of a role.

    Raises:
        UnknownNameError: no recipe has that name; the message lists the existing ones.
    """
    if role not in RECIPES:
        raise UnknownNameError("recipe", role, RECIPES)
    module, function = RECIPES[role].split(":")
    function_of_role: Callable[..., Mapping[str, float]] = getattr(
        importlib.import_module(module), function
    )
    return function_of_role
