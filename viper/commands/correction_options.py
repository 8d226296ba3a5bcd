"""How programs are asked for, corrected and voted on: options of ``viper run`` and ``viper eval``.

None keeps what the profile says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_origin

import click

from viper.commands.option_groups import Decorator, options
from viper.errors import UsageError
from viper.strategies.settings import Setting, all_settings

if TYPE_CHECKING:
    from viper.profiles.wiring import Profile

OF_THE_PROFILE = ("examples_bank", "thresholds")
"""Options that :func:`changed_profile` reads."""


def _option(one: Setting) -> Decorator:
    """The option of a setting; None where it is not given."""
    declared = one.declaration
    given: dict[str, Any] = {"default": None, "help": one.help.replace("`", "")}
    if declared.metavar:
        given["metavar"] = declared.metavar
    if get_origin(one.type) is tuple:
        given |= {"multiple": True}
    elif declared.choices:
        given["type"] = click.Choice(declared.choices)
    elif one.type in _RANGES:
        given["type"] = _RANGES[one.type](declared.least, declared.most)
    return click.option(one.option, _parameter(one), **given)


def _parameter(one: Setting) -> str:
    return f"setting_{one.name}"


def _offered() -> list[Setting]:
    return [one for one in all_settings().values() if one.declaration.cli]


_RANGES: dict[Any, Any] = {int: click.IntRange, float: click.FloatRange}

correction_options = options(
    click.option("--bank", "examples_bank", metavar="FILE",
                 help="Examples to show instead of the profile's."),
    click.option("--threshold", "thresholds", multiple=True, metavar="NAME=VALUE",
                 help="Where a threshold starts, as detector.threshold=0.2; repeatable."),
    *map(_option, _offered()),
)  # fmt: skip
"""``--bank``, ``--threshold``, and an option for each setting that the command line offers."""


def run_changes(given: Mapping[str, Any]) -> dict[str, Any]:
    """What the options ask of ``RunOptions``.

    Raises:
        UsageError: examples are asked for and refused at once.
    """
    changes = {one.name: given[_parameter(one)] for one in _offered()}
    if not given.get("examples", True):
        for value, spelled in (
            (changes["examples"], "--n-examples"),
            (given["examples_bank"], "--bank"),
        ):
            if value:
                raise UsageError(f"--zero-shot shows no examples; leave out {spelled} or that")
    return {name: None if value == () else value for name, value in changes.items()}


def changed_profile(profile: Profile, given: Mapping[str, Any]) -> Profile:
    """The profile with the bank and the thresholds that the options name.

    Raises:
        UsageError: a threshold that is no ``NAME=VALUE``.
        UnknownNameError: a threshold that the profile does not have; lists those it has.
    """
    if given.get("examples_bank"):
        profile = profile.with_bank(given["examples_bank"])
    if given.get("thresholds"):
        profile = profile.with_thresholds(_values(given["thresholds"]))
    return profile


def _values(texts: Sequence[str]) -> dict[str, float]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not equals or not math.isfinite(number):
            raise UsageError(
                f"--threshold {text!r}: expected NAME=VALUE, as detector.threshold=0.2"
            )
        found[name.strip()] = number
    return found
