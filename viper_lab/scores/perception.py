"""How good each vision model is by itself on freshly rendered scenes and clips."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from viper.evaluate.intervals import Estimate, proportion
from viper.tools.toolbox import Toolbox
from viper_lab.world.splits import SCENES_PER_SPLIT
from viper_lab.world.stills import FreshStills

SEED_STRIDE = 100_000
"""Scenes between the first ones of neighbouring seeds; queries take theirs elsewhere."""

ATTRIBUTES = ("colour", "material", "size", "shape")


def perception_report(
    toolbox: Toolbox, split: str, seed: int, scenes: int, clips: int | None = None
) -> dict[str, Any]:
    """Figures by model: detector AP50, attribute accuracies, depth order, event windows, masks.

    Args:
        toolbox: its models are asked directly.
        split: where the scenes come from.
        seed: which scenes; the same seed gives the same ones.
        scenes: how many pictures.
        clips: how many clips; a quarter of ``scenes`` where None.
    """
    from viper_lab.recipes import depth, matcher, segmenter, video, vqa
    from viper_lab.recipes.detector import labels_of
    from viper_lab.recipes.detector_score import detector_figures
    from viper_lab.recipes.object_views import ObjectViews
    from viper_lab.world.id_maps import id_map

    first = (seed + 1) * SEED_STRIDE % SCENES_PER_SPLIT
    stills = FreshStills(split, range(first, first + scenes))
    views = ObjectViews(stills)
    labelled = [(stills.image(i), labels_of(truth)) for i, truth in enumerate(stills.truths)]
    models = toolbox.models
    found: dict[str, Any] = {"detector": detector_figures(models.get("detector"), labelled)}
    found["matcher"] = _shares(matcher.evaluate(models.get("matcher"), views, len(views)))
    found["depth"] = _shares(depth.evaluate(models.get("depth"), views, scenes))
    found["vqa"] = _shares(vqa.evaluate(models.get("vqa"), views, len(views)))
    count = clips or max(1, scenes // 4)
    events = video.evaluate(models.get("video"), split, count, first)
    found["video"] = _shares(events)
    if "segmenter" in models.roles:
        maps = [id_map(truth.scene) for truth in stills.truths]
        pictures = segmenter.segmented(stills, maps)
        found["segmenter"] = _shares(segmenter.evaluate(models.get("segmenter"), pictures))
    return found


_COUNTS = ("n", "pairs", "events")
"""How a recipe's figures call the number of cases that their shares are of."""

_OTHER_COUNTS = {
    "order_hard": "hard_pairs",
    "order_close": "close_pairs",
    "picture_": "pictures",
    "relative_error": "objects",
    "precision": "segments",
}
"""Figures, by how their names begin, whose cases are others."""


def _shares(figures: Mapping[str, float]) -> dict[str, Estimate]:
    """A recipe's figures with intervals, each by its own number of cases.

    Means of values in [0, 1] get the interval of a share, which is never too narrow for them.
    """
    counts = {*_COUNTS, *_OTHER_COUNTS.values(), "phrases"}
    common = next(figures[name] for name in _COUNTS if name in figures)
    found = {}
    for name, value in figures.items():
        if name not in counts:
            other = next((c for start, c in _OTHER_COUNTS.items() if name.startswith(start)), "")
            found[name] = _estimate(value, int(figures.get(other, common)))
    return found


def _estimate(value: float, n: int) -> Estimate:
    interval = proportion(round(value * n), n)
    return Estimate(value, n, interval.low, interval.high)
