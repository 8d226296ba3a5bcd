"""Boxes: referring expressions (RefCOCO, RefCOCO+, RefCOCOg) and tags, boxes with labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from viper.agreement import box_iou, match_tags, same_box
from viper.data.sample import Sample
from viper.evaluate.intervals import ratio
from viper.evaluate.metrics.figures import Figures, clusters, figures_of, mean_of, scores, share_of
from viper.evaluate.sample_result import Prediction, SampleResult, Score


class Grounding:
    """``mean_iou``, ``acc@0.5``, ``acc@0.7``; intervals resample pictures, not expressions.

    Source: mean IoU as in Stanić et al. 2024, sec. 3; acc@0.5 (IoU at least 0.5) as in Yu et al.
    2016; acc@0.7 (IoU above 0.7) as in ViperGPT's ``datasets/refcoco.py``.
    Differs: without a box the IoU is 0; ViperGPT uses an average box instead.
    """

    name = "grounding"

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        """Return the IoU, with ``iou``, ``acc@0.5`` and ``acc@0.7`` in the details."""
        box = prediction.box if prediction is not None else None
        iou = box_iou(box, sample.target) if box is not None else 0.0
        # at least .5 but above .7: each as its source counts, see above
        return Score(iou, {"iou": iou, "acc@0.5": float(iou >= 0.5), "acc@0.7": float(iou > 0.7)})

    def figures(self, results: Iterable[SampleResult]) -> Figures:
        """Return the three figures; groups by mean IoU."""
        results = list(results)
        shares = {name: share_of(results, name) for name in ("acc@0.5", "acc@0.7")}
        return figures_of(results, {"mean_iou": mean_of(results), **shares}, mean_of)


def ground_correct(prediction: Sequence[float] | None, target: Sequence[float]) -> bool:
    """Return whether the predicted box overlaps the target by an IoU of at least .5 (acc@0.5)."""
    return prediction is not None and same_box(prediction, target)


class Tagging:
    """``f1``: mean over pictures; ``f1_pooled``, ``precision``, ``recall`` over all tags.

    Source: :func:`viper.agreement.match_tags`. A picture that failed has F1 0, and
    its tags count as missed.
    """

    name = "tagging"

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        """Return F1, with ``matched``, ``predicted`` and ``expected`` in the details."""
        if prediction is None:
            return Score(0.0, {"expected": float(len(sample.target))})
        counts = match_tags(prediction.value or (), sample.target)
        return Score(counts.f1, {name: float(n) for name, n in counts._asdict().items()})

    def figures(self, results: Iterable[SampleResult]) -> Figures:
        """Return the four figures; groups by ``f1``."""
        results = list(results)
        matched, predicted = scores(results, "matched"), scores(results, "predicted")
        expected = [float(len(result.target)) for result in results]
        both = [mine + theirs for mine, theirs in zip(predicted, expected, strict=True)]
        units = clusters(results)
        overall = {
            "f1": mean_of(results),
            "f1_pooled": ratio([2 * count for count in matched], both, units),
            "precision": ratio(matched, predicted, units),
            "recall": ratio(matched, expected, units),
        }
        return figures_of(results, overall, mean_of)
