"""The embedded world."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from viper.agreement import box_iou
from viper.data.sample import Sample
from viper.evaluate.metrics.accuracy import Accuracy, right_by_task
from viper.evaluate.metrics.figures import Figures
from viper.evaluate.sample_result import Prediction, SampleResult, Score

_JUDGE = Accuracy("world", right_by_task)


class World:
    """``accuracy``: IoU at least 0.5, equal words, or the right option.

    Groups, counted as :func:`viper_lab.scores.world.report` does: ``family``; ``query_type``
    as ``FAMILY/TYPE``; ``steps``, ``one`` or ``two_or_more``.
    """

    name = "world"

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        """1 if right, else 0; of a box its ``iou`` in the details."""
        score = _JUDGE.score(sample, prediction)
        box = prediction.box if prediction is not None else None
        if sample.task != "ground" or box is None:
            return score
        return replace(score, details={"iou": box_iou(box, sample.target)})

    def figures(self, rows: Iterable[SampleResult]) -> Figures:
        """``accuracy`` and its groups."""
        return _JUDGE.figures([replace(row, groups=_groups(row.groups)) for row in rows])


def _groups(groups: Mapping[str, str]) -> dict[str, str]:
    found = dict(groups)
    if "query_type" in found:
        found["query_type"] = f"{found.get('family', '')}/{found['query_type']}"
    if "steps" in found:
        found["steps"] = "one" if int(found["steps"]) <= 1 else "two_or_more"
    return found
