"""The canonical program of a meaning as numbered steps in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from viper.errors import UnknownNameError
from viper.prompting.plans import numbered
from viper_lab.world.queries.meaning import SELECTIONS, Meaning
from viper_lab.world.queries.wording import ORDINALS, RELATIONS, SIDES, plural


def gold_plan(meaning: Meaning) -> str:
    """Return the steps of :func:`viper_lab.world.queries.programs.gold_program`, one per line.

    Raises:
        UnknownNameError: the type has no plan.
    """
    if meaning.type in SELECTIONS:
        return numbered(*_select(meaning, "it"))
    if meaning.type not in CONCLUDED:
        raise UnknownNameError("type of query with a plan", meaning.type, CONCLUDED)
    return numbered(*CONCLUDED[meaning.type](meaning))


def _select(meaning: Meaning, name: str) -> list[str]:
    """Return the steps to one object, which later steps call by ``name``."""
    kind, type_ = meaning["kind"], meaning.type
    if type_ == "unique":
        return [f"Find the {kind}."]
    if type_ in ("extreme", "nth"):
        order = SIDES[meaning["side"]].most
        rank = meaning.slots.get("rank", 1)
        place = "first" if rank == 1 else ORDINALS[int(str(rank)) - 1]
        return [f"Find every {kind}.", f"Order them, the {order} first.", f"Take the {place} one."]
    if type_ == "middle":
        return [f"Find every {kind}.", "Order them from left to right.", "Take the middle one."]
    if type_ == "biggest":
        return [f"Find every {kind}.", f"Take the {meaning['extent']} one."]
    anchor = meaning["anchor"]
    steps = _select(anchor, "anchor")
    if type_ in ("closest", "farthest_from"):
        how = "closest to" if type_ == "closest" else "farthest from"
        return [*steps, f"Find every {kind}.", f"Take the one {how} the {anchor['kind']}."]
    if type_ == "between":
        other = meaning["second_anchor"]
        steps += _select(other, "other anchor")
        last = f"Take the one between the {anchor['kind']} and the {other['kind']}."
        return [*steps, f"Find every {kind}.", last]
    if type_ not in ("region", "region_extreme"):
        raise UnknownNameError("type of query with a plan", type_, PLANNED)
    steps += _in_region(meaning)
    if type_ == "region":
        return [*steps, "Take the first one."]
    return [*steps, f"Take the {SIDES[meaning['side']].most} one."]


# Types of selections that have plans.
PLANNED = (
    *("unique", "extreme", "nth", "middle", "biggest"),
    *("closest", "farthest_from", "between", "region", "region_extreme"),
)


def _in_region(meaning: Meaning) -> list[str]:
    relation = RELATIONS[meaning["relation"]][0]
    return [f"Find every {meaning['kind']} {relation} the {meaning['anchor']['kind']}."]


def _of_one(last: Callable[[Meaning], str]) -> Callable[[Meaning], list[str]]:
    return lambda m: [*_select(m["of"], "it"), last(m)]


def _of_region(last: str) -> Callable[[Meaning], list[str]]:
    return lambda m: [*_select(m["anchor"], "anchor"), *_in_region(m), last]


def _count_filter(meaning: Meaning) -> list[str]:
    return [f"Find every {meaning['kind']}.", f"Keep those that are {meaning['property']}.",
            "Count them."]  # fmt: skip


def _more_of(meaning: Meaning) -> list[str]:
    kinds = meaning["kind"], meaning["other_kind"]
    last = f"Say {plural(kinds[0])} or {plural(kinds[1])}, of whichever there are more."
    return [*(f"Find and count every {kind}." for kind in kinds), last]


# Types of questions that have plans, with the functions that make their steps.
CONCLUDED: Mapping[str, Callable[[Meaning], list[str]]] = {
    "attribute": _of_one(lambda m: f"Ask what {m['attribute']} it has."),
    "choose": _of_one(lambda m: f"Say whether {m['property']} or {m['other_property']} fits it."),
    "verify": _of_one(lambda m: f"Say whether it is {m['property']}."),
    "count": lambda m: [f"Find every {m['kind']}.", "Count them."],
    "count_filter": _count_filter,
    "count_region": _of_region("Count them."),
    "exists_region": _of_region("Say whether there is any."),
    "more_of": _more_of,
}
