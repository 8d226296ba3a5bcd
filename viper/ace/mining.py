"""Mining in-context examples: a zero-shot evaluation on labelled samples gives the candidates.

`Shots` chooses samples and seeds; a campaign answers them; `candidates` turns each written program
into an example, which `viper.ace.select` ranks.

Source: Stanić et al. 2024, sec. 2.3. The results go to a run store, so that interrupted mining
resumes and nothing is answered twice. Examples are selected from the stored programs afterwards
(:mod:`viper.ace.select`); the selection can be repeated with other settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path

from viper.ace.select import Answered, Candidate
from viper.api.library import Library
from viper.api.spec import api_hash
from viper.data.registry import data_set, training_split
from viper.data.sample import DatasetSpec, DrawnSet, Sample, kind_of
from viper.errors import UsageError
from viper.evaluate.evaluation import Evaluation
from viper.evaluate.sample_result import SampleResult
from viper.reasoner import RunOptions
from viper.schema import Example
from viper.strategies.prompts import query_for_prompt

# Default temperature if several programs are drawn for a query: enough for them to differ, little
# enough that most still run.
WARM = 0.4

# Samples drawn for each one that is taken: a kind of one in ten is then met about once per sample.
_SPREAD_OVER = 10


def zero_shot(temperature: float = 0.0) -> RunOptions:
    """Return options for one program without examples or corrections."""
    return RunOptions(
        strategy="program",
        trials=1,
        temperature=temperature,
        feedback=False,
        self_tune=False,
        examples=0,
        careful=False,
        votes=1,
        fallback="none",
    )


@dataclass(frozen=True)
class Shots:
    """Choice of labelled samples, and the number of programs for each.

    Attributes:
        spec: root, split and seed. The default split is the training split. The seed chooses the
            samples and is the first seed of sampling.
        count: number of random samples; for a set that draws its samples, the number per family.
        ids: ids of samples to use instead of random ones.
        spread: draw ten times as many random samples and take the kinds of query in turn, so that
            rare kinds occur. The authors of the paper chose theirs by hand (tables 5 and 6).
        programs: number of programs for each sample, each with its own seed.
        temperature: None means 0 for one program, else ``WARM``.
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
        data = data_set(self.set_name)
        families = data.families if isinstance(data, DrawnSet) else ()
        parts = sum(f"{split}:{family}" in data.splits for family in families) or 1
        return Evaluation(
            set_name=self.set_name,
            spec=replace(self.spec, split=split),
            limit=len(set(self.ids)) if self.ids else self.count * parts,
            seeds=tuple(range(self.spec.seed, self.spec.seed + self.programs)),
            options=zero_shot(warmth),
            ids=self.ids,
        )

    def samples(self) -> list[Sample]:
        """Return the samples. Equal shots give the same samples.

        Raises:
            DataError: files are missing, or the split has no sample with one of the ids.
        """
        evaluation = self.evaluation()
        if not self.spread:
            return evaluation.samples()
        assert evaluation.limit is not None
        pool = replace(evaluation, limit=evaluation.limit * _SPREAD_OVER).samples()
        if evaluation.limit == self.count:
            return of_each_kind(pool, self.count)
        families: dict[str, list[Sample]] = {}
        for sample in pool:
            families.setdefault(sample.task, []).append(sample)
        return [sample for group in families.values() for sample in of_each_kind(group, self.count)]


@dataclass(frozen=True)
class ExampleSource:
    """Origin of mined examples, as each example records it."""

    evaluation: Evaluation
    api: str
    library: Library
    llm: str


def candidates(
    results: Iterable[SampleResult], samples: Sequence[Sample], source: ExampleSource
) -> list[Candidate]:
    """Return every written program as a candidate example."""
    by_id = {sample.sample_id: sample for sample in samples}
    hashes: dict[str, str] = {}
    every = []
    for result in results:
        if not result.program:
            continue
        sample = by_id[result.sample_id]
        query = query_for_prompt(sample.query)
        if query.task not in hashes:
            hashes[query.task] = api_hash(source.library.api_set(source.api).entries(query.task))
        example = Example(
            query=query.text,
            program=result.program,
            task=query.task,
            api=source.api,
            score=result.score,
            sample_id=sample.sample_id,
            seed=result.seed,
            llm=source.llm,
            api_hash=hashes[query.task],
            options=query.options,
            kind=kind_of(sample.groups),
            set=source.evaluation.set_name,
            split=source.evaluation.spec.split or "",
        )
        every.append(Candidate(example, _answered(result)))
    return every


def of_each_kind(
    samples: Sequence[Sample],
    count: int,
    kind: Callable[[Sample], str] = lambda sample: kind_of(sample.groups),
) -> list[Sample]:
    """Return up to ``count`` samples, taking the kinds of query in turn."""
    by_kind: dict[str, list[Sample]] = {}
    for sample in samples:
        by_kind.setdefault(kind(sample), []).append(sample)
    turns = zip_longest(*by_kind.values())
    return [sample for turn in turns for sample in turn if sample is not None][:count]


def _answered(result: SampleResult) -> Answered | None:
    if result.failure is not None or result.prediction is None:
        return None
    prediction = result.prediction
    if prediction.box is not None:
        return prediction.box
    return str(prediction.value if prediction.choice_index is None else prediction.choice_index)


def work_folder(bank: Path, api: str, work: Path | None = None) -> Path:
    """Return the folder for the results of a bank's API: ``WORK/API``, by default
    ``BANK.mining/API``."""
    name = "".join(letter if letter.isalnum() or letter in "-_.+" else "-" for letter in api)
    return (work or bank.with_name(bank.name + ".mining")) / name
