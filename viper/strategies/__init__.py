"""Strategies: ways of answering a query with the same tools.

The strategies are ``program`` (ViperGPT), ``plan`` (CLOVA), ``seek`` (AVIS), ``explore`` (DWIM),
``look`` (code on pixels by a model that sees), and models alone.

An installed package adds a strategy by an entry point of the group ``viper.strategies`` that names
a class with the attributes of :class:`viper.strategies.base.Strategy`. The class may have two more:
``settings``, a subclass of :class:`viper.strategies.settings.Settings`, and ``role``, the table of
a profile that names a language model for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pkgutil import resolve_name
from typing import Any, NamedTuple

from viper.plugins import Registry


class StrategyEntry(NamedTuple):
    """A strategy of this package, imported when it is used.

    Attributes:
        target: ``module:Class``, or ``module:function`` that builds the strategy.
        summary: its method, in one line.
        writes_programs: whether it asks a language model for programs.
        settings: ``module:Class`` of its own settings; "" if it has none.
        role: the table of a profile that names its language model; "" for the program writer.
    """

    target: str
    summary: str
    writes_programs: bool = False
    settings: str = ""
    role: str = ""


STRATEGIES: Mapping[str, StrategyEntry] = {
    "program": StrategyEntry(
        "viper.strategies.program:ProgramStrategy",
        "write a program, run it and correct it",
        writes_programs=True,
    ),
    "plan": StrategyEntry(
        "viper.strategies.plan:PlanStrategy",
        "write a numbered plan, then a program that carries it out, and correct it",
        writes_programs=True,
        settings="viper.strategies.examples:PlanSettings",
        role="planner",
    ),
    "seek": StrategyEntry(
        "viper.strategies.seek.strategy:SeekStrategy",
        "plan look-ups step by step, for knowledge that the image does not show",
        settings="viper.strategies.seek:SeekSettings",
        role="seeker",
    ),
    "explore": StrategyEntry(
        "viper.strategies.explore.strategy:ExploreStrategy",
        "act turn by turn; each turn sees the results of the turns before",
        settings="viper.strategies.explore:ExploreSettings",
        role="explorer",
    ),
    "look": StrategyEntry(
        "viper.strategies.explore.strategy:LookStrategy",
        "write code on pixels, look at the pictures that it shows, and go on",
        settings="viper.strategies.explore:LookSettings",
        role="looker",
    ),
    "extract": StrategyEntry(
        "viper.strategies.extract:ExtractStrategy",
        "run the shipped program that reads the fields of a document",
    ),
    "detector": StrategyEntry(
        "viper.strategies.end_to_end:detector",
        "take the best box of the detector for the whole query",
    ),
    "vqa": StrategyEntry(
        "viper.strategies.end_to_end:vqa", "ask the VQA model about the whole image or about frames"
    ),
    "captions": StrategyEntry(
        "viper.strategies.end_to_end:captions",
        "let the language model answer from captions of images or frames",
    ),
    "description": StrategyEntry(
        "viper.strategies.end_to_end:description",
        "let the language model answer from the description of the video model",
    ),
    "llm": StrategyEntry(
        "viper.strategies.end_to_end:language", "let the language model answer without the image"
    ),
}


_REGISTRY = Registry(
    "viper.strategies", "strategy", {name: each.target for name, each in STRATEGIES.items()}
)


def strategy(name: str) -> Any:
    """Build the strategy of that name, with the attributes of ``viper.strategies.base.Strategy``.

    Raises:
        UnknownNameError: no strategy has that name; lists the known ones.
        UsageError: two packages offer the name.
    """
    return _REGISTRY.load(name)()


def strategy_names() -> tuple[str, ...]:
    """Return the names of all strategies, those of installed packages last.

    Raises:
        UsageError: two packages offer one of the names.
    """
    return tuple(_REGISTRY.names())


def settings_class(name: str) -> type[Any] | None:
    """Return the class of a strategy's own settings, or None if it has none."""
    if name in STRATEGIES:
        target = STRATEGIES[name].settings
        return resolve_name(target) if target else None
    return _attribute(name, "settings", None)


def model_roles() -> tuple[str, ...]:
    """Return the roles of language models that strategies have besides the program writer."""
    return tuple(dict.fromkeys(filter(None, map(model_role, strategy_names()))))


def model_role(name: str) -> str:
    """Return the role of a strategy's language model; "" for the program writer."""
    return STRATEGIES[name].role if name in STRATEGIES else _attribute(name, "role", "")


def _attribute(name: str, attribute: str, default: Any) -> Any:
    point = _REGISTRY.find(name)
    try:
        return default if point is None else getattr(point.load(), attribute, default)
    except Exception:  # noqa: BLE001  # a broken package must not break the other strategies
        return default
