"""Selections: the phrases that denote one object of a scene, and how they are drawn and said."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from random import Random

from viper.world.queries.lexicon import Nouns, head, is_general
from viper.world.queries.meaning import Meaning
from viper.world.queries.wording import (
    EXTENTS,
    ORDINALS,
    RELATIONS,
    SIDES,
    Templates,
    plural,
)

TEMPLATES: Mapping[str, Templates] = {
    "unique": Templates(
        ("the {k}", "the only {k}", "the one {k}", "the {k} in the picture"),
        ("the one {k} in the picture", "the only {k} in the picture"),
        (
            "the {k} you see",
            "the {k} here",
            "that {k}",
            "the {k} that you see in the picture",
            "the one {k} here",
        ),
    ),
    "extreme": Templates(
        (
            "the {most} {k}",
            "the {k} {place}",
            "the {k} that is {alt}",
            "the {most} of the {ks}",
            "the {most} one of the {ks}",
        ),
        ("the {k} that is {most}", "the {k} that is {place}"),
        (
            "the {k} which is {most}",
            "the {k} that looks {most}",
            "the {k} that is the {most} one",
            "the {most} {k} you see",
            "the one {k} that is {alt}",
            "the {k} which is {place}",
            "the {k} you see {place}",
            "the one of the {ks} {place}",
            "of the {ks} the {most} one",
            "of all the {ks} the one that is {alt}",
            "the {k} which is {alt}",
            "the {most} {k} of all",
            "the {k} {alt}",
            "the {most} {k} in the picture",
        ),
    ),
    "nth": Templates(
        (
            "the {nth} {k} from the {edge}",
            "the {k} that is {nth} from the {edge}",
            "the {nth} {k} counting from the {edge}",
            "the {nth} of the {ks} from the {edge}",
        ),
        (
            "the {nth} of the {ks} counting from the {edge}",
            "the {nth} one of the {ks} from the {edge}",
        ),
        (
            "the {k} which is {nth} from the {edge}",
            "the {nth} {k} if you count from the {edge}",
            "the {nth} {k} you see from the {edge}",
            "counting from the {edge} the {nth} {k}",
            "from the {edge} the {nth} {k}",
            "the {nth} {k} starting from the {edge}",
            "of the {ks} the {nth} one from the {edge}",
            "the {nth} of all the {ks} from the {edge}",
            "the {k} that is the {nth} one from the {edge}",
        ),
    ),
    "middle": Templates(
        (
            "the middle {k}",
            "the {k} in the middle",
            "the middle one of the {ks}",
            "the {k} that is the middle one",
        ),
        ("the {k} that is in the middle", "the one of the {ks} in the middle"),
        (
            "the {k} which is in the middle",
            "the middle one of all the {ks}",
            "of the {ks} the middle one",
            "the {k} you see in the middle",
            "the middle {k} you see",
            "the {k} which is the middle one",
        ),
    ),
    "closest": Templates(
        (
            "the {k} closest to {a}",
            "the {k} nearest to {a}",
            "the {k} that is closest to {a}",
            "the closest {k} to {a}",
        ),
        ("the {k} that is nearest to {a}", "the nearest {k} to {a}"),
        (
            "the {k} which is closest to {a}",
            "the {k} which is nearest to {a}",
            "the {k} you see nearest to {a}",
            "the {k} you see closest to {a}",
            "of the {ks} the one closest to {a}",
            "the one of the {ks} that is nearest to {a}",
            "the {k} that comes closest to {a}",
            "the one {k} nearest to {a}",
            "closest to {a} the {k}",
        ),
    ),
    "farthest_from": Templates(
        (
            "the {k} farthest from {a}",
            "the {k} that is farthest from {a}",
            "the {k} most distant from {a}",
            "the farthest {k} from {a}",
        ),
        ("the {k} that is most distant from {a}", "the most distant {k} from {a}"),
        (
            "the {k} which is farthest from {a}",
            "the {k} which is most distant from {a}",
            "of the {ks} the one farthest from {a}",
            "the {k} you see farthest from {a}",
            "the one of the {ks} most distant from {a}",
            "the one {k} farthest from {a}",
        ),
    ),
    "region": Templates(
        (
            "the {k} {rel} {a}",
            "the {k} that is {rel} {a}",
            "the {k} you see {rel} {a}",
            "the one {k} {rel} {a}",
        ),
        ("the {k} that you see {rel} {a}", "the one {k} that is {rel} {a}"),
        (
            "the {k} which is {rel} {a}",
            "the {k} that you can see {rel} {a}",
            "{rel} {a} the {k}",
            "the {k} seen {rel} {a}",
            "the {k} which you see {rel} {a}",
            "the one {k} you see {rel} {a}",
            "the {k} there is {rel} {a}",
            "the only {k} {rel} {a}",
            "the only {k} that is {rel} {a}",
        ),
    ),
    "region_extreme": Templates(
        (
            "the {most} {k} {rel} {a}",
            "the {most} of the {ks} {rel} {a}",
            "the {most} {k} that is {rel} {a}",
            "the {most} one of the {ks} {rel} {a}",
        ),
        ("the {most} {k} you see {rel} {a}", "the {most} of the {ks} that are {rel} {a}"),
        (
            "the {most} {k} which is {rel} {a}",
            "of the {ks} {rel} {a} the {most} one",
            "the {most} of all the {ks} {rel} {a}",
            "the {most} one of the {ks} that are {rel} {a}",
            "the {most} {k} that you see {rel} {a}",
            "of the {ks} that are {rel} {a} the {most}",
            "{rel} {a} the {most} {k}",
        ),
    ),
    "filtered_extreme": Templates(
        (
            "the {most} {k} that is {prop}",
            "the {most} of the {ks} that are {prop}",
            "the {most} {k} you see that is {prop}",
            "the {most} one of the {ks} that are {prop}",
        ),
        (
            "the {most} of the {ks} you see that are {prop}",
            "the {most} one that is {prop} of the {ks}",
        ),
        (
            "the {most} {k} which is {prop}",
            "of the {ks} that are {prop} the {most} one",
            "the {most} of all the {ks} that are {prop}",
            "the {most} {k} that you see that is {prop}",
            "of the {prop} {ks} the {most}",
            "the {most} one of the {ks} which are {prop}",
            "of the {ks} the {most} one that is {prop}",
        ),
    ),
    "same_color": Templates(
        (
            "the {k} with the same color as {a}",
            "the {k} that has the same color as {a}",
            "the {k} of the same color as {a}",
            "the {k} that shares the color of {a}",
        ),
        ("the one {k} with the same color as {a}", "the one {k} that shares the color of {a}"),
        (
            "the {k} which has the same color as {a}",
            "the {k} whose color is the same as that of {a}",
            "the {k} sharing the color of {a}",
            "the {k} which shares the color of {a}",
            "the one {k} of the same color as {a}",
            "the {k} you see with the same color as {a}",
            "the {k} that is of the same color as {a}",
        ),
    ),
    "between": Templates(
        (
            "the {k} between {a} and {b}",
            "the {k} that is between {a} and {b}",
            "the {k} in between {a} and {b}",
            "the one {k} between {a} and {b}",
        ),
        ("the {k} that is in between {a} and {b}", "the one {k} that is between {a} and {b}"),
        (
            "the {k} which is between {a} and {b}",
            "between {a} and {b} the {k}",
            "the {k} you see between {a} and {b}",
            "the {k} which is in between {a} and {b}",
            "the one {k} in between {a} and {b}",
        ),
    ),
    "biggest": Templates(
        (
            "the {most} {k}",
            "the {most} of the {ks}",
            "the {k} that looks {most}",
            "the {most} one of the {ks}",
        ),
        ("the {k} that is {most}", "the one of the {ks} that looks {most}"),
        (
            "the {k} which is {most}",
            "the {k} which looks {most}",
            "of the {ks} the {most} one",
            "the {most} {k} you see",
            "the {most} of all the {ks}",
            "the {k} that is the {most} one",
            "the one of the {ks} which is {most}",
        ),
    ),
    "near_pair": Templates(
        (
            "the {k} closest to any {o}",
            "the {k} nearest to any {o}",
            "the {k} that is closest to any {o}",
            "the closest {k} to any {o}",
        ),
        ("the {k} that is nearest to any {o}", "the nearest {k} to any {o}"),
        (
            "the {k} which is closest to any {o}",
            "the {k} which is nearest to any {o}",
            "of the {ks} the one closest to any {o}",
            "the one {k} nearest to any {o}",
            "the {k} you see closest to any {o}",
        ),
    ),
}

NESTED_EXTREMES = Templates(
    ("the {most} {k}", "the {most} of the {ks}", "the {k} that is {alt}"),
    ("the {k} that is {most}",),
    (
        "the {k} which is {most}",
        "the {k} which is {alt}",
        "the {k} that looks {most}",
        "the {most} one of the {ks}",
        "the {k} that is the {most} one",
        "the {most} {k} in the picture",
        "the {most} {k} of all",
    ),
)
"""Extremes inside another phrase: those that cannot be read as part of the outer one."""

_Draw = Callable[[Nouns, Random, bool | None, Collection[str]], Meaning]

PROPERTY_FAMILIES = ("color", "material", "size")


def say_selection(meaning: Meaning, random: Random, split: str) -> tuple[str, str]:
    """The template's name and a noun phrase for a selection, ``the leftmost cube``."""
    name, text = TEMPLATES[meaning.type].pick(random, split)
    return name, text.format(**_fillers(meaning, random, split))


def say_anchor(meaning: Meaning, random: Random, split: str) -> str:
    """A selection inside a longer phrase."""
    if meaning.type == "unique":
        return f"the {meaning['kind']}"
    templates = NESTED_EXTREMES if meaning.type == "extreme" else TEMPLATES[meaning.type]
    return templates.pick(random, split)[1].format(**_fillers(meaning, random, split))


def _fillers(meaning: Meaning, random: Random, split: str) -> dict[str, str]:
    words: dict[str, str] = {"k": meaning["kind"], "ks": plural(meaning["kind"])}
    if "side" in meaning:
        side = SIDES[meaning["side"]]
        words.update(most=side.most, alt=side.alt, place=side.place, edge=side.edge)
    if "rank" in meaning:
        words["nth"] = ORDINALS[meaning["rank"] - 1]
    if "extent" in meaning:
        words["most"] = random.choice(EXTENTS[meaning["extent"]])
    if "relation" in meaning:
        words["rel"] = random.choice(RELATIONS[meaning["relation"]])
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
