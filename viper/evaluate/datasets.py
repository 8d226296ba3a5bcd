"""Sets of labelled samples by name: the embedded world's, and those of installed packages."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Protocol

from viper.ace.mine import Labelled
from viper.errors import UnknownNameError

ENTRY_POINTS = "viper.datasets"
"""Group under which a package offers a function ``(split, seed, limit) -> samples``."""


class DataSet(Protocol):
    """Gives labelled samples; the same ones for the same arguments."""

    def __call__(self, split: str, seed: int, limit: int) -> Sequence[Labelled]: ...


def data_set(name: str) -> DataSet:
    """The set of that name.

    Raises:
        UnknownNameError: neither shipped nor offered by an installed package.
    """
    if name == "world":
        return world
    installed = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in installed:
        raise UnknownNameError("data set", name, ["world", *installed])
    found: DataSet = installed[name].load()
    return found


def world(split: str, seed: int, limit: int) -> Sequence[Labelled]:
    """Fresh queries of the embedded world, as many of each family."""
    from viper.evaluate.world_samples import labelled
    from viper.world.queries.generate import generate
    from viper.world.queries.meaning import FAMILIES

    each = max(1, limit // len(FAMILIES))
    return [
        labelled(sample) for family in FAMILIES for sample in generate(family, split, seed, each)
    ]
