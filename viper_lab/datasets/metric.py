"""The embedded world."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from viper.agreement import box_iou
from viper.data.sample import Sample
from viper.evaluate.metrics.accuracy import Accuracy, right_by_task
from viper.evaluate.metrics.figures import Figures, Results
from viper.evaluate.sample_result import Prediction, SampleResult, Score

_JUDGE = Accuracy("world", right_by_task)


class World:
    """``accuracy``: IoU at least 0.5, equal words, or the right option.

    Groups, counted as :func:`viper_lab.scores.world.report` does: ``family``; ``query_type``
    as ``FAMILY/TYPE``; ``steps``, ``one`` or ``two_or_more``.
    """

    name = "world"

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        """Score 1 if right, else 0. The details of a box hold its ``iou``."""
        score = _JUDGE.score(sample, prediction)
        box = prediction.box if prediction is not None else None
        if sample.task != "ground" or box is None:
            return score
        return replace(score, details={"iou": box_iou(box, sample.target)})

    def figures(self, results: Iterable[SampleResult]) -> Figures:
        """Return ``accuracy`` of all samples and of each group."""
        results = Results.of(results)
        column = results.columns["groups"]
        values = [tuple(_groups(dict(groups)).items()) for groups in column.values]
        columns = {**results.columns, "groups": replace(column, values=values)}
        return _JUDGE.figures(replace(results, columns=columns))


def _groups(groups: Mapping[str, str]) -> dict[str, str]:
    values = dict(groups)
    if "query_type" in values:
        values["query_type"] = f"{values.get('family', '')}/{values['query_type']}"
    if "steps" in values:
        values["steps"] = "one" if int(values["steps"]) <= 1 else "two_or_more"
    return values
