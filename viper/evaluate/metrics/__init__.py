"""Metrics by name. A metric scores one answer and computes the figures of a set of results.

An installed package adds one by an entry point of the group ``viper.metrics`` that names a class or
function that builds a :class:`Metric` without arguments.
"""

from __future__ import annotations

from viper.evaluate.metrics.figures import Figures, Metric
from viper.plugins import Registry

__all__ = ["JUDGES", "METRICS", "Figures", "Metric", "metric"]

_HERE = "viper.evaluate.metrics"

METRICS = Registry(
    "viper.metrics",
    "metric",
    {
        "grounding": f"{_HERE}.accuracy:Grounding",
        "gqa": f"{_HERE}.accuracy:gqa",
        "nextqa": f"{_HERE}.accuracy:nextqa",
        "nlvr": f"{_HERE}.accuracy:nlvr",
        "nlvr2": f"{_HERE}.accuracy:nlvr2",
        "okvqa": f"{_HERE}.knowledge:OKVQA",
        "infoseek": f"{_HERE}.knowledge:InfoSeekAccuracy",
        "hrbench": f"{_HERE}.accuracy:hrbench",
        "blink": f"{_HERE}.accuracy:blink",
        "cvbench": f"{_HERE}.accuracy:cvbench",
        "mixed": f"{_HERE}.accuracy:Mixed",
        "tagging": f"{_HERE}.accuracy:Tagging",
        "editing": f"{_HERE}.editing:Editing",
        "answers": f"{_HERE}.accuracy:answers",
        "answered": f"{_HERE}.accuracy:answered",
    },
)

# A judge of edited pictures: a function that takes the toolbox of a run and returns the judge of
# each sample. A metric with ``with_judge`` names its own in ``judge``, else it gets ``roles``.
JUDGES = Registry("viper.judges", "judge", {"roles": f"{_HERE}.editing:judge_by_roles"})


def metric(name: str) -> Metric:
    """Build the metric of this name.

    Raises:
        UnknownNameError: there is none; lists those there are.
        UsageError: two packages offer the name.
    """
    return METRICS.load(name)()
