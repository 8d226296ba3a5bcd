"""How programs are asked for, corrected and voted on: options of ``viper run`` and ``viper eval``.

None keeps what the profile says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from viper.commands.option_groups import options
from viper.errors import UnknownNameError, UsageError
from viper.schema import EXAMPLE_ORDERS, FALLBACKS, MAX_VOTES, RETRIEVALS

if TYPE_CHECKING:
    from viper.profiles.wiring import Profile

OF_THE_PROFILE = ("examples_bank", "thresholds")
"""Options that :func:`changed_profile` reads."""

_MOST_EXAMPLES = 1_000

_OF_A_RUN = {
    name: name
    for name in (
        "trials", "temperature", "feedback", "self_tune", "votes", "retrieval", "example_order",
        "fallback", "max_llm_calls", "max_llm_tokens", "graph", "decisions", "max_steps",
        "without_actions", "max_cost_usd", "max_turns", "max_seconds",
    )
} | {"n_examples": "examples"}  # fmt: skip
"""Options by the setting of ``RunOptions`` that they change."""


correction_options = options(
    click.option("--trials", type=click.IntRange(1, 50), help="Programs written at most."),
    click.option("--temperature", type=click.FloatRange(0, 2), help="Of the first program."),
    click.option("--feedback/--from-scratch", default=None,
                 help="Show the program that failed and its error when asking for another."),
    click.option("--self-tune/--no-self-tune", default=None,
                 help="Lower a threshold that is to blame and run the same program again."),
    click.option("--votes", type=click.IntRange(1, MAX_VOTES), metavar="N",
                 help=f"Answer up to N times, at most {MAX_VOTES}; the commonest counts."),
    click.option("--n-examples", type=click.IntRange(0, _MOST_EXAMPLES), metavar="N",
                 help="In-context examples shown at most."),
    click.option("--retrieval", type=click.Choice(RETRIEVALS),
                 help="Examples: the bank's first, or those most like the query."),
    click.option("--example-order", type=click.Choice(EXAMPLE_ORDERS),
                 help="rising: the best example stands last, next to the query."),
    click.option("--bank", "examples_bank", metavar="FILE",
                 help="Examples to show instead of the profile's."),
    click.option("--threshold", "thresholds", multiple=True, metavar="NAME=VALUE",
                 help="Where a threshold starts, as detector.threshold=0.2; repeatable."),
    click.option("--max-llm-calls", type=click.IntRange(0), metavar="N",
                 help="Requests to the program writer for one query at most; 0: no bound."),
    click.option("--max-llm-tokens", type=click.IntRange(0), metavar="N",
                 help="Its tokens for one query, after which it is asked no more."),
    click.option("--max-cost", "max_cost_usd", type=click.FloatRange(0), metavar="USD",
                 help="What one query may cost, where the model's price is known."),
    click.option("--graph", metavar="NAME|FILE.toml",
                 help="seek: what may be done after what; every: all of it."),
    click.option("--decisions", metavar="FILE.jsonl",
                 help="seek: what people did, as examples for the planner."),
    click.option("--max-steps", type=click.IntRange(1, 1_000), metavar="N",
                 help="seek: actions for one query at most."),
    click.option("--without", "without_actions", multiple=True, metavar="ACTION",
                 help="seek: do without an action or a group (seeing, object, search, llm)."),
    click.option("--max-turns", type=click.IntRange(1, 1_000), metavar="N",
                 help="explore: turns for one query at most; then the best answer counts."),
    click.option("--max-seconds", type=click.FloatRange(0), metavar="S",
                 help="explore: no further turn after so long; 0: no bound."),
    click.option("--fallback", type=click.Choice(FALLBACKS),
                 help="What answers, marked as such, when every trial failed."),
)  # fmt: skip
"""``--trials`` to ``--fallback``."""


def run_changes(given: Mapping[str, Any]) -> dict[str, Any]:
    """What the options ask of ``RunOptions``.

    Raises:
        UsageError: examples are asked for and refused at once.
        UnknownNameError: an action that there is not.
    """
    if not given.get("examples", True):
        for name, spelled in (("n_examples", "--n-examples"), ("examples_bank", "--bank")):
            if given[name]:
                raise UsageError(f"--zero-shot shows no examples; leave out {spelled} or that")
    changes = {setting: given[option] for option, setting in _OF_A_RUN.items()}
    changes["without_actions"] = _actions(given["without_actions"])
    return changes


def _actions(named: Sequence[str]) -> tuple[str, ...] | None:
    """Actions, a group standing for all of its own; None where none is named.

    Raises:
        UnknownNameError: neither.
    """
    from viper.strategies.seek.names import ACTIONS, GROUPS

    for one in named:
        if one not in ACTIONS and one not in GROUPS:
            raise UnknownNameError("action or group of actions", one, [*ACTIONS, *GROUPS])
    found = dict.fromkeys(each for one in named for each in GROUPS.get(one, (one,)))
    return tuple(found) or None


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
