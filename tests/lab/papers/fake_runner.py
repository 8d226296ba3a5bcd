"""A runner whose cells are answered already, and parts of made-up samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from viper.data.sample import DatasetSpec
from viper.evaluate.evaluation import Evaluation
from viper.evaluate.sample_result import SampleResult
from viper_lab.papers.cell_runner import Cell, Scale
from viper_lab.papers.parts import Part

Score = Callable[[str, str, int, int], float]
"""Of a cell's name, a part's name, a seed and a sample's number."""


@dataclass(frozen=True)
class APart:
    """A part that is only a name."""

    name: str

    def evaluation(self, seed: int, limit: int) -> Evaluation:
        return Evaluation("own.csv", DatasetSpec(None, "all", seed), limit, (seed,))

    def shots(self, seed: int, limit: int) -> Evaluation:
        return Evaluation("shots.csv", DatasetSpec(None, "all", seed), limit, (seed,))


REFERRING, QUESTION, VIDEO = APart("referring"), APart("question"), APart("video")
FAMILIES = (REFERRING, QUESTION, VIDEO)


class FakeRunner:
    """Gives rows as ``score`` says; ``traces`` gives how many programs a sample took.

    Attributes:
        asked: cell, part and seed of every call.
    """

    def __init__(
        self,
        score: Score,
        samples: int = 40,
        seeds: tuple[int, ...] = (0, 1),
        corrections: Callable[[str, int], Sequence[str]] = lambda cell, number: ("first",),
        groups: Callable[[int], Mapping[str, str]] = lambda number: {},
    ) -> None:
        self.scale = Scale(samples, seeds)
        self._score, self._corrections, self._groups = score, corrections, groups
        self.asked: list[tuple[str, str, int]] = []

    def results(self, cell: Cell, part: Part, seed: int) -> list[SampleResult]:
        self.asked.append((cell.name, part.name, seed))
        return [
            SampleResult(
                f"{part.name}-{seed}-{number}",
                seed,
                self._score(cell.name, part.name, seed, number),
                groups=self._groups(number),
                cluster=f"{part.name}-{seed}-picture-{number // 2}",
            )
            for number in range(self.scale.samples)
        ]

    def all_results(self, cell: Cell, part: Part) -> list[SampleResult]:
        return [row for seed in self.scale.seeds for row in self.results(cell, part, seed)]

    def note(self, cell: Cell, part: Part) -> str:
        return "" if cell.mining is None else "16 examples mined"

    def store_of(self, cell: Cell, part: Part, seed: int) -> FakeStore:
        return FakeStore(cell.name, self._corrections)


@dataclass
class FakeStore:
    """Traces by the number that ends a sample's id."""

    cell: str
    corrections: Callable[[str, int], Sequence[str]]

    def __enter__(self) -> FakeStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None
    ) -> None:
        return None

    def trace(self, sample_id: str, seed: int) -> dict[str, Any] | None:
        found = self.corrections(self.cell, int(sample_id.rpartition("-")[2]))
        return {"trials": [{"correction": one} for one in found]} if found else None


def share(shares: dict[str, float], default: float = 0.5) -> Score:
    """Scores 1 for that share of a cell's samples, always the first of them, else 0.

    A key is a cell's name, or one with a part: ``+ ACE @ video``.
    """

    def score(cell: str, part: str, seed: int, number: int) -> float:
        wanted = shares.get(f"{cell} @ {part}", shares.get(cell, default))
        return float(number < 40 * wanted)

    return score
