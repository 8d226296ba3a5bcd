"""Selections: phrases that denote one object of a scene, how they are drawn and worded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from viper_lab.world.queries.lexicon import Nouns, head, is_general
from viper_lab.world.queries.meaning import Meaning, SlotValue
from viper_lab.world.queries.wording import (
    AMBIGUOUS_EXTENTS,
    AMBIGUOUS_RELATIONS,
    EXTENTS,
    ORDINALS,
    RELATIONS,
    SIDES,
    Templates,
    a,
    plural,
    read_templates,
)

TEMPLATES, SELECTION_TEMPLATES = read_templates("selections"), read_templates("vague_selections")


FRAME = read_templates("referring")["frame"]

_Slots = dict[str, SlotValue]

PROPERTY_FAMILIES = ("color", "material", "size")


def say_referring(meaning: Meaning, random: Random, split: str) -> tuple[str, str]:
    """Return template name and text of a query for an object: show me the leftmost cube."""
    frame_name, frame = FRAME.pick(random, split)
    phrase_name, phrase = say_selection(meaning, random, split)
    text = frame.format(np=phrase, terse=phrase.removeprefix("the "))
    return f"{meaning.type}:{frame_name}:{phrase_name}", text


def say_selection(meaning: Meaning, random: Random, split: str) -> tuple[str, str]:
    """Return template name and noun phrase of a selection, ``the leftmost cube``."""
    name, text = _templates(meaning).pick(random, split)
    return name, text.format(**_fillers(meaning, random, split))


def say_anchor(meaning: Meaning, random: Random, split: str) -> str:
    """Return a selection as part of a longer phrase."""
    if meaning.type == "unique":
        return f"the {meaning['kind']}"
    templates = (
        TEMPLATES["nested_extreme"] if meaning.type == "extreme" else TEMPLATES[meaning.type]
    )
    return templates.pick(random, split)[1].format(**_fillers(meaning, random, split))


def _templates(meaning: Meaning) -> Templates:
    """Return the templates of a selection, those of its ambiguous wording if it has one."""
    return SELECTION_TEMPLATES.get(str(meaning.slots.get("vague")), TEMPLATES[meaning.type])


def relation_words(meaning: Meaning) -> Sequence[str]:
    """Return the words for a meaning's relation, ambiguous ones if the meaning asks for them."""
    if "vague" in meaning:
        return AMBIGUOUS_RELATIONS[meaning["vague"]]
    return RELATIONS[meaning["relation"]]


def _fillers(meaning: Meaning, random: Random, split: str) -> dict[str, object]:
    words: dict[str, object] = {}
    if "side" in meaning:
        words |= vars(SIDES[meaning["side"]])
    if "rank" in meaning:
        words["nth"] = ORDINALS[meaning["rank"] - 1]
    if "extent" in meaning:
        words["most"] = random.choice(EXTENTS[meaning["extent"]])
        words["large"] = random.choice(AMBIGUOUS_EXTENTS[meaning["extent"]])
    return words | slot_words(meaning, random, split)


def slot_words(meaning: Meaning, random: Random, split: str) -> dict[str, object]:
    """Return the words that templates of selections and of questions take for a meaning's slots."""
    words: dict[str, object] = dict(meaning.slots)
    if "kind" in meaning:
        kind = str(meaning.slots.get("said") or meaning["kind"])
        words |= {"k": kind, "ks": plural(kind), "ak": a(kind)}
    if "other_kind" in meaning:
        words["os"] = plural(meaning["other_kind"])
    if "relation" in meaning:
        words["rel"] = random.choice(relation_words(meaning))
    for slot in ("anchor", "second_anchor", "first", "second"):
        if slot in meaning:
            words[slot] = say_anchor(meaning[slot], random, split)
    return words


def draw_selection(
    type_: str,
    nouns: Nouns,
    random: Random,
    *,
    without: Collection[str] = (),
    general: bool | None = None,
) -> Meaning:
    """Draw a selection of a type with random slots.

    Args:
        without: attribute families that must not be named in the kind.
        general: whether the kind's noun is ``thing``; None: random.

    Raises:
        NoSuchNounError: when the nouns' scene has nothing that fits.
    """
    if "shape" in without:
        general = True
    return Meaning(type_, _DRAW[type_](_Draw(nouns, random, general, without)))


def draw_anchor(
    nouns: Nouns,
    random: Random,
    *,
    avoid: str | None,
    two_hop: float = 0.35,
    without: Collection[str] = (),
) -> Meaning:
    """Draw a unique object, or (share ``two_hop``) an extreme one; its noun is not ``avoid``."""
    if random.random() < two_hop:
        kind = nouns.many(general=False, avoid=avoid, without=without)
        return Meaning("extreme", {"kind": kind, "side": random.choice(tuple(SIDES))})
    return Meaning("unique", {"kind": nouns.one(avoid=avoid, without=without)})


def draw_region(kind: str, nouns: Nouns, random: Random, *, two_hop: float = 0.35) -> _Slots:
    """Draw ``relation`` and ``anchor`` for objects of a kind on one side of another object.

    Depth is not compared for ``things``: the anchor would be one of them.
    """
    relations = [r for r in RELATIONS if not (is_general(kind) and r in ("front", "behind"))]
    anchor = draw_anchor(nouns, random, avoid=head(kind), two_hop=two_hop)
    return {"kind": kind, "relation": random.choice(relations), "anchor": anchor}


@dataclass(frozen=True)
class _Draw:
    """Sources of a selection's slots; see :func:`draw_selection`."""

    nouns: Nouns
    random: Random
    general: bool | None
    without: Collection[str]

    def some(self) -> str:
        return self.nouns.some(general=self.general, without=self.without)

    def many(self) -> str:
        return self.nouns.many(general=self.general, without=self.without)

    def side(self) -> str:
        return self.random.choice(tuple(SIDES))


def _unique(d: _Draw) -> _Slots:
    general = d.random.random() < 0.25 if d.general is None else d.general
    return {"kind": d.nouns.one(general=general, without=d.without)}


def _nth(d: _Draw) -> _Slots:
    kind = d.many()
    rank = d.random.choices((1, 2, 3, 4), (1, 5, 3, 1))[0]
    return {"kind": kind, "side": d.side(), "rank": rank}


def _to_anchor(d: _Draw) -> _Slots:
    kind = d.many()
    return {"kind": kind, "anchor": draw_anchor(d.nouns, d.random, avoid=head(kind))}


def _filtered_extreme(d: _Draw) -> _Slots:
    family = d.random.choice([f for f in PROPERTY_FAMILIES if f not in d.without])
    kind = d.nouns.many(general=d.general, without={*d.without, family})
    property_ = d.random.choice(d.nouns.lexicon.family(family))
    return {"kind": kind, "property": property_, "side": d.side()}


def _same_color(d: _Draw) -> _Slots:
    kind = d.nouns.some(general=bool(d.general), without={*d.without, "color", "size"})
    return {"kind": kind, "anchor": draw_anchor(d.nouns, d.random, avoid=head(kind), two_hop=0.7)}


def _between(d: _Draw) -> _Slots:
    kind = d.nouns.some(general=False, without=[f for f in d.without if f != "shape"])
    anchor, other = (Meaning("unique", {"kind": d.nouns.one(avoid=head(kind))}) for _ in range(2))
    return {"kind": kind, "anchor": anchor, "second_anchor": other}


def _near_pair(d: _Draw) -> _Slots:
    kind = d.nouns.many(general=False, without=[f for f in d.without if f != "shape"])
    return {"kind": kind, "other_kind": d.nouns.many(general=False, avoid=head(kind))}


_DRAW: Mapping[str, Callable[[_Draw], _Slots]] = {
    "unique": _unique,
    "extreme": lambda d: {"kind": d.many(), "side": d.side()},
    "nth": _nth,
    "middle": lambda d: {"kind": d.many()},
    "closest": _to_anchor,
    "farthest_from": _to_anchor,
    "region": lambda d: draw_region(d.some(), d.nouns, d.random),
    "region_extreme": lambda d: {
        **draw_region(d.many(), d.nouns, d.random, two_hop=0),
        "side": d.side(),
    },
    "filtered_extreme": _filtered_extreme,
    "same_color": _same_color,
    "between": _between,
    "biggest": lambda d: {"kind": d.many(), "extent": d.random.choice(tuple(EXTENTS))},
    "near_pair": _near_pair,
}
