"""Queries without labels, tried on a data set's media: who is asked what, and what came of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from viper.ace.select import SHEET, Candidate
from viper.data.registry import data_set
from viper.data.sample import DatasetSpec, Sample
from viper.errors import DataError
from viper.evaluate.engines.sample_runner import Item
from viper.evaluate.evaluation import Evaluation
from viper.evaluate.sample_result import SampleResult
from viper.learning.mining import WARM, ExampleSource, Shots, candidates
from viper.schema import Query

METRIC = "answered"
"""Judges what has no label: by whether there is an answer."""

_DRAWN = 90
"""Samples of a set that draws them: enough different media, and a matter of seconds."""


@dataclass(frozen=True)
class SamplingPlan:
    """On which media queries are tried, and with how many programs.

    Attributes:
        spec: root, split and seed; without a split the training split is taken. The seed chooses
            media, and is the first one of sampling.
        media: pictures or clips for each query.
        programs: drawn for each query and medium, each under a seed of its own, also on another
            medium: a model that goes by prompt and seed would repeat itself otherwise.
    """

    set_name: str
    task: str
    spec: DatasetSpec = field(default_factory=DatasetSpec)
    media: int = 3
    programs: int = 5
    temperature: float = WARM

    def evaluation(self) -> Evaluation:
        """Return the zero-shot evaluation whose seeds are those of all media.

        Raises:
            UsageError: no training split.
        """
        shots = Shots(
            self.set_name, self.spec, programs=self.programs, temperature=self.temperature
        )
        first = self.spec.seed
        seeds = tuple(range(first, first + self.media * self.programs))
        return replace(shots.evaluation(), limit=None, seeds=seeds)

    def pool(self) -> list[Sample]:
        """Return samples with different media: those of the task if the set has any, else all that
        fit it.

        Their queries and labels are not looked at.

        Raises:
            DataError: files are missing, or no medium fits.
        """
        spec = self.evaluation().spec
        samples = data_set(self.set_name).samples(replace(spec, limit=_DRAWN))
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
        query: its place among the queries.
        medium: its place among the query's media.
        sample: what is asked, without a label; its id names the words, so that other queries are
            another run.
        medium_id: id of the set's sample that the medium is of.
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
        media = random.sample(list(pool), min(drawing.media, len(pool)))
        pairs += [
            MediaQuery(place, number, _unlabelled(query, sample), sample.sample_id)
            for number, sample in enumerate(media)
        ]
    return pairs


def work_items(tried: Sequence[MediaQuery], drawing: SamplingPlan) -> list[Item]:
    """Return all work, query by query, so that a budget ends between queries."""
    first, count = drawing.spec.seed, drawing.programs
    todo = [
        (one.sample, first + one.medium * count + number)
        for one in tried
        for number in range(count)
    ]
    return [Item(position, sample, seed) for position, (sample, seed) in enumerate(todo)]


def programs_by_query(
    rows: Iterable[SampleResult], tried: Sequence[MediaQuery], source: ExampleSource
) -> list[list[list[Candidate]]]:
    """Return the programs for each query and each of its media.

    The example that each would make names the set's sample that the medium is of.
    """
    of_sample = {one.sample.sample_id: one for one in tried}
    programs: list[list[list[Candidate]]] = []
    for one in tried:
        if one.query == len(programs):
            programs.append([])
        programs[one.query].append([])
    for candidate in candidates(rows, [one.sample for one in tried], source):
        one = of_sample[candidate.example.sample_id]
        example = replace(candidate.example, sample_id=one.medium_id)
        programs[one.query][one.medium].append(replace(candidate, example=example))
    return programs


def _unlabelled(query: Query, medium: Sample) -> Sample:
    words = "\n".join((query.task, query.text, *query.options))
    name = hashlib.sha256(words.encode()).hexdigest()[:12]
    return Sample(
        f"{SHEET}-{name}-{medium.sample_id}",
        query.text,
        task=query.task,
        media=medium.media,
        target=None,
        load=medium.load,
        options=query.options,
        groups={"query_type": SHEET},
        cluster=medium.cluster,
        files=medium.files,
    )
