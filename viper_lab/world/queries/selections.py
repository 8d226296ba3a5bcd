"""Selections: the phrases that denote one object of a scene, and how they are drawn and said."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random

from viper_lab.world.queries.lexicon import Nouns, head, is_general
from viper_lab.world.queries.meaning import Meaning
from viper_lab.world.queries.wording import (
    EXTENTS,
    ORDINALS,
    RELATIONS,
    SIDES,
    VAGUE_EXTENTS,
    VAGUE_RELATIONS,
    Templates,
    a,
    plural,
    read_templates,
)

TEMPLATES, SELECTION_TEMPLATES = read_templates("selections"), read_templates("vague_selections")


_Draw = Callable[[Nouns, Random, bool | None, Collection[str]], Meaning]

PROPERTY_FAMILIES = ("color", "material", "size")


def say_selection(meaning: Meaning, random: Random, split: str) -> tuple[str, str]:
    """The template's name and a noun phrase for a selection, ``the leftmost cube``."""
    name, text = _templates(meaning).pick(random, split)
    return name, text.format(**_fillers(meaning, random, split))


def say_anchor(meaning: Meaning, random: Random, split: str) -> str:
    """A selection inside a longer phrase."""
    if meaning.type == "unique":
        return f"the {meaning['kind']}"
    templates = (
        TEMPLATES["nested_extreme"] if meaning.type == "extreme" else TEMPLATES[meaning.type]
    )
    return templates.pick(random, split)[1].format(**_fillers(meaning, random, split))


def _templates(meaning: Meaning) -> Templates:
    """The ways of saying a selection, those of its vague wording if it has one."""
    return SELECTION_TEMPLATES.get(str(meaning.slots.get("vague")), TEMPLATES[meaning.type])


def relation_words(meaning: Meaning) -> Sequence[str]:
    """How the relation of a meaning may be called, vaguely if it is meant to be."""
    if "vague" in meaning:
        return VAGUE_RELATIONS[meaning["vague"]]
    return RELATIONS[meaning["relation"]]


def _fillers(meaning: Meaning, random: Random, split: str) -> dict[str, str]:
    kind = str(meaning.slots.get("said") or meaning["kind"])
    words: dict[str, str] = {"k": kind, "ks": plural(kind), "ak": a(kind)}
    if "side" in meaning:
        side = SIDES[meaning["side"]]
        words.update(most=side.most, alt=side.alt, place=side.place, edge=side.edge)
    if "rank" in meaning:
        words["nth"] = ORDINALS[meaning["rank"] - 1]
    if "extent" in meaning:
        words["most"] = random.choice(EXTENTS[meaning["extent"]])
        words["large"] = random.choice(VAGUE_EXTENTS[meaning["extent"]])
    if "relation" in meaning:
        words["rel"] = random.choice(relation_words(meaning))
    if "property" in meaning:
        words["prop"] = meaning["property"]
    if "other_kind" in meaning:
        words["o"] = meaning["other_kind"]
    if "anchor" in meaning:
        words["a"] = say_anchor(meaning["anchor"], random, split)
    if "second_anchor" in meaning:
        words["b"] = say_anchor(meaning["second_anchor"], random, split)
    return words


def draw_selection(
    type_: str,
    nouns: Nouns,
    random: Random,
    *,
    without: Collection[str] = (),
    general: bool | None = None,
) -> Meaning:
    """A selection of a type, slots drawn at random.

    Args:
        without: attribute families that must not be named in the kind.
        general: whether the kind's noun is ``thing``; None leaves it to chance.

    Raises:
        NoSuchNounError: when the nouns' scene has nothing that fits.
    """
    if "shape" in without:
        general = True
    return _DRAW[type_](nouns, random, general, without)


def draw_anchor(
    nouns: Nouns,
    random: Random,
    *,
    avoid: str | None,
    two_hop: float = 0.35,
    without: Collection[str] = (),
) -> Meaning:
    """A unique object, or (share ``two_hop``) an extreme one, whose noun is not ``avoid``."""
    if random.random() < two_hop:
        kind = nouns.many(general=False, avoid=avoid, without=without)
        return Meaning("extreme", {"kind": kind, "side": random.choice(tuple(SIDES))})
    return Meaning("unique", {"kind": nouns.one(avoid=avoid, without=without)})


def _unique(
    nouns: Nouns, random: Random, general: bool | None, without: Collection[str]
) -> Meaning:
    general = random.random() < 0.25 if general is None else general
    return Meaning("unique", {"kind": nouns.one(general=general, without=without)})


def _extreme(
    nouns: Nouns, random: Random, general: bool | None, without: Collection[str]
) -> Meaning:
    kind = nouns.many(general=general, without=without)
    return Meaning("extreme", {"kind": kind, "side": random.choice(tuple(SIDES))})


def _nth(nouns: Nouns, random: Random, general: bool | None, without: Collection[str]) -> Meaning:
    kind = nouns.many(general=general, without=without)
    rank = random.choices((1, 2, 3, 4), (1, 5, 3, 1))[0]
    return Meaning("nth", {"kind": kind, "side": random.choice(tuple(SIDES)), "rank": rank})


def _middle(
    nouns: Nouns, random: Random, general: bool | None, without: Collection[str]
) -> Meaning:
    return Meaning("middle", {"kind": nouns.many(general=general, without=without)})


def _biggest(
    nouns: Nouns, random: Random, general: bool | None, without: Collection[str]
) -> Meaning:
    kind = nouns.many(general=general, without=without)
    return Meaning("biggest", {"kind": kind, "extent": random.choice(tuple(EXTENTS))})


def _to_anchor(type_: str) -> _Draw:
    def draw(
        nouns: Nouns, random: Random, general: bool | None, without: Collection[str]
    ) -> Meaning:
        kind = nouns.many(general=general, without=without)
        anchor = draw_anchor(nouns, random, avoid=head(kind))
        return Meaning(type_, {"kind": kind, "anchor": anchor})

    return draw


def draw_region(
    kind: str, nouns: Nouns, random: Random, *, two_hop: float = 0.35
) -> dict[str, str | int | Meaning]:
    """Slots ``relation`` and ``anchor`` for objects of a kind on one side of another object.

    Depth is not compared for ``things``: the anchor would be one of them.
    """
    relations = [r for r in RELATIONS if not (is_general(kind) and r in ("front", "behind"))]
    anchor = draw_anchor(nouns, random, avoid=head(kind), two_hop=two_hop)
    return {"kind": kind, "relation": random.choice(relations), "anchor": anchor}


def _region(
    nouns: Nouns, random: Random, general: bool | None, without: Collection[str]
) -> Meaning:
    return Meaning(
        "region", draw_region(nouns.some(general=general, without=without), nouns, random)
    )


def _region_extreme(
    nouns: Nouns, random: Random, general: bool | None, without: Collection[str]
) -> Meaning:
    slots = draw_region(nouns.many(general=general, without=without), nouns, random, two_hop=0)
    return Meaning("region_extreme", {**slots, "side": random.choice(tuple(SIDES))})


def _filtered_extreme(
    nouns: Nouns, random: Random, general: bool | None, without: Collection[str]
) -> Meaning:
    family = random.choice([f for f in PROPERTY_FAMILIES if f not in without])
    kind = nouns.many(general=general, without={*without, family})
    property_ = random.choice(nouns.lexicon.family(family))
    side = random.choice(tuple(SIDES))
    return Meaning("filtered_extreme", {"kind": kind, "property": property_, "side": side})


def _same_color(
    nouns: Nouns, random: Random, general: bool | None, without: Collection[str]
) -> Meaning:
    general = False if general is None else general
    kind = nouns.some(general=general, without={*without, "color", "size"})
    anchor = draw_anchor(nouns, random, avoid=head(kind), two_hop=0.7)
    return Meaning("same_color", {"kind": kind, "anchor": anchor})


def _between(
    nouns: Nouns, random: Random, general: bool | None, without: Collection[str]
) -> Meaning:
    kind = nouns.some(general=False, without=[f for f in without if f != "shape"])
    anchor, other = (Meaning("unique", {"kind": nouns.one(avoid=head(kind))}) for _ in range(2))
    return Meaning("between", {"kind": kind, "anchor": anchor, "second_anchor": other})


def _near_pair(
    nouns: Nouns, random: Random, general: bool | None, without: Collection[str]
) -> Meaning:
    kind = nouns.many(general=False, without=[f for f in without if f != "shape"])
    other = nouns.many(general=False, avoid=head(kind))
    return Meaning("near_pair", {"kind": kind, "other_kind": other})


_DRAW: Mapping[str, _Draw] = {
    "unique": _unique,
    "extreme": _extreme,
    "nth": _nth,
    "middle": _middle,
    "closest": _to_anchor("closest"),
    "farthest_from": _to_anchor("farthest_from"),
    "region": _region,
    "region_extreme": _region_extreme,
    "filtered_extreme": _filtered_extreme,
    "same_color": _same_color,
    "between": _between,
    "biggest": _biggest,
    "near_pair": _near_pair,
}
