"""Ambiguous queries, whose meaning the annotator conventions of their data set decide.

An ambiguous query has a meaning like any other, which gives its program and its answer. The slot
``vague`` names the wording that hides a part of it. The same wording denotes another meaning under
other conventions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from viper_lab.world.queries import temporal
from viper_lab.world.queries.conventions import Conventions
from viper_lab.world.queries.lexicon import WORLD, NoSuchNounError, Nouns, head
from viper_lab.world.queries.meaning import AMBIGUOUS_SHARES, Meaning, SlotValue
from viper_lab.world.queries.selections import PROPERTY_FAMILIES, draw_anchor, draw_selection

OPPOSITE: Mapping[str, str] = {"left": "right", "right": "left", "front": "back", "below": "above"}

# Meaning of "after" if "before" is a side.
AFTER: Mapping[str, str] = {"left": "right", "front": "behind", "below": "above"}

# Share of each sort of ambiguous query in a family. In a question about an ambiguous phrase's
# object, the phrase is drawn from ``SELECTIONS``.
WEIGHTS = AMBIGUOUS_SHARES

# Ambiguous phrases for one object, with their shares.
SELECTIONS = WEIGHTS["referring"]


def wording(meaning: Meaning) -> str | None:
    """Return the ambiguous wording of a meaning or of one in its slots; None if all is explicit."""
    if "vague" in meaning:
        return str(meaning["vague"])
    for value in meaning.slots.values():
        inner = wording(value) if isinstance(value, Meaning) else None
        if inner is not None:
            return inner
    return None


def draw_ambiguous(
    family: str, sort: str, nouns: Nouns | Sequence[str], random: Random, conventions: Conventions
) -> Meaning:
    """Draw a meaning that the conventions give to an ambiguous wording, with random slots.

    Args:
        sort: a key of ``WEIGHTS[family]``.
        nouns: for ``video`` the names of a clip's objects.

    Raises:
        NoSuchNounError: the nouns' scene has nothing that fits.
    """
    if isinstance(nouns, Nouns):
        draw = _SELECT if family == "referring" else _ASK
        return draw[sort](nouns, random, conventions)
    return _draw_clip(sort, nouns, random, conventions)


# One object of a scene.


def _counted(nouns: Nouns, random: Random, conventions: Conventions) -> Meaning:
    rank = random.choices((1, 2, 3, 4), (3, 5, 3, 1))[0]
    side = conventions.counted_from
    return Meaning("nth", {"kind": nouns.many(), "side": side, "rank": rank, "vague": "counted"})


def _last(nouns: Nouns, random: Random, conventions: Conventions) -> Meaning:
    side = OPPOSITE[conventions.counted_from]
    return Meaning("extreme", {"kind": nouns.many(), "side": side, "vague": "last"})


def _any(nouns: Nouns, random: Random, conventions: Conventions) -> Meaning:
    slots = {"kind": nouns.many(), "vague": "any"}
    if conventions.singled_out == "biggest":
        return Meaning("biggest", {**slots, "extent": "biggest"})
    return Meaning("extreme", {**slots, "side": conventions.singled_out})


def _region(sort: str) -> Callable[[Nouns, Random, Conventions], Meaning]:
    def draw(nouns: Nouns, random: Random, conventions: Conventions) -> Meaning:
        kind = nouns.some(general=False)
        return Meaning("region", _beside_slots(kind, sort, nouns, random, conventions))

    return draw


def _beside_slots(
    kind: str, sort: str, nouns: Nouns, random: Random, conventions: Conventions
) -> dict[str, SlotValue]:
    relation = conventions.before if sort == "before" else AFTER[conventions.before]
    anchor = draw_anchor(nouns, random, avoid=head(kind), two_hop=0.2)
    return {"kind": kind, "relation": relation, "anchor": anchor, "vague": sort}


def _large(nouns: Nouns, random: Random, conventions: Conventions) -> Meaning:
    if nouns.lexicon.sizes != WORLD.sizes:  # nothing tells which invented size is the large one
        raise NoSuchNounError
    kind = nouns.many(without=("size",))
    extent = random.choice(("biggest", "biggest", "smallest"))
    slots = {"said": kind, "extent": extent, "vague": "large"}
    if conventions.large == "kind":
        return Meaning("biggest", {"kind": kind, **slots})
    big, small = nouns.lexicon.sizes
    return Meaning("unique", {"kind": f"{big if extent == 'biggest' else small} {kind}", **slots})


_SELECT: Mapping[str, Callable[[Nouns, Random, Conventions], Meaning]] = {
    "counted": _counted,
    "last": _last,
    "any": _any,
    "before": _region("before"),
    "after": _region("after"),
    "large": _large,
}


# Questions about a scene.


def _ambiguous_noun(nouns: Nouns, random: Random, conventions: Conventions, family: str) -> Meaning:
    """Draw an ambiguous phrase for an object that an attribute of a family may be asked of."""
    sort = random.choices(tuple(SELECTIONS), tuple(SELECTIONS.values()))[0]
    meaning = _SELECT[sort](nouns, random, conventions)
    kind = str(meaning["kind"])
    named = family == "shape" or any(word in nouns.lexicon.family(family) for word in kind.split())
    if named or (family == "size" and sort == "large"):
        raise NoSuchNounError
    return meaning


def _attribute(nouns: Nouns, random: Random, conventions: Conventions) -> Meaning:
    family = random.choices(PROPERTY_FAMILIES, (8, 2, 2))[0]
    return Meaning(
        "attribute",
        {"of": _ambiguous_noun(nouns, random, conventions, family), "attribute": family},
    )


def _choose(nouns: Nouns, random: Random, conventions: Conventions) -> Meaning:
    family = random.choices(PROPERTY_FAMILIES, (8, 2, 2))[0]
    first, second = random.sample(nouns.lexicon.family(family), 2)
    of = _ambiguous_noun(nouns, random, conventions, family)
    return Meaning("choose", {"of": of, "property": first, "other_property": second})


def _looks(nouns: Nouns, random: Random, conventions: Conventions) -> Meaning:
    type_ = random.choice(("unique", "extreme", "closest", "nth"))
    of = draw_selection(type_, nouns, random, without=(conventions.looks,))
    return Meaning("attribute", {"of": of, "attribute": conventions.looks, "vague": "looks"})


def _several(nouns: Nouns, random: Random, conventions: Conventions) -> Meaning:
    named = random.choice(((), (), ("color",), ("material",), ("size",)))
    kind = nouns.some(general=bool(named) and random.random() < 0.5, only=named)
    return Meaning("several", {"kind": kind, "least": int(conventions.several), "vague": "several"})


def _comes_first(nouns: Nouns, random: Random, conventions: Conventions) -> Meaning:
    first = nouns.one()
    pair = {"first": first, "second": nouns.one(avoid=head(first))}
    slots = {name: Meaning("unique", {"kind": kind}) for name, kind in pair.items()}
    return Meaning(
        "which_farther", {**slots, "side": conventions.counted_from, "vague": "comes_first"}
    )


def _region_question(type_: str) -> Callable[[Nouns, Random, Conventions], Meaning]:
    def draw(nouns: Nouns, random: Random, conventions: Conventions) -> Meaning:
        kind = nouns.some(general=False, only=random.choice(((), (), ("color",), ("material",))))
        sort = random.choice(("before", "after"))
        return Meaning(type_, _beside_slots(kind, sort, nouns, random, conventions))

    return draw


_ASK: Mapping[str, Callable[[Nouns, Random, Conventions], Meaning]] = {
    "attribute": _attribute,
    "choose": _choose,
    "looks": _looks,
    "several": _several,
    "comes_first": _comes_first,
    "count_region": _region_question("count_region"),
    "exists_region": _region_question("exists_region"),
}


# Clips.


def ambiguous_types(sort: str, conventions: Conventions) -> tuple[str, str]:
    """Return the explicit type of an ambiguous question about a clip, and its wording."""
    if sort == "meets":
        return conventions.meets, "meets"
    verb, _, when = sort.partition("_")
    return f"{verb}_{conventions.when if when else conventions.deed}", sort


def _draw_clip(
    sort: str, names: Sequence[str], random: Random, conventions: Conventions
) -> Meaning:
    type_, words = ambiguous_types(sort, conventions)
    meaning = temporal.draw_temporal(type_, names, random)
    return Meaning(type_, {**meaning.slots, "vague": words})
