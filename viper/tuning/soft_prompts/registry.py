"""Which tuner teaches which tool."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from viper.errors import UnknownNameError
from viper.tuning.soft_prompts.base import Tuner

_TUNERS: Mapping[str, str] = MappingProxyType(
    {
        "loc": "viper.tuning.soft_prompts.loc:LocTuner",
        "match": "viper.tuning.soft_prompts.match:MatchTuner",
        "seg": "viper.tuning.soft_prompts.seg:SegTuner",
        "vqa": "viper.tuning.soft_prompts.vqa:VqaTuner",
        "replace": "viper.tuning.soft_prompts.replace:ReplaceTuner",
    }
)

TOOLS = tuple(_TUNERS)
"""The tools that can be taught, by the pool's names; ``match`` is SELECT and CLASSIFY."""

ABILITY_TOOLS: Mapping[str, str] = MappingProxyType(
    {
        "find": "loc",
        "exists": "loc",
        "verify_property": "match",
        "best_text_match": "match",
        "best_description_from_options": "match",
        "best_image_match": "match",
        "simple_query": "vqa",
        "segment": "seg",
        "replace": "replace",
    }
)
"""Which tool stands behind what programs call; others cannot be taught."""


def tuner_for(tool: str) -> Tuner[Any]:
    """A tool's tuner with the defaults of CLOVA's supplement in the architecture's own width.

    Raises:
        UnknownNameError: there is no such tool that can be taught.
    """
    if tool not in _TUNERS:
        raise UnknownNameError("tool that can be taught", tool, TOOLS)
    module, name = _TUNERS[tool].split(":")
    tuner: Tuner[Any] = getattr(importlib.import_module(module), name)()
    return tuner
