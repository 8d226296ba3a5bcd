"""Tasks of environments: samples of data sets, by number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from viper.data.registry import data_set
from viper.data.sample import DatasetSpec, EndlessSet, Sample
from viper.errors import UsageError
from viper.evaluate.metrics import Metric, metric
from viper.evaluate.sample_result import Prediction
from viper.schema import Answer
from viper.strategies.exact import KnowsScenes

# Number of tasks of an endless set from which a random one is drawn: seeds of all tools take as
# much, and no two of a training's tasks are likely to be the same.
DRAWN = 1 << 31


@dataclass(frozen=True)
class EnvTask:
    """A sample to answer, and the metric that scores the answer. The agent never gets either."""

    sample: Sample
    metric: Metric

    def score(self, answer: Answer | None, target: Any = None) -> float:
        """Return the metric's score of an answer in [0, 1]; 0 without one.

        Args:
            target: the right answer, if it is not the sample's.
        """
        sample = self.sample if target is None else replace(self.sample, target=target)
        prediction = None if answer is None else Prediction.of(answer)
        return self.metric.score(sample, prediction).value

    @property
    def scenes(self) -> KnowsScenes:
        """Return the known scenes of the sample.

        Raises:
            UsageError: they are not known.
        """
        if not isinstance(self.sample.load, KnowsScenes):
            raise UsageError(
                f"{self.sample.sample_id}: its scene is not known, so it has neither exact tools "
                "nor the reward verified; take the set world-everyday, or models and weight 0"
            )
        return self.sample.load


class Tasks:
    """The tasks of a data set, by number from 0.

    A set that draws its samples by number (``world-everyday``) has endlessly many.

    Args:
        data: name of a set, as ``viper eval`` takes it.
        root: folder of its files.
        split: name of the split; a level is part of it where the set has levels (``train:2``).
        seed: random seed of sets that draw their samples.
    """

    def __init__(
        self, data: str, *, root: Path | None = None, split: str | None = None, seed: int = 0
    ) -> None:
        self._set = data_set(data)
        self._metric = metric(self._set.metric)
        self._spec = DatasetSpec(root, split, seed)

    @cached_property
    def _samples(self) -> Sequence[Sample]:
        return self._set.samples(self._spec)

    @property
    def drawn(self) -> int:
        """Return the number of tasks from which a random one is drawn."""
        return self.count or DRAWN

    @property
    def count(self) -> int | None:
        """Return the number of tasks; None if they are endless."""
        return None if isinstance(self._set, EndlessSet) else len(self._samples)

    def __getitem__(self, number: int) -> EnvTask:
        """Return a task.

        Raises:
            UsageError: there is no task of this number.
        """
        count = self.count
        if number < 0 or (count is not None and number >= count):
            known = "0 and more" if count is None else f"0 to {count - 1}"
            raise UsageError(f"task {number}: {self._set.name} has the tasks {known}")
        if isinstance(self._set, EndlessSet):
            return EnvTask(self._set.sample(self._spec, number), self._metric)
        return EnvTask(self._samples[number], self._metric)
