"""Whether an answer to a query of the embedded world is right."""

from __future__ import annotations

from viper.evaluate.metrics.accuracy import right_by_task
from viper.evaluate.row import Prediction
from viper.schema import Answer
from viper_lab.datasets.world import world_sample
from viper_lab.world.queries.sample import WorldSample


def is_right(sample: WorldSample, answer: Answer | None) -> bool:
    """Whether an answer is right: as the metric of the data set ``world`` judges it."""
    return answer is not None and right_by_task(world_sample(sample), Prediction.of(answer))
