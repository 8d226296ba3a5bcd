"""The data of a reproduction: parts that are figured apart, each with samples to mine from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from viper.data.registry import data_set
from viper.data.sample import Where
from viper.evaluate.evaluation import Evaluation
from viper.strategies.base import Components
from viper_lab.datasets.world import EDITIONS
from viper_lab.world.queries.meaning import FAMILIES


class Part(Protocol):
    """A part of the data, as ``referring``."""

    @property
    def name(self) -> str:
        """As the tables call it."""
        ...

    def asked(self, seed: int, limit: int) -> Evaluation:
        """What is answered under a seed: at most ``limit`` samples."""
        ...

    def shots(self, seed: int, limit: int) -> Evaluation:
        """What is mined from: at most ``limit`` labelled samples that are never asked."""
        ...

    def equipped(self, components: Components, seed: int) -> Components:
        """The parts that answer under a seed, with what the data brings along."""
        ...


@dataclass(frozen=True)
class WorldPart:
    """One family of the embedded world; each seed has a data set with habits of its own.

    Attributes:
        split: ``val``, or ``test`` at the very end.
    """

    name: str
    split: str = "val"

    def asked(self, seed: int, limit: int) -> Evaluation:
        return self._evaluation(self.split, seed, limit)

    def shots(self, seed: int, limit: int) -> Evaluation:
        return self._evaluation("train", seed, limit)

    def equipped(self, components: Components, seed: int) -> Components:
        return components

    def _evaluation(self, split: str, seed: int, limit: int) -> Evaluation:
        edition = tuple(EDITIONS)[seed % len(EDITIONS)]
        where = Where(None, f"{split}:{self.name}", seed)
        return Evaluation(f"world-{edition}", where, limit, (seed,))


@dataclass(frozen=True)
class SetPart:
    """A whole data set; seeds change sampling and the shots, not the samples that are asked."""

    set_name: str
    root: Path | None
    split: str
    shots_split: str

    @property
    def name(self) -> str:
        """The set's own name."""
        return self.set_name

    def asked(self, seed: int, limit: int) -> Evaluation:
        return Evaluation(self.set_name, Where(self.root, self.split, 0), limit, (seed,))

    def shots(self, seed: int, limit: int) -> Evaluation:
        return Evaluation(self.set_name, Where(self.root, self.shots_split, seed), limit, (seed,))

    def equipped(self, components: Components, seed: int) -> Components:
        return components


def world_parts(split: str = "val") -> list[Part]:
    """The three families."""
    return [WorldPart(name, split) for name in FAMILIES]


def set_part(name: str, root: Path | None, split: str | None, shots_split: str) -> SetPart:
    """Return a data set as a part.

    Raises:
        UnknownNameError: no such set.
    """
    return SetPart(name, root, split or data_set(name).splits[0], shots_split)
