"""Family 2, compositional questions: attributes, counts and comparisons, answered by a word."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from viper_lab.world.queries.lexicon import Nouns, head
from viper_lab.world.queries.meaning import SHARES, Meaning, SlotValue
from viper_lab.world.queries.selections import (
    PROPERTY_FAMILIES,
    draw_anchor,
    draw_region,
    draw_selection,
    say_referring,
    say_selection,
    slot_words,
)
from viper_lab.world.queries.wording import EXTENT_COMPARE, EXTENTS, SIDES, read_templates

TEMPLATES, QUESTION_TEMPLATES = read_templates("compositional"), read_templates("vague_questions")

YES_NO = frozenset({"verify", "same", "exists_region", "more_than", "several"})

# Shares of the objects that an attribute is asked of.
SELECTION_WEIGHTS = SHARES["asked_of"]

_Slots = dict[str, SlotValue]

ATTRIBUTES = ("color", "shape", "material", "size")


def draw_about_scene(family: str, type_: str, nouns: Nouns, random: Random) -> Meaning:
    """Draw a meaning of a type of either family about pictures; raises NoSuchNounError."""
    draw = draw_selection if family == "referring" else draw_compositional
    return draw(type_, nouns, random)


def say_about_scene(family: str, meaning: Meaning, random: Random, split: str) -> tuple[str, str]:
    """Return template name and text of a query of either family about pictures."""
    say = say_referring if family == "referring" else say_compositional
    return say(meaning, random, split)


def draw_compositional(type_: str, nouns: Nouns, random: Random) -> Meaning:
    """Draw a meaning of a type with random slots; raises NoSuchNounError as ``draw_selection``."""
    return Meaning(type_, _DRAW[type_](nouns, random))


def say_compositional(meaning: Meaning, random: Random, split: str) -> tuple[str, str]:
    """Return template name and text of a question."""
    key = meaning.type
    if key == "attribute" and meaning["attribute"] == "material" and random.random() < 0.6:
        key = "material"
    if meaning.slots.get("vague") in QUESTION_TEMPLATES:
        key = meaning["vague"]
    name, text = {**TEMPLATES, **QUESTION_TEMPLATES}[key].pick(random, split)
    words: dict[str, object] = {}
    if "side" in meaning:
        words["cmp"] = random.choice(SIDES[meaning["side"]].compare)
    if "extent" in meaning:
        words["cmp"] = random.choice(EXTENT_COMPARE[meaning["extent"]])
    words |= slot_words(meaning, random, split)
    if "of" in meaning:
        phrase_name, words["np"] = say_selection(meaning["of"], random, split)
        name = f"{name}:{meaning['of'].type}:{phrase_name}"
    return f"{key}:{name}", text.format(**words)


def _some_selection(nouns: Nouns, random: Random, family: str) -> Meaning:
    weights = dict(SELECTION_WEIGHTS)
    if family == "shape":  # a selection between others, or by another kind, names the shape
        del weights["between"]
    type_ = random.choices(tuple(weights), tuple(weights.values()))[0]
    return draw_selection(type_, nouns, random, without=(family,))


def _attribute(nouns: Nouns, random: Random) -> _Slots:
    # Weighted by the number of words, so that all answers are equally likely.
    family = random.choices(ATTRIBUTES, (8, 5, 2, 2))[0]
    return {"of": _some_selection(nouns, random, family), "attribute": family}


def _choose(nouns: Nouns, random: Random) -> _Slots:
    family = random.choices(PROPERTY_FAMILIES, (8, 2, 2))[0]
    first, second = random.sample(nouns.lexicon.family(family), 2)
    of = _some_selection(nouns, random, family)
    return {"of": of, "property": first, "other_property": second}


def _verify(nouns: Nouns, random: Random) -> _Slots:
    family = random.choice(PROPERTY_FAMILIES)
    property_ = random.choice(nouns.lexicon.family(family))
    return {"of": _some_selection(nouns, random, family), "property": property_}


def _form(random: Random) -> tuple[bool, tuple[str, ...]]:
    """Draw whether a counted kind is a ``thing``, and its attributes, at most one.

    Long phrases would reveal that there are few objects.
    """
    general = random.random() < 0.3
    named = random.choices(((), ("color",), ("material",), ("size",)), (4, 2, 2, 1))[0]
    if general and not named:
        named = (random.choice(PROPERTY_FAMILIES),)
    return general, named


def _counted(nouns: Nouns, random: Random) -> str:
    general, named = _form(random)
    return nouns.some(general=general, only=named)


def _count_region(nouns: Nouns, random: Random) -> _Slots:
    anything = random.random() < 0.3
    kind = nouns.many(general=True, only=()) if anything else _counted(nouns, random)
    return draw_region(kind, nouns, random)


def _exists_region(nouns: Nouns, random: Random) -> _Slots:
    return draw_region(nouns.some(general=False, only=_form(random)[1]), nouns, random)


def _count_filter(nouns: Nouns, random: Random) -> _Slots:
    family = random.choice(PROPERTY_FAMILIES)
    kind = nouns.many(general=random.random() < 0.4, only=())
    return {"kind": kind, "property": random.choice(nouns.lexicon.family(family))}


def _two_kinds(nouns: Nouns, random: Random) -> _Slots:
    named = _form(random)[1]
    kind = nouns.some(general=False, only=named)
    return {"kind": kind, "other_kind": nouns.some(general=False, avoid=head(kind), only=named)}


def _which_farther(nouns: Nouns, random: Random) -> _Slots:
    by_size = random.random() < 0.2
    without = ("size",) if by_size else ()
    first = nouns.one(without=without)
    second = nouns.one(avoid=head(first), without=without)
    order, ends = ("extent", EXTENTS) if by_size else ("side", SIDES)
    return {
        "first": Meaning("unique", {"kind": first}),
        "second": Meaning("unique", {"kind": second}),
        order: random.choice(tuple(ends)),
    }


def _same(nouns: Nouns, random: Random) -> _Slots:
    family = random.choices(PROPERTY_FAMILIES, (2, 2, 1))[0]
    without = (family,)
    first = draw_anchor(nouns, random, avoid=None, two_hop=0.6, without=without)
    avoid = head(first["kind"])
    second = draw_anchor(nouns, random, avoid=avoid, two_hop=0.6, without=without)
    return {"first": first, "second": second, "attribute": family}


_DRAW: Mapping[str, Callable[[Nouns, Random], _Slots]] = {
    "attribute": _attribute,
    "choose": _choose,
    "verify": _verify,
    "count": lambda nouns, random: {"kind": _counted(nouns, random)},
    "count_region": _count_region,
    "count_filter": _count_filter,
    **dict.fromkeys(("count_sum", "difference", "more_of", "more_than"), _two_kinds),
    "which_farther": _which_farther,
    "same": _same,
    "exists_region": _exists_region,
}
