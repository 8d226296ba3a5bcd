"""Samples of a data set as mining takes them: with the set's own metric."""

from __future__ import annotations

from viper.ace.mine import Labelled
from viper.data.registry import chosen, data_set
from viper.data.sample import Sample, Where
from viper.evaluate.metrics import Metric, metric
from viper.evaluate.row import Prediction
from viper.reasoner import RunResult


def labelled(sample: Sample, judge: Metric) -> Labelled:
    """The sample; its kind is the first of its groups."""

    def score(result: RunResult) -> float:
        answer = result.answer
        return judge.score(sample, None if answer is None else Prediction.of(answer)).value

    kind = sample.groups.get("query_type") or next(iter(sample.groups.values()), "")
    return Labelled(query=sample.query, media=sample.load, score=score, kind=kind)


def labelled_samples(name: str, where: Where) -> list[Labelled]:
    """At most ``where.limit`` samples of a set.

    Raises:
        UnknownNameError: no such set or split.
        DataError: files are missing or broken.
    """
    found = data_set(name)
    judge = metric(found.metric)
    samples = chosen(found.samples(where), where.limit, where.seed)
    return [labelled(sample, judge) for sample in samples]
