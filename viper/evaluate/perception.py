"""How good each vision model is by itself on freshly rendered scenes and clips."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from viper.evaluate.intervals import Estimate, proportion
from viper.tools.hub import ToolHub
from viper.world.splits import SCENES_PER_SPLIT
from viper.world.stills import FreshStills

SEED_STRIDE = 100_000
"""Scenes between the first ones of neighbouring seeds; queries take theirs elsewhere."""

ATTRIBUTES = ("colour", "material", "size", "shape")


def perception_report(
    hub: ToolHub, split: str, seed: int, scenes: int, clips: int | None = None
) -> dict[str, Any]:
    """Figures by model: detector AP50, attribute accuracies, depth order, event windows.

    Args:
        hub: its models are asked directly.
        split: where the scenes come from.
        seed: which scenes; the same seed gives the same ones.
        scenes: how many pictures.
        clips: how many clips; a quarter of ``scenes`` where None.
    """
    from viper.world.training import depth, matcher, video_score, vqa
    from viper.world.training.detector import labels_of
    from viper.world.training.detector_score import detector_figures
    from viper.world.training.object_views import ObjectViews

    first = (seed + 1) * SEED_STRIDE % SCENES_PER_SPLIT
    stills = FreshStills(split, range(first, first + scenes))
    views = ObjectViews(stills)
    labelled = [(stills.image(i), labels_of(truth)) for i, truth in enumerate(stills.truths)]
    models = hub.models
    found: dict[str, Any] = {"detector": detector_figures(models.get("detector"), labelled)}
    found["matcher"] = _shares(matcher.evaluate(models.get("matcher"), views, len(views)))
    found["depth"] = _shares(depth.evaluate(models.get("depth"), views, scenes))
    found["vqa"] = _shares(vqa.evaluate(models.get("vqa"), views, len(views)))
    count = clips or max(1, scenes // 4)
    events = video_score.evaluate(models.get("video"), split, count, first)
    found["video"] = _shares(events, "events")
    return found


def _shares(figures: Mapping[str, float], counted_by: str = "n") -> dict[str, Estimate]:
    """Shares of a common number of cases with their intervals."""
    n = int(figures.get(counted_by, figures.get("pairs", 0)))
    return {
        name: proportion_of(value, n)
        for name, value in figures.items()
        if name not in (counted_by, "pairs")
    }


def proportion_of(value: float, n: int) -> Estimate:
    """The interval of a share that is known as a value."""
    estimate = proportion(round(value * n), n)
    return Estimate(value, n, estimate.low, estimate.high)
