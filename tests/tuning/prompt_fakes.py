"""Soft prompts for the tests of pools."""

from __future__ import annotations

import numpy as np

from viper.models.vision.prompt_pool import Evidence
from viper.models.vision.soft_prompts import SoftPrompt

MODEL = "detector@0123456789ab"


def learned(
    value: float, model_id: str = MODEL, size: int = 8, shape: tuple[int, int] = (2, 4)
) -> tuple[SoftPrompt, Evidence]:
    """A prompt whose vectors all hold the value."""
    feature = np.ones(size, np.float32)
    feature[0] = 1 + value
    seen = (("a-1", "a-2"), ("a-9",), 0.25, 1.0, "annotated", "a cup")
    evidence = Evidence(model_id, *seen)
    return SoftPrompt(feature, np.full(shape, value, np.float32)), evidence
