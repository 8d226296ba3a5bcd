"""NLVR and NLVR2: accuracy of statements, and consistency over their pictures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from viper.evaluate.intervals import Estimate, proportion
from viper.evaluate.metrics.accuracy import Accuracy, right_statement
from viper.evaluate.metrics.figures import Figures, figures_of, scores, share_of
from viper.evaluate.sample_result import SampleResult

_SINGLE = ("example",)
"""Groups with few results each. They get no breakdown."""


class Consistency(Accuracy):
    """``accuracy``: right results / all. ``consistency``: clusters with only right results / all.

    A result without a cluster is its own cluster.
    """

    def figures(self, results: Iterable[SampleResult]) -> Figures:
        """Return ``accuracy`` and ``consistency``; groups by accuracy."""
        results = list(results)
        return figures_of(
            results,
            {"accuracy": share_of(results), "consistency": _consistency(results)},
            share_of,
            skip=_SINGLE,
        )


def _consistency(results: Sequence[SampleResult]) -> Estimate:
    whole: dict[str, bool] = defaultdict(lambda: True)
    for index, (result, score) in enumerate(zip(results, scores(results), strict=True)):
        whole[result.cluster or f"\0{index}"] &= score > 0.5
    return proportion(sum(whole.values()), len(whole))


def nlvr() -> Consistency:
    """Build the metric of NLVR: a result is a PNG, a cluster the first number of its identifier.

    Source: ``metrics_images.py`` of NLVR (Suhr et al. 2017), which calls accuracy precision.
    """
    return Consistency("nlvr", right_statement)


def nlvr2() -> Consistency:
    """Build the metric of NLVR2: a result is a sentence with two pictures, a cluster the sentence.

    The sentence is the identifier without the number of its pair: ``dev-SET-PAIR-SENTENCE``.
    Source: ``nlvr2/eval/metrics.py`` (Suhr et al. 2019).
    """
    return Consistency("nlvr2", right_statement)
