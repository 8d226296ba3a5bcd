"""Referring expressions: RefCOCO, RefCOCO+, RefCOCOg."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from viper.agreement import box_iou
from viper.data.sample import Sample
from viper.evaluate.metrics.figures import Figures, figures_of, mean_of, share_of
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
        return figures_of(
            results,
            {
                "mean_iou": mean_of(results),
                "acc@0.5": share_of(results, "acc@0.5"),
                "acc@0.7": share_of(results, "acc@0.7"),
            },
            mean_of,
        )


def ground_correct(
    prediction: Sequence[float] | None, target: Sequence[float], threshold: float = 0.5
) -> bool:
    """Return whether the predicted box overlaps the target by at least this IoU (acc@0.5)."""
    return prediction is not None and box_iou(prediction, target) >= threshold
