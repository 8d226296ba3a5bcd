"""Answers the cells of a reproduction: each a stored run that goes on where it was cut off."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from viper.ace.bank import Bank, write_bank
from viper.ace.mining import WARM, ExampleSource, candidates, of_each_kind, zero_shot
from viper.ace.select import Selection, select
from viper.data.registry import choose
from viper.data.sample import Sample, kind_of
from viper.errors import StoreError, UsageError
from viper.evaluate.campaign import RunProgress, SampledEvaluation, answer_all
from viper.evaluate.evaluation import Evaluation, model_ids
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult
from viper.models.llm.wrapped import CachedLLM
from viper.reasoner import Reasoner, RunOptions
from viper.storage.cache import ComputeCache
from viper.storage.sqlite import SqliteStore
from viper.strategies import strategy
from viper.strategies.base import Components
from viper.strategies.end_to_end import EndToEndStrategy
from viper.strategies.examples import NoExamples
from viper_lab.papers.parts import Part


def mean_score(results: Sequence[SampleResult]) -> float:
    """Return the mean score; 0 without results."""
    return sum(result.score for result in results) / len(results) if results else 0.0


def slug(name: str) -> str:
    """Return a name for the folder of what is called so."""
    return re.sub(r"[^a-z0-9.+]+", "-", name.lower()).strip("-")


def spread(values: Sequence[int]) -> str:
    """Return the least and the most, as ``3 to 5``, or the one number that all are."""
    low, high = min(values), max(values)
    return f"{low}" if low == high else f"{low} to {high}"


# Words of the kinds of expression, the rare ones first: one that has several counts as the first.
_KINDS: Mapping[str, frozenset[str]] = {
    kind: frozenset(words.split())
    for kind, words in {
        "order": "first second third fourth fifth last 1st 2nd 3rd 4th 5th",
        "middle": "middle center centre between",
        "closest": "close closer closest near nearer nearest next beside by touching",
        "front or back": "front back behind foreground background farthest furthest",
        "above or below": "above below under over top bottom upper lower highest lowest",
        "left or right": "left right leftmost rightmost",
    }.items()
}

# Between the seeds of several programs for one sample: no seed of a reproduction is another's.
_APART = 1_000

# What is kept from cell to cell, which ask the same of the same pictures: decoded media, then
# encodings, and results of models, in as many entries.
MEDIA_MB, RESULTS_MB, RESULTS = 768, 512, 400_000


@dataclass(frozen=True)
class Mining:
    """How a bank of examples is mined.

    Attributes:
        api: whose programs.
        shots: labelled samples.
        chosen: take them so that all kinds of queries occur, instead of at random; see
            :func:`question_kind`.
        keep: examples at most.
        scored: keep the best; else any that ran, at random.
        programs: drawn for each labelled sample; several are drawn warm, so that a reading which
            the greedy program never takes is tried, too.
        agree: of the right ones keep those that others bear out (:class:`Selection`).
    """

    api: str
    shots: int = 100
    chosen: bool = False
    keep: int = 16
    scored: bool = True
    programs: int = 1
    agree: bool = False

    @property
    def name(self) -> str:
        """Return the name used in folders and tables."""
        how = "chosen" if self.chosen else "random"
        count = f", {self.programs} programs each" if self.programs > 1 else ""
        choice = "best" if self.scored else "at random"
        return f"{self.shots} {how}{count}, {self.keep} {choice}{' that agree' * self.agree}"


@dataclass(frozen=True)
class Cell:
    """One configuration.

    Attributes:
        name: unique among the cells of a reproduction.
        options: of every run.
        mining: of its examples; None shows none.
        thresholds: sensitivities kept at these values, where they are not tuned.
        writer: name of the language model, as the runner knows it.
        times: asks so many times the usual number of samples, for gains that few samples show.
    """

    name: str
    options: RunOptions
    mining: Mining | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)
    writer: str = "main"
    times: int = 1


@dataclass(frozen=True)
class Scale:
    """How much is measured.

    Attributes:
        samples: of each part under each seed.
        seeds: each with its own samples, shots and sampling.
        pool: labelled samples of each part and seed that are answered once and that all its
            banks are mined from.
    """

    samples: int
    seeds: tuple[int, ...]
    pool: int = 100


@dataclass(frozen=True)
class StoredRun:
    """One stored run: a cell on one part under one seed, or the mining for its banks.

    Attributes:
        name: the cell's, or what is mined.
        answers: how many it comes to.
        folder: of the run.
    """

    name: str
    part: str
    seed: int
    answers: int
    folder: Path
    mines: bool = False

    def stored(self) -> int:
        """Return the number of answers that are already stored."""
        try:
            with RunStore.read(self.folder) as store:
                return len(store.done())
        except (UsageError, StoreError):  # not begun, or ended before its first row
            return 0


# Is told of a step at each new answer, with None, then with the mean of its scores.
Tell = Callable[[StoredRun, float | None], None]


# Language models by name, each over the vision models that all share.
Writers = Mapping[str, Components]

# A profile as JSON values.
Document = Mapping[str, Any]


class Stored:
    """Loaded models, and what is kept of their work between the runs of a reproduction.

    Args:
        writers: name to components; all share the vision models of ``main``.
        document: the profile as JSON values, for the runs' manifests.
        folder: takes runs and the language model's answers.
    """

    def __init__(self, writers: Writers, document: Document, folder: Path) -> None:
        self.folder, self.document = folder, document
        self._store = SqliteStore(folder / "programs.db")
        boxes = {parts.toolbox for parts in writers.values()}
        cached = {box: box.with_caches(RESULTS, RESULTS_MB) for box in boxes}
        self.writers = {
            name: replace(
                self._with_stored(parts), examples=NoExamples(), toolbox=cached[parts.toolbox]
            )
            for name, parts in writers.items()
        }
        self._sampled: dict[tuple[Any, ...], SampledEvaluation] = {}

    def _with_stored(self, parts: Components) -> Components:
        roles = [role for role in ("llm", "planner", "seeker", "explorer") if role in parts.models]
        return parts.with_models(
            **{role: CachedLLM(parts.models[role], self._store) for role in roles}
        )

    def close(self) -> None:
        """Close the models and the file of the language model's answers."""
        self._store.close()
        for components in self.writers.values():
            components.close()

    def model_ids(self) -> dict[str, Mapping[str, str]]:
        """Return the identities of each writer's models, with the hashes of their weights."""
        writers = self.writers.items()
        return {name: model_ids(Reasoner(parts, preload=False)) for name, parts in writers}

    def sampled(self, evaluation: Evaluation) -> SampledEvaluation:
        """Return the evaluation with its samples, which many cells share: drawn or read once."""
        key = (evaluation.set_name, evaluation.spec, evaluation.limit, evaluation.ids)
        if key not in self._sampled:
            self._sampled[key] = self._read(evaluation)
        return replace(self._sampled[key], evaluation=evaluation)

    def _read(self, evaluation: Evaluation) -> SampledEvaluation:
        return SampledEvaluation.of(evaluation)


class CellRunner(Stored):
    """Answers the samples of cells, over one set of loaded models.

    Attributes:
        tell: is told of every new answer.
    """

    def __init__(self, writers: Writers, document: Document, folder: Path, scale: Scale) -> None:
        super().__init__(writers, document, folder)
        self.scale = scale
        self.tell: Tell = lambda step, mean: None
        self._media = ComputeCache(RESULTS, MEDIA_MB << 20)
        self._results: dict[tuple[str, str, int], list[SampleResult]] = {}
        self._banks: dict[tuple[Mining, str, int, str], Bank] = {}

    def _read(self, evaluation: Evaluation) -> SampledEvaluation:
        """Draw the samples, with media that are read once for all cells while there is room."""

        def with_cache(sample: Sample) -> Sample:
            key = ("media", evaluation.set_name, evaluation.spec, sample.sample_id)
            return replace(sample, load=lambda: self._media.get(key, sample.load)[0])

        sampled = super()._read(evaluation)
        return replace(sampled, samples=[with_cache(sample) for sample in sampled.samples])

    def test_samples(self, part: Part, seed: int, times: int = 1) -> SampledEvaluation:
        """Return the samples answered for a part under a seed; ``times``: see :class:`Cell`."""
        return self.sampled(part.evaluation(seed, self.scale.samples * times))

    def pool(self, part: Part, seed: int) -> SampledEvaluation:
        """Return the labelled samples from which banks are mined."""
        return self.sampled(part.shots(seed, self.scale.pool))

    def check_seeds(self, cells: Iterable[tuple[Cell, Part]]) -> None:
        """Refuse several seeds that must all give the same answers.

        Raises:
            UsageError: there is a cell whose seeds cannot differ.
        """
        for cell, part in cells:
            if len(self.scale.seeds) > 1 and not self._can_differ(cell, part):
                raise UsageError(
                    f"{part.name}: {len(self.scale.seeds)} seeds ask the same samples, and "
                    f"{cell.name!r} asks its language model at temperature 0, so that all give the "
                    "same answers; give --seeds 1, or a profile with a temperature above 0"
                )

    def _can_differ(self, cell: Cell, part: Part) -> bool:
        """Return whether seeds have samples, shots or sampled programs of their own."""
        mining, seeds = cell.mining, self.scale.seeds
        if cell.options.settings(self.writers[cell.writer].settings).temperature > 0:
            return True
        if mining is not None and mining.programs > 1:  # drawn warm, under each seed
            return True
        if _differ([self.test_samples(part, seed, cell.times).samples for seed in seeds]):
            return True
        return mining is not None and _differ(
            [mined_from(self.pool(part, seed).samples, mining, seed) for seed in seeds]
        )

    def step(self, cell: Cell, part: Part, seed: int) -> StoredRun:
        """Return the run of a cell.

        Raises:
            UsageError: its examples would be mined from samples that it asks.
        """
        test = self.test_samples(part, seed, cell.times)
        if cell.mining is not None:
            _check_apart(part, test, self.pool(part, seed))
        folder = self.folder / "runs" / slug(f"{part.name} {seed}") / slug(cell.name)
        return StoredRun(cell.name, part.name, seed, len(test.samples), folder)

    def mining_step(self, mining: Mining, part: Part, seed: int, writer: str = "main") -> StoredRun:
        """Return the run whose programs become a bank. Banks of one API and writer share it."""
        folder = self.folder / "mining" / _place(mining, part, seed, writer)
        answers = len(self.pool(part, seed).samples) * mining.programs
        name = f"mining {mining.api}, {writer}"
        return StoredRun(name, part.name, seed, answers, folder, mines=True)

    def results(self, cell: Cell, part: Part, seed: int) -> list[SampleResult]:
        """Return one result per sample of a cell. Missing samples are answered now."""
        key = (cell.name, part.name, seed)
        if key not in self._results:
            components = self._components(cell, part, seed)
            sampled = self.test_samples(part, seed, cell.times).under(cell.options)
            self._results[key] = self._answered(self.step(cell, part, seed), components, sampled)
        return self._results[key]

    def all_results(self, cell: Cell, part: Part) -> list[SampleResult]:
        """Return the results of all seeds, seed by seed."""
        return [result for seed in self.scale.seeds for result in self.results(cell, part, seed)]

    def store_of(self, cell: Cell, part: Part, seed: int) -> RunStore:
        """Open the stored run of a cell for reading its traces."""
        self.results(cell, part, seed)
        return RunStore.read(self.step(cell, part, seed).folder)

    def _answered(
        self, step: StoredRun, components: Components, sampled: SampledEvaluation
    ) -> list[SampleResult]:
        has_new = False

        def count_answer(running: RunProgress) -> None:
            nonlocal has_new
            has_new = True
            self.tell(step, None)

        results = answer_all(components, sampled, step.folder, self.document, count_answer)
        if has_new:
            self.tell(step, mean_score(results))
        return results

    def _components(self, cell: Cell, part: Part, seed: int) -> Components:
        components = part.equipped(self.writers[cell.writer], seed)
        if cell.thresholds:
            components = components.with_thresholds(cell.thresholds)
        if cell.mining is None:
            return components
        return replace(components, examples=self.bank(cell.mining, part, seed, cell.writer))

    def bank(self, mining: Mining, part: Part, seed: int, writer: str = "main") -> Bank:
        """Return the mined examples. They are also written to ``banks/`` for readers."""
        key = (mining, part.name, seed, writer)
        if key not in self._banks:
            parts = self.writers[writer]
            sampled = mined_as(self.pool(part, seed), mining, parts.settings.temperature)
            results = self._answered(self.mining_step(mining, part, seed, writer), parts, sampled)
            evaluation, samples = sampled.evaluation, sampled.samples
            source = ExampleSource(evaluation, mining.api, parts.library, parts.llm.model_id)
            ids = {sample.sample_id for sample in mined_from(samples, mining, seed)}
            programs = candidates([r for r in results if r.sample_id in ids], samples, source)
            selection = Selection(mining.keep, mining.agree, not mining.scored, seed)
            examples = select(programs, selection)
            folder = self.folder / "banks" / _place(mining, part, seed, writer)
            write_bank(folder / f"{slug(mining.name)}.jsonl", examples)
            self._banks[key] = Bank(examples)
        return self._banks[key]

    def note(self, cell: Cell, part: Part) -> str:
        """Return the number of examples in the cell's banks, or "" for a cell without examples.

        A model alone never samples; where all seeds ask the same, the note says so.
        """
        if cell.mining is None:
            settings = cell.options.settings(self.writers[cell.writer].settings)
            is_alone = isinstance(strategy(settings.strategy), EndToEndStrategy)
            asked = [self.test_samples(part, seed, cell.times).samples for seed in self.scale.seeds]
            is_same = is_alone and len(asked) > 1 and not _differ(asked)
            return "the same under every seed" if is_same else ""
        banks = [self.bank(cell.mining, part, seed, cell.writer) for seed in self.scale.seeds]
        return f"{spread([len(bank.items) for bank in banks])} examples mined"


def _differ(by_seed: Sequence[Sequence[Sample]]) -> bool:
    return len({tuple(sample.sample_id for sample in own) for own in by_seed}) > 1


def mined_from(samples: Sequence[Sample], mining: Mining, seed: int) -> list[Sample]:
    """Return the shots of the pool: random ones, or each kind of query in turn."""
    if not mining.chosen:
        return choose(samples, mining.shots, seed)
    return of_each_kind(samples, mining.shots, question_kind)


def question_kind(sample: Sample) -> str:
    """Return the kind of a query: of an expression by its words, else as the data set has it.

    Source: Stanić et al. 2024, sec. 3.2, whose 16 examples cover the types of questions, such as
    left and right, front and back, closest to. Differs: words decide, because no person chooses.
    """
    if sample.task != "ground" or "query_type" in sample.groups:
        return kind_of(sample.groups)
    words = set(re.findall(r"\w+", sample.text.lower()))
    return next((kind for kind, own in _KINDS.items() if words & own), "no relation")


def mined_as(
    pool: SampledEvaluation, mining: Mining, temperature: float | None = None
) -> SampledEvaluation:
    """Return the pool, to be answered once without examples, or several times and warm.

    Args:
        temperature: of the profile; where it is 0, several programs are drawn at ``WARM``.
    """
    warmth = (temperature or WARM) if mining.programs > 1 else temperature
    sampled = pool.under(zero_shot().changed(api=mining.api, temperature=warmth))
    (first,) = pool.evaluation.seeds
    seeds = tuple(first + number * _APART for number in range(mining.programs))
    return replace(sampled, evaluation=replace(sampled.evaluation, seeds=seeds))


def _check_apart(part: Part, test: SampledEvaluation, pool: SampledEvaluation) -> None:
    if test.evaluation.set_name != pool.evaluation.set_name:
        return
    ids = {sample.sample_id for sample in test.samples}
    both = sum(sample.sample_id in ids for sample in pool.samples)
    if both:
        raise UsageError(
            f"{part.name}: {both} of {len(pool.samples)} samples to mine from are asked, too; "
            "choose another --shots-split"
        )


def _place(mining: Mining, part: Part, seed: int, writer: str) -> str:
    several = f" {mining.programs} programs" if mining.programs > 1 else ""
    return slug(f"{part.name} {seed} {writer} {mining.api}{several}")
