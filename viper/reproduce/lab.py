"""Answers the cells of a reproduction: each a stored run that goes on where it was cut off."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from viper.ace.bank import Bank, write_bank
from viper.ace.select import Selection, select
from viper.data.registry import chosen
from viper.data.sample import Sample
from viper.evaluate.answered import answered
from viper.evaluate.engines.runner import Running
from viper.evaluate.evaluation import Evaluation
from viper.evaluate.mining import Source, candidates, kind_of, zero_shot
from viper.evaluate.row import Row
from viper.evaluate.runs.store import RunStore
from viper.llm.cache import CachedLLM, SqliteStore
from viper.reasoner import RunOptions
from viper.reproduce.parts import Part
from viper.strategies.base import Components, NoExamples

POOL = 100
"""Labelled samples that are answered once for all banks of a part and seed."""


@dataclass(frozen=True)
class Mining:
    """How a bank of examples is mined.

    Attributes:
        api: whose programs.
        shots: labelled samples.
        chosen: take them so that all kinds of queries occur, instead of at random (the paper's
            authors chose by hand).
        keep: examples at most.
        scored: keep the best; else any that ran, at random.
    """

    api: str
    shots: int = 100
    chosen: bool = False
    keep: int = 16
    scored: bool = True

    @property
    def name(self) -> str:
        """As folders and tables call it."""
        how = "chosen" if self.chosen else "random"
        return f"{self.shots} {how}, {self.keep} {'best' if self.scored else 'at random'}"


@dataclass(frozen=True)
class Cell:
    """One configuration.

    Attributes:
        name: unique among the cells of a reproduction.
        options: of every run.
        mining: of its examples; None shows none.
        thresholds: sensitivities kept at these values, where they are not tuned.
        writer: name of the language model, as the lab knows it.
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
    """

    samples: int
    seeds: tuple[int, ...]


Report = Callable[[str, Running], None]


class Lab:
    """Cells to rows, over one set of loaded models.

    Args:
        writers: name to components; all share the vision models of ``main``.
        document: the profile as JSON values, for the runs' manifests.
        folder: takes runs, banks and the language model's answers.
        report: called after every answer with the cell's name.
    """

    def __init__(
        self,
        writers: Mapping[str, Components],
        document: Mapping[str, Any],
        folder: Path,
        scale: Scale,
        report: Report = lambda name, running: None,
    ) -> None:
        self.scale, self.folder = scale, folder
        self._store = SqliteStore(folder / "programs.db")
        self.writers = {
            name: replace(parts, llm=CachedLLM(parts.llm, self._store), examples=NoExamples())
            for name, parts in writers.items()
        }
        self._document, self._report = document, report
        self._rows: dict[tuple[str, str, int], list[Row]] = {}
        self._banks: dict[tuple[Mining, str, int, str], Bank] = {}

    def close(self) -> None:
        """Closes the file of the language model's answers."""
        self._store.close()

    def rows(self, cell: Cell, part: Part, seed: int) -> list[Row]:
        """The judged rows of a cell, one a sample; answered now if they are not stored yet."""
        key = (cell.name, part.name, seed)
        if key not in self._rows:
            components = self._components(cell, part, seed)
            asked = part.asked(seed, self.scale.samples * cell.times)
            folder = self.folder / "runs" / _slug(f"{part.name} {seed}") / _slug(cell.name)
            self._rows[key] = self.answered(
                cell.name, components, replace(asked, options=cell.options), folder
            )
        return self._rows[key]

    def all_rows(self, cell: Cell, part: Part) -> list[Row]:
        """The rows of all seeds, in their order."""
        return [row for seed in self.scale.seeds for row in self.rows(cell, part, seed)]

    def store_of(self, cell: Cell, part: Part, seed: int) -> RunStore:
        """The stored run of a cell that :meth:`rows` answered, for reading its traces."""
        self.rows(cell, part, seed)
        folder = self.folder / "runs" / _slug(f"{part.name} {seed}") / _slug(cell.name)
        return RunStore.read(folder)

    def answered(
        self, name: str, components: Components, evaluation: Evaluation, folder: Path
    ) -> list[Row]:
        """The rows of an evaluation, kept in a run's folder."""
        return answered(
            components,
            evaluation,
            folder,
            self._document,
            lambda running: self._report(name, running),
        )

    def _components(self, cell: Cell, part: Part, seed: int) -> Components:
        components = self.writers[cell.writer]
        if cell.thresholds:
            components = components.with_thresholds(cell.thresholds)
        if cell.mining is None:
            return components
        return replace(components, examples=self.bank(cell.mining, part, seed, cell.writer))

    def bank(self, mining: Mining, part: Part, seed: int, writer: str = "main") -> Bank:
        """The mined examples, also written to ``banks/`` for whoever wants to read them."""
        key = (mining, part.name, seed, writer)
        if key not in self._banks:
            place = _slug(f"{part.name} {seed} {writer} {mining.api}")
            components = self.writers[writer]
            asked = replace(part.shots(seed, POOL), options=replace(zero_shot(), api=mining.api))
            name = f"mining {mining.api}, {writer}"
            rows = self.answered(name, components, asked, self.folder / "mining" / place)
            source = Source(
                asked,
                mining.api,
                components.library,
                components.llm.model_id,
                bare=components.settings.prompt_style == "compact",
            )
            samples = asked.samples()
            tried = {one.sample_id for one in mined_from(samples, mining, seed)}
            found = candidates([r for r in rows if r.sample_id in tried], samples, source)
            selection = Selection(mining.keep, at_random=not mining.scored, seed=seed)
            examples = select(found, selection)
            write_bank(self.folder / "banks" / place / f"{_slug(mining.name)}.jsonl", examples)
            self._banks[key] = Bank(examples)
        return self._banks[key]

    def note(self, cell: Cell, part: Part) -> str:
        """How many examples the cell's banks hold, where it has any."""
        if cell.mining is None:
            return ""
        sizes = [
            len(self.bank(cell.mining, part, seed, cell.writer).items) for seed in self.scale.seeds
        ]
        return f"{min(sizes)} to {max(sizes)} examples mined"


def mined_from(samples: Sequence[Sample], mining: Mining, seed: int) -> list[Sample]:
    """The shots among the pool: any, or of each kind of query in turn."""
    if not mining.chosen:
        return chosen(samples, mining.shots, seed)
    by_kind: dict[str, list[Sample]] = {}
    for sample in samples:
        by_kind.setdefault(kind_of(sample.groups), []).append(sample)
    turns = [
        (turn, place, sample)
        for place, kind in enumerate(by_kind.values())
        for turn, sample in enumerate(kind)
    ]
    return [sample for *_, sample in sorted(turns, key=lambda one: one[:2])][: mining.shots]


def _slug(name: str) -> str:
    """A name for a folder."""
    return re.sub(r"[^a-z0-9.+]+", "-", name.lower()).strip("-")
