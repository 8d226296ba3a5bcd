"""Metrics by name. A metric scores one answer and computes the figures of a set of results.

An installed package adds one by an entry point of the group ``viper.metrics`` that names a class or
function that builds a :class:`Metric` without arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from viper.errors import UnknownNameError
from viper.evaluate.metrics.accuracy import (
    answered,
    answers,
    blink,
    cvbench,
    gqa,
    hrbench,
    nextqa,
    nlvr,
    nlvr2,
)
from viper.evaluate.metrics.editing import Editing
from viper.evaluate.metrics.figures import Figures, Metric
from viper.evaluate.metrics.grounding import Grounding
from viper.evaluate.metrics.infoseek import InfoSeek
from viper.evaluate.metrics.mixed import Mixed
from viper.evaluate.metrics.okvqa import OKVQA
from viper.evaluate.metrics.tagging import Tagging
from viper.plugins import entry_points_of

__all__ = ["METRICS", "Figures", "Metric", "metric"]

ENTRY_POINTS = "viper.metrics"

METRICS: Mapping[str, Callable[[], Metric]] = {
    "grounding": Grounding,
    "gqa": gqa,
    "nextqa": nextqa,
    "nlvr": nlvr,
    "nlvr2": nlvr2,
    "okvqa": OKVQA,
    "infoseek": InfoSeek,
    "hrbench": hrbench,
    "blink": blink,
    "cvbench": cvbench,
    "mixed": Mixed,
    "tagging": Tagging,
    "editing": Editing,
    "answers": answers,
    "answered": answered,
}


def metric(name: str) -> Metric:
    """Return the metric of this name.

    Raises:
        UnknownNameError: there is none; lists those there are.
        UsageError: a package offers a name that is taken.
    """
    if name in METRICS:
        return METRICS[name]()
    installed = entry_points_of(ENTRY_POINTS, "metric", METRICS)
    if name not in installed:
        raise UnknownNameError("metric", name, [*METRICS, *installed])
    return installed[name].load()()
