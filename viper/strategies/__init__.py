"""Ways of answering with the same tools; ``program`` is ViperGPT's."""

from __future__ import annotations

from viper.errors import UnknownNameError
from viper.strategies.base import Strategy
from viper.strategies.program import ProgramStrategy

STRATEGIES: dict[str, type[Strategy]] = {ProgramStrategy.name: ProgramStrategy}


def strategy(name: str) -> Strategy:
    """The strategy of that name.

    Raises:
        UnknownNameError: listing the known ones.
    """
    if name not in STRATEGIES:
        raise UnknownNameError("strategy", name, STRATEGIES)
    return STRATEGIES[name]()
