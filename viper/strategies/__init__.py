"""Ways of answering with the same tools; ``program`` is ViperGPT's.

An installed package adds one by an entry point of the group ``viper.strategies`` that
names a class with :class:`viper.strategies.base.Strategy`'s attributes.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from viper.errors import UnknownNameError
from viper.strategies.base import Strategy
from viper.strategies.program import ProgramStrategy

ENTRY_POINTS = "viper.strategies"

STRATEGIES: dict[str, type[Strategy]] = {ProgramStrategy.name: ProgramStrategy}


def strategy(name: str) -> Strategy:
    """The strategy of that name.

    Raises:
        UnknownNameError: listing the known ones.
    """
    if name in STRATEGIES:
        return STRATEGIES[name]()
    installed = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in installed:
        raise UnknownNameError("strategy", name, [*STRATEGIES, *installed])
    found: Strategy = installed[name].load()()
    return found
