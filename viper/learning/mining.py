"""Mining in-context examples: a zero-shot evaluation on labelled samples, and what came of it.

Source: Stanić et al. 2024, sec. 2.3. The rows go to a run store, so that mining goes on where it
was stopped and nothing is answered twice; which programs become examples is decided afterwards
(:mod:`viper.ace.select`), as often as one likes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path

from viper.ace.select import Answered, Candidate
from viper.api.library import Library
from viper.api.spec import api_hash
from viper.data.registry import data_set, training_split
from viper.data.sample import DatasetSpec, DrawnSet, Sample
from viper.errors import UsageError
from viper.evaluate.evaluation import Evaluation
from viper.evaluate.sample_result import Prediction, SampleResult
from viper.reasoner import RunOptions
from viper.schema import Example
from viper.strategies.prompts import query_for_prompt

WARM = 0.4
"""The temperature where several programs are drawn for a query."""

_SPREAD_OVER = 10


def zero_shot(temperature: float = 0.0) -> RunOptions:
    """Return options for one program without examples or corrections."""
    return RunOptions(
        trials=1,
        temperature=temperature,
        feedback=False,
        self_tune=False,
        examples=0,
        votes=1,
        fallback="none",
    )


@dataclass(frozen=True)
class Shots:
    """Which labelled samples are tried, and with how many programs.

    Attributes:
        spec: root, split and seed; without a split the training split is taken. The seed chooses
            samples and is the first one of sampling.
        count: random samples; of a set that draws its samples as many of each family.
        ids: these samples instead of random ones.
        spread: of ten times as many random samples take each kind of query in turn, so that
            rare ones occur; the authors of the paper chose theirs by hand (tables 5 and 6).
        programs: drawn for each sample, each under a seed of its own.
        temperature: None is 0 for one program, else ``WARM``.
    """

    set_name: str
    spec: DatasetSpec = field(default_factory=DatasetSpec)
    count: int = 100
    ids: tuple[str, ...] = ()
    programs: int = 1
    temperature: float | None = None
    spread: bool = False

    def evaluation(self) -> Evaluation:
        """Return the zero-shot evaluation with one program per seed and no corrections.

        Raises:
            UsageError: no training split, or several programs at temperature 0.
        """
        warmth = self.temperature
        if warmth is None:
            warmth = WARM if self.programs > 1 else 0.0
        if self.programs > 1 and warmth <= 0:
            raise UsageError(
                f"{self.programs} programs at temperature 0 are {self.programs} times the same "
                f"one; give --temperature {WARM}, or --programs 1"
            )
        split = self.spec.split or training_split(self.set_name)
        first = self.spec.seed
        return Evaluation(
            set_name=self.set_name,
            spec=replace(self.spec, split=split),
            limit=len(set(self.ids)) if self.ids else self.count * self._parts(split),
            seeds=tuple(range(first, first + self.programs)),
            options=zero_shot(warmth),
            ids=self.ids,
        )

    def samples(self) -> list[Sample]:
        """Return the samples. Equal shots give the same samples.

        Raises:
            DataError: files are missing, or an id is of no sample of the split.
        """
        evaluation = self.evaluation()
        return self._spread(evaluation) if self.spread else evaluation.samples()

    def _spread(self, evaluation: Evaluation) -> list[Sample]:
        assert evaluation.limit is not None
        pool = replace(evaluation, limit=evaluation.limit * _SPREAD_OVER).samples()
        if evaluation.limit == self.count:
            return of_each_kind(pool, self.count)
        families: dict[str, list[Sample]] = {}
        for sample in pool:
            families.setdefault(sample.task, []).append(sample)
        return [one for its in families.values() for one in of_each_kind(its, self.count)]

    def _parts(self, split: str) -> int:
        """Return the number of families that the set divides its samples among."""
        drawn = data_set(self.set_name)
        families = drawn.families if isinstance(drawn, DrawnSet) else ()
        return sum(f"{split}:{family}" in drawn.splits for family in families) or 1


@dataclass(frozen=True)
class ExampleSource:
    """What an example says of where it is from."""

    evaluation: Evaluation
    api: str
    library: Library
    llm: str


def candidates(
    rows: Iterable[SampleResult], samples: Sequence[Sample], source: ExampleSource
) -> list[Candidate]:
    """Return every written program as a candidate example."""
    by_id = {sample.sample_id: sample for sample in samples}
    hashes: dict[str, str] = {}
    return [
        Candidate(_example(row, by_id[row.sample_id], source, hashes), _answered(row))
        for row in rows
        if row.program
    ]


def _example(
    row: SampleResult, sample: Sample, source: ExampleSource, hashes: dict[str, str]
) -> Example:
    query = query_for_prompt(sample.query)
    if query.task not in hashes:
        hashes[query.task] = api_hash(source.library.api_set(source.api).entries(query.task))
    return Example(
        query=query.text,
        program=row.program or "",
        task=query.task,
        api=source.api,
        score=row.score,
        sample_id=sample.sample_id,
        seed=row.seed,
        llm=source.llm,
        api_hash=hashes[query.task],
        options=query.options,
        kind=kind_of(sample.groups),
        set=source.evaluation.set_name,
        split=source.evaluation.spec.split or "",
    )


def kind_of(groups: Mapping[str, str]) -> str:
    """Return the type of a query: ``query_type`` if the set has one, else its first group."""
    return groups.get("query_type") or next(iter(groups.values()), "")


def of_each_kind(samples: Sequence[Sample], count: int) -> list[Sample]:
    """Return up to ``count`` samples, taking the kinds of query in turn."""
    by_kind: dict[str, list[Sample]] = {}
    for sample in samples:
        by_kind.setdefault(kind_of(sample.groups), []).append(sample)
    turns = zip_longest(*by_kind.values())
    return [one for turn in turns for one in turn if one is not None][:count]


def _answered(row: SampleResult) -> Answered | None:
    if row.failure is not None or row.prediction is None:
        return None
    prediction: Prediction = row.prediction
    if prediction.box is not None:
        return prediction.box
    return str(prediction.value if prediction.choice_index is None else prediction.choice_index)


def work_folder(bank: Path, api: str, work: Path | None = None) -> Path:
    """Return the folder for the results of a bank's API: ``WORK/API``, by default
    ``BANK.mining/API``."""
    name = "".join(letter if letter.isalnum() or letter in "-_.+" else "-" for letter in api)
    return (work or bank.with_name(bank.name + ".mining")) / name
