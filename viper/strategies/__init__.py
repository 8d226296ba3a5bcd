"""Ways of answering with the same tools.

``program`` (ViperGPT), ``plan`` (CLOVA), ``seek`` (AVIS), ``explore`` (DWIM), and models alone.

An installed package adds one by an entry point of the group ``viper.strategies`` that
names a class with :class:`viper.strategies.base.Strategy`'s attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, NamedTuple

from viper.errors import UnknownNameError

if TYPE_CHECKING:
    from viper.strategies.base import Strategy

ENTRY_POINTS = "viper.strategies"


class Shipped(NamedTuple):
    """A strategy of this package, imported when it is used.

    Attributes:
        target: ``module:Class``.
        summary: what it does, in a line.
        writes_programs: whether a language model is asked for programs.
    """

    target: str
    summary: str
    writes_programs: bool = False


STRATEGIES: Mapping[str, Shipped] = {
    "program": Shipped(
        "viper.strategies.program:ProgramStrategy",
        "write a program, run it, correct it",
        writes_programs=True,
    ),
    "plan": Shipped(
        "viper.strategies.plan:PlanStrategy",
        "write a numbered plan, then the program that carries it out, and correct it",
        writes_programs=True,
    ),
    "seek": Shipped(
        "viper.strategies.seek.strategy:SeekStrategy",
        "look for what the picture alone cannot tell, one step after the other",
    ),
    "explore": Shipped(
        "viper.strategies.explore.strategy:ExploreStrategy",
        "act turn by turn, see what each turn gave, and go on from there",
    ),
    "detector": Shipped(
        "viper.strategies.end_to_end:DetectorStrategy",
        "the detector's best box for the whole query",
    ),
    "vqa": Shipped(
        "viper.strategies.end_to_end:VqaStrategy",
        "the VQA model is asked about the whole picture, or about frames",
    ),
    "captions": Shipped(
        "viper.strategies.end_to_end:CaptionsStrategy",
        "the language model answers from captions of pictures or frames",
    ),
    "description": Shipped(
        "viper.strategies.end_to_end:DescriptionStrategy",
        "the language model answers from the video model's description",
    ),
    "llm": Shipped(
        "viper.strategies.end_to_end:LanguageStrategy",
        "the language model answers without looking",
    ),
}


def strategy(name: str) -> Strategy:
    """The strategy of that name.

    Raises:
        UnknownNameError: listing the known ones.
    """
    if name in STRATEGIES:
        module, _, class_name = STRATEGIES[name].target.partition(":")
        shipped: Strategy = getattr(import_module(module), class_name)()
        return shipped
    installed = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in installed:
        raise UnknownNameError("strategy", name, [*STRATEGIES, *installed])
    found: Strategy = installed[name].load()()
    return found
