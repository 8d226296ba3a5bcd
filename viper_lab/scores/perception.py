"""Scores of each single vision model on freshly rendered scenes and clips."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from viper.evaluate.intervals import Estimate, proportion
from viper.tools.toolbox import Toolbox
from viper_lab.world.splits import SCENES_PER_SPLIT
from viper_lab.world.stills import FreshStills

# Scenes between the first scenes of neighbouring seeds; queries use other scenes.
SEED_STRIDE = 100_000

ATTRIBUTES = ("colour", "material", "size", "shape")


def perception_report(
    toolbox: Toolbox, split: str, seed: int, scenes: int, clips: int | None = None
) -> dict[str, Any]:
    """Return figures by model: AP50, attribute accuracies, depth order, event windows, masks.

    Args:
        toolbox: provides the models.
        split: source of the scenes.
        seed: selects the scenes; the same seed gives the same ones.
        scenes: number of pictures, and of single frames of clips.
        clips: number of clips; None: a quarter of ``scenes``.
    """
    from viper_lab.recipes import depth, matcher, segmenter, video, vqa
    from viper_lab.recipes.detector import labelled
    from viper_lab.recipes.detector_score import detector_figures
    from viper_lab.recipes.object_views import ObjectViews
    from viper_lab.world.id_maps import id_map

    first = (seed + 1) * SEED_STRIDE % SCENES_PER_SPLIT
    stills = FreshStills.of_scenes(split, range(first, first + scenes))
    views = ObjectViews(stills)
    frames = FreshStills.of_clips(split, range(first, first + scenes))
    models = toolbox.models
    detector, answerer = models.get("detector"), models.get("vqa")
    figures: dict[str, Any] = {"detector": detector_figures(detector, labelled(stills))}
    figures["detector on frames"] = detector_figures(detector, labelled(frames))
    figures["matcher"] = _shares(matcher.evaluate(models.get("matcher"), views, len(views)))
    figures["depth"] = _shares(depth.evaluate(models.get("depth"), views, scenes))
    figures["vqa"] = _shares(vqa.evaluate(answerer, views, len(views)))
    on_frames = ObjectViews(frames)
    figures["vqa on frames"] = _shares(vqa.evaluate(answerer, on_frames, len(on_frames)))
    count = clips or max(1, scenes // 4)
    events = video.evaluate(models.get("video"), split, count, first)
    figures["video"] = _shares(events)
    if "segmenter" in models.roles:
        maps = [id_map(truth.scene) for truth in stills.truths]
        pictures = segmenter.segmented(stills, maps)
        figures["segmenter"] = _shares(segmenter.evaluate(models.get("segmenter"), pictures))
    return figures


# Names for the number of cases in a recipe's figures.
_COUNTS = ("n", "pairs", "events")

# Figures with another number of cases, by the start of their names.
_OTHER_COUNTS = {
    "order_hard": "hard_pairs",
    "order_close": "close_pairs",
    "picture_": "pictures",
    "relative_error": "objects",
    "precision": "segments",
}


def _shares(figures: Mapping[str, float]) -> dict[str, Estimate]:
    """Return a recipe's figures with intervals, each by its own number of cases.

    Means of values in [0, 1] get the interval of a share, which is never too narrow for them.
    """
    counts = {*_COUNTS, *_OTHER_COUNTS.values(), "phrases"}
    common = next(figures[name] for name in _COUNTS if name in figures)
    shares = {}
    for name, value in figures.items():
        if name not in counts:
            other = next((c for start, c in _OTHER_COUNTS.items() if name.startswith(start)), "")
            shares[name] = _estimate(value, int(figures.get(other, common)))
    return shares


def _estimate(value: float, n: int) -> Estimate:
    interval = proportion(round(value * n), n)
    return Estimate(value, n, interval.low, interval.high)
