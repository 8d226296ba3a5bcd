"""Trials of queries without labels on a data set's media: pairing, work items, results.

`SamplingPlan` chooses the media and the seeds, `media_queries` pairs each query with media,
`work_items` lists what a run answers, and `programs_by_query` sorts its rows into candidates that
`viper.ace.select` compares.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from viper.ace.mining import WARM, ExampleSource, Shots, candidates
from viper.ace.select import DESCRIPTION, Candidate
from viper.data.registry import data_set
from viper.data.sample import DatasetSpec, Sample
from viper.errors import DataError
from viper.evaluate.engines.sample_runner import Item
from viper.evaluate.evaluation import Evaluation
from viper.evaluate.sample_result import SampleResult
from viper.schema import Query

# Metric for queries without labels: it checks only that there is an answer.
METRIC = "answered"

# Samples to request from a set that draws them: enough different media within seconds.
_POOL_SIZE = 90


@dataclass(frozen=True)
class SamplingPlan:
    """Number of media and programs with which queries are tried.

    Attributes:
        spec: root, split and seed. The default split is the training split. The seed chooses the
            media and is the first seed of sampling.
        media: number of pictures or clips for each query.
        programs: number of programs for each query and medium. Each has its own seed, on every
            medium, because a model that depends on prompt and seed would repeat itself otherwise.
    """

    set_name: str
    task: str
    spec: DatasetSpec = field(default_factory=DatasetSpec)
    media: int = 3
    programs: int = 5
    temperature: float = WARM

    def evaluation(self) -> Evaluation:
        """Return the zero-shot evaluation with the seeds of all media.

        Raises:
            UsageError: no training split.
        """
        shots = Shots(
            self.set_name, self.spec, programs=self.programs, temperature=self.temperature
        )
        seeds = range(self.spec.seed, self.spec.seed + self.media * self.programs)
        return replace(shots.evaluation(), limit=None, seeds=tuple(seeds))

    def pool(self) -> list[Sample]:
        """Return samples with different media: samples of the task if the set has any, else all
        samples whose media fit the task.

        Their queries and labels are not used.

        Raises:
            DataError: files are missing, or no medium fits.
        """
        spec = self.evaluation().spec
        samples = data_set(self.set_name).samples(replace(spec, limit=_POOL_SIZE))
        pictured = [s for s in samples if self.task != "ground" or s.media != "video"]
        fitting = [s for s in pictured if s.task == self.task] or pictured
        by_medium: dict[tuple[str, ...], Sample] = {}
        for sample in fitting:
            by_medium.setdefault(sample.files or (sample.cluster or sample.sample_id,), sample)
        if not by_medium:
            raise DataError(
                f"{self.set_name} {spec.split}: no media for the task {self.task}; choose another "
                "split"
            )
        return list(by_medium.values())


@dataclass(frozen=True)
class MediaQuery:
    """A query about one medium.

    Attributes:
        query: index of the query.
        medium: index of the medium among the query's media.
        sample: the query and the medium, without a label. The id contains a hash of the query's
            words, so that other queries are another run.
        medium_id: id of the set's sample that has this medium.
    """

    query: int
    medium: int
    sample: Sample
    medium_id: str


def media_queries(
    queries: Sequence[Query], pool: Sequence[Sample], drawing: SamplingPlan
) -> list[MediaQuery]:
    """Pair each query with random media. Equal words and seeds give the same media."""
    pairs = []
    for place, query in enumerate(queries):
        random = Random(f"{drawing.spec.seed} {query.text}")
        words = "\n".join((query.task, query.text, *query.options))
        name = f"{DESCRIPTION}-{hashlib.sha256(words.encode()).hexdigest()[:12]}"
        media = random.sample(list(pool), min(drawing.media, len(pool)))
        for number, medium in enumerate(media):
            unlabelled = replace(
                medium,
                sample_id=f"{name}-{medium.sample_id}",
                text=query.text,
                task=query.task,
                target=None,
                options=query.options,
                groups={"query_type": DESCRIPTION},
            )
            pairs.append(MediaQuery(place, number, unlabelled, medium.sample_id))
    return pairs


def work_items(pairs: Sequence[MediaQuery], drawing: SamplingPlan) -> list[Item]:
    """Return all work items, query by query, so that a budget ends between queries."""
    first, count = drawing.spec.seed, drawing.programs
    return [
        Item(position, pair.sample, first + pair.medium * count + number)
        for position, (pair, number) in enumerate(itertools.product(pairs, range(count)))
    ]


def programs_by_query(
    rows: Iterable[SampleResult], pairs: Sequence[MediaQuery], source: ExampleSource
) -> list[list[list[Candidate]]]:
    """Return the programs for each query and each of its media.

    The example of each program names the set's sample that has the medium.
    """
    of_sample = {pair.sample.sample_id: pair for pair in pairs}
    programs: list[list[list[Candidate]]] = []
    for pair in pairs:
        if pair.query == len(programs):
            programs.append([])
        programs[pair.query].append([])
    for candidate in candidates(rows, [pair.sample for pair in pairs], source):
        pair = of_sample[candidate.example.sample_id]
        example = replace(candidate.example, sample_id=pair.medium_id)
        programs[pair.query][pair.medium].append(replace(candidate, example=example))
    return programs
