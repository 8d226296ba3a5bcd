"""Family 2, compositional questions: attributes, counts and comparisons; answered by a word."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from viper.world.queries.lexicon import Nouns, head
from viper.world.queries.meaning import Meaning
from viper.world.queries.selections import (
    PROPERTY_FAMILIES,
    draw_anchor,
    draw_region,
    draw_selection,
    say_anchor,
    say_selection,
)
from viper.world.queries.wording import (
    EXTENT_COMPARE,
    EXTENTS,
    RELATIONS,
    SIDES,
    Templates,
    a,
    plural,
)

WEIGHTS: Mapping[str, float] = {
    "attribute": 0.31,
    "choose": 0.11,
    "count": 0.07,
    "count_region": 0.10,
    "count_filter": 0.06,
    "count_sum": 0.05,
    "difference": 0.04,
    "more_of": 0.05,
    "which_farther": 0.08,
    "verify": 0.04,
    "same": 0.04,
    "exists_region": 0.03,
    "more_than": 0.02,
}
"""How often each type is asked; the last four, answered by yes or no, stay under a fifth."""

YES_NO = frozenset({"verify", "same", "exists_region", "more_than"})

SELECTION_WEIGHTS: Mapping[str, float] = {
    "unique": 0.14,
    "extreme": 0.24,
    "nth": 0.16,
    "middle": 0.05,
    "closest": 0.14,
    "farthest_from": 0.05,
    "region": 0.10,
    "region_extreme": 0.05,
    "between": 0.03,
    "biggest": 0.04,
}
"""Which object an attribute is asked of."""

ATTRIBUTES = ("color", "shape", "material", "size")

TEMPLATES: Mapping[str, Templates] = {
    "attribute": Templates(
        (
            "what {attr} is {np}?",
            "what is the {attr} of {np}?",
            "tell me the {attr} of {np}",
            "which {attr} does {np} have?",
            "the {attr} of {np}?",
            "name the {attr} of {np}",
            "what {attr} does {np} have?",
            "can you tell me the {attr} of {np}?",
        ),
        (
            "which {attr} is {np}?",
            "can you name the {attr} of {np}?",
            "tell me what {attr} {np} is",
            "tell me which {attr} {np} has",
        ),
        (
            "which {attr} has {np}?",
            "of which {attr} is {np}?",
            "do tell me the {attr} of {np}",
            "i want to know the {attr} of {np}",
            "i want to know what {attr} {np} has",
            "can you tell me what {attr} {np} has?",
            "give me the {attr} of {np}",
            "{np} what {attr} is it?",
            "{np} has which {attr}?",
            "say which {attr} {np} is",
            "say what {attr} {np} has",
        ),
    ),
    "material": Templates(
        ("what is {np} made of?", "of what is {np} made?", "tell me what {np} is made of"),
        ("can you tell me what {np} is made of?",),
        (
            "what material is {np} made of?",
            "can you say what {np} is made of?",
            "i want to know what {np} is made of",
            "{np} what is it made of?",
            "say what {np} is made of",
        ),
    ),
    "choose": Templates(
        (
            "is {np} {p} or {q}?",
            "tell me if {np} is {p} or {q}",
            "{p} or {q} what is {np}?",
            "what is {np} {p} or {q}?",
        ),
        ("can you tell me if {np} is {p} or {q}?", "tell me what {np} is {p} or {q}"),
        (
            "can you say if {np} is {p} or {q}?",
            "{np} is it {p} or {q}?",
            "{p} or {q} which is {np}?",
            "i want to know if {np} is {p} or {q}",
            "say if {np} is {p} or {q}",
            "which is {np} {p} or {q}?",
        ),
    ),
    "verify": Templates(
        (
            "is {np} {p}?",
            "tell me if {np} is {p}",
            "is it true that {np} is {p}?",
            "yes or no is {np} {p}?",
        ),
        ("can you tell me if {np} is {p}?", "tell me yes or no is {np} {p}?"),
        (
            "can you say if {np} is {p}?",
            "{np} is it {p}?",
            "i want to know if {np} is {p}",
            "say yes or no is {np} {p}?",
            "is {np} {p} yes or no?",
            "say if {np} is {p}",
        ),
    ),
    "count": Templates(
        (
            "how many {ks} are there?",
            "count the {ks}",
            "what is the number of {ks}?",
            "how many {ks} do you see?",
            "tell me how many {ks} there are",
            "the number of {ks}?",
        ),
        ("tell me the number of {ks}", "count the {ks} you see", "can you count the {ks}?"),
        (
            "what number of {ks} do you see?",
            "can you tell me how many {ks} there are?",
            "please count the {ks}",
            "how many {ks} are in the picture?",
            "say how many {ks} there are",
            "count all the {ks}",
            "i want to know the number of {ks}",
            "can you tell me the number of {ks}?",
        ),
    ),
    "count_region": Templates(
        (
            "how many {ks} are {rel} {a}?",
            "count the {ks} {rel} {a}",
            "what is the number of {ks} {rel} {a}?",
            "how many {ks} do you see {rel} {a}?",
        ),
        ("tell me how many {ks} are {rel} {a}", "the number of {ks} {rel} {a}?"),
        (
            "can you tell me how many {ks} are {rel} {a}?",
            "how many {ks} are there {rel} {a}?",
            "{rel} {a} how many {ks} are there?",
            "please count the {ks} {rel} {a}",
            "say how many {ks} are {rel} {a}",
            "what number of {ks} are {rel} {a}?",
            "i want to know the number of {ks} {rel} {a}",
            "count the {ks} that are {rel} {a}",
        ),
    ),
    "count_filter": Templates(
        (
            "how many {ks} are {p}?",
            "count the {ks} that are {p}",
            "how many of the {ks} are {p}?",
            "what is the number of {ks} that are {p}?",
        ),
        ("tell me how many {ks} are {p}", "how many {ks} do you see that are {p}?"),
        (
            "can you tell me how many {ks} are {p}?",
            "how many {ks} which are {p} do you see?",
            "please count the {ks} that are {p}",
            "of the {ks} how many are {p}?",
            "say how many {ks} are {p}",
            "count all the {ks} that are {p}",
            "i want to know how many of the {ks} are {p}",
        ),
    ),
    "count_sum": Templates(
        (
            "how many {ks} and {os} are there?",
            "count the {ks} and {os}",
            "what is the number of {ks} and {os}?",
            "how many {ks} and {os} do you see?",
        ),
        ("tell me how many {ks} and {os} there are", "the number of {ks} and {os}?"),
        (
            "can you tell me how many {ks} and {os} there are?",
            "please count the {ks} and {os}",
            "say how many {ks} and {os} there are",
            "i want to know the number of {ks} and {os}",
            "how many {ks} and {os} are in the picture?",
            "what number of {ks} and {os} do you see?",
        ),
    ),
    "difference": Templates(
        (
            "how many more {ks} than {os} are there?",
            "how many more {ks} than {os} do you see?",
            "tell me how many more {ks} than {os} there are",
            "by how many are there more {ks} than {os}?",
        ),
        (
            "tell me by how many there are more {ks} than {os}",
            "how many more {ks} are there than {os}?",
        ),
        (
            "can you tell me how many more {ks} than {os} there are?",
            "say how many more {ks} than {os} there are",
            "how many more {ks} do you see than {os}?",
            "i want to know how many more {ks} than {os} there are",
            "by how many do you see more {ks} than {os}?",
            "how many more {ks} than {os} are in the picture?",
        ),
    ),
    "more_of": Templates(
        (
            "are there more {ks} or {os}?",
            "which are there more of {ks} or {os}?",
            "what do you see more of {ks} or {os}?",
            "more {ks} or {os}?",
        ),
        ("do you see more {ks} or {os}?", "tell me if there are more {ks} or {os}"),
        (
            "what are there more of {ks} or {os}?",
            "which do you see more of {ks} or {os}?",
            "say if there are more {ks} or {os}",
            "of {ks} and {os} which are there more of?",
            "{ks} or {os} which are there more of?",
            "can you tell me if there are more {ks} or {os}?",
        ),
    ),
    "more_than": Templates(
        (
            "are there more {ks} than {os}?",
            "do you see more {ks} than {os}?",
            "is it true that there are more {ks} than {os}?",
            "yes or no are there more {ks} than {os}?",
        ),
        (
            "tell me if there are more {ks} than {os}",
            "is it true that you see more {ks} than {os}?",
        ),
        (
            "can you tell me if there are more {ks} than {os}?",
            "say if there are more {ks} than {os}",
            "are there more {ks} than {os} yes or no?",
            "i want to know if there are more {ks} than {os}",
            "do you see more {ks} than {os} yes or no?",
        ),
    ),
    "which_farther": Templates(
        (
            "which is {cmp} {a} or {b}?",
            "what is {cmp} {a} or {b}?",
            "{a} or {b} which is {cmp}?",
            "tell me which is {cmp} {a} or {b}",
        ),
        ("{a} or {b} what is {cmp}?", "can you tell me which is {cmp} {a} or {b}?"),
        (
            "{a} or {b} which one is {cmp}?",
            "which one is {cmp} {a} or {b}?",
            "of {a} and {b} which is {cmp}?",
            "say which is {cmp} {a} or {b}",
            "i want to know which is {cmp} {a} or {b}",
            "what one is {cmp} {a} or {b}?",
            "of {a} and {b} what is {cmp}?",
            "tell me what is {cmp} {a} or {b}",
        ),
    ),
    "same": Templates(
        (
            "do {a} and {b} have the same {attr}?",
            "does {a} have the same {attr} as {b}?",
            "is the {attr} of {a} the same as the {attr} of {b}?",
            "do {a} and {b} share the same {attr}?",
        ),
        (
            "tell me if {a} and {b} have the same {attr}",
            "is it true that {a} and {b} have the same {attr}?",
        ),
        (
            "is it true that {a} has the same {attr} as {b}?",
            "can you tell me if {a} has the same {attr} as {b}?",
            "say if {a} and {b} have the same {attr}",
            "tell me if {a} has the same {attr} as {b}",
            "i want to know if {a} and {b} share the same {attr}",
            "are {a} and {b} of the same {attr}?",
            "{a} and {b} do they have the same {attr}?",
            "is {a} of the same {attr} as {b}?",
        ),
    ),
    "exists_region": Templates(
        (
            "is there {ak} {rel} {a}?",
            "do you see {ak} {rel} {a}?",
            "is any {k} {rel} {a}?",
            "tell me if there is {ak} {rel} {a}",
        ),
        ("is there any {k} {rel} {a}?", "do you see any {k} {rel} {a}?"),
        (
            "is there some {k} {rel} {a}?",
            "can you tell me if there is {ak} {rel} {a}?",
            "can you see {ak} {rel} {a}?",
            "{rel} {a} is there {ak}?",
            "say if there is {ak} {rel} {a}",
            "is it true that there is {ak} {rel} {a}?",
            "can you see any {k} {rel} {a}?",
        ),
    ),
}


def draw_compositional(type_: str, nouns: Nouns, random: Random) -> Meaning:
    """A meaning of a type, slots drawn at random; raises NoSuchNounError as ``draw_selection``."""
    return _DRAW[type_](nouns, random)


def say_compositional(meaning: Meaning, random: Random, split: str) -> tuple[str, str]:
    """Template name and text of a question."""
    key = meaning.type
    if key == "attribute" and meaning["attribute"] == "material" and random.random() < 0.6:
        key = "material"
    name, text = TEMPLATES[key].pick(random, split)
    words = _fillers(meaning, random, split)
    if "of" in meaning:
        phrase_name, words["np"] = say_selection(meaning["of"], random, split)
        name = f"{name}:{meaning['of'].type}:{phrase_name}"
    return f"{key}:{name}", text.format(**words)


def _fillers(meaning: Meaning, random: Random, split: str) -> dict[str, str]:
    words: dict[str, str] = {}
    if "kind" in meaning:
        kind = meaning["kind"]
        words.update(k=kind, ks=plural(kind), ak=a(kind))
    if "other_kind" in meaning:
        words["os"] = plural(meaning["other_kind"])
    if "attribute" in meaning:
        words["attr"] = meaning["attribute"]
    if "property" in meaning:
        words["p"] = meaning["property"]
    if "other_property" in meaning:
        words["q"] = meaning["other_property"]
    if "relation" in meaning:
        words["rel"] = random.choice(RELATIONS[meaning["relation"]])
    if "side" in meaning:
        words["cmp"] = random.choice(SIDES[meaning["side"]].compare)
    if "extent" in meaning:
        words["cmp"] = random.choice(EXTENT_COMPARE[meaning["extent"]])
    if "anchor" in meaning:
        words["a"] = say_anchor(meaning["anchor"], random, split)
    if "first" in meaning:
        words["a"] = say_anchor(meaning["first"], random, split)
        words["b"] = say_anchor(meaning["second"], random, split)
    return words


def _some_selection(nouns: Nouns, random: Random, family: str) -> Meaning:
    weights = dict(SELECTION_WEIGHTS)
    if family == "shape":  # a selection between others, or by another kind, names the shape
        del weights["between"]
    type_ = random.choices(tuple(weights), tuple(weights.values()))[0]
    return draw_selection(type_, nouns, random, without=(family,))


def _attribute(nouns: Nouns, random: Random) -> Meaning:
    # By the number of words, so that no answer is likelier than another.
    family = random.choices(ATTRIBUTES, (8, 5, 2, 2))[0]
    return Meaning("attribute", {"of": _some_selection(nouns, random, family), "attribute": family})


def _choose(nouns: Nouns, random: Random) -> Meaning:
    family = random.choices(PROPERTY_FAMILIES, (8, 2, 2))[0]
    first, second = random.sample(nouns.lexicon.family(family), 2)
    of = _some_selection(nouns, random, family)
    return Meaning("choose", {"of": of, "property": first, "other_property": second})


def _verify(nouns: Nouns, random: Random) -> Meaning:
    family = random.choice(PROPERTY_FAMILIES)
    property_ = random.choice(nouns.lexicon.family(family))
    return Meaning("verify", {"of": _some_selection(nouns, random, family), "property": property_})


def _form(random: Random) -> tuple[bool, tuple[str, ...]]:
    """Whether a counted kind is a ``thing`` and which attribute it names: at most one.

    Long phrases would give away that there are few.
    """
    general = random.random() < 0.3
    named = random.choices(((), ("color",), ("material",), ("size",)), (4, 2, 2, 1))[0]
    if general and not named:
        named = (random.choice(PROPERTY_FAMILIES),)
    return general, named


def _counted(nouns: Nouns, random: Random) -> str:
    general, named = _form(random)
    return nouns.some(general=general, only=named)


def _count(nouns: Nouns, random: Random) -> Meaning:
    return Meaning("count", {"kind": _counted(nouns, random)})


def _count_region(nouns: Nouns, random: Random) -> Meaning:
    if random.random() < 0.3:
        return Meaning(
            "count_region", draw_region(nouns.many(general=True, only=()), nouns, random)
        )
    return Meaning("count_region", draw_region(_counted(nouns, random), nouns, random))


def _exists_region(nouns: Nouns, random: Random) -> Meaning:
    kind = nouns.some(general=False, only=_form(random)[1])
    return Meaning("exists_region", draw_region(kind, nouns, random))


def _count_filter(nouns: Nouns, random: Random) -> Meaning:
    family = random.choice(PROPERTY_FAMILIES)
    kind = nouns.many(general=random.random() < 0.4, only=())
    property_ = random.choice(nouns.lexicon.family(family))
    return Meaning("count_filter", {"kind": kind, "property": property_})


def _two_kinds(type_: str) -> Callable[[Nouns, Random], Meaning]:
    def draw(nouns: Nouns, random: Random) -> Meaning:
        named = _form(random)[1]
        kind = nouns.some(general=False, only=named)
        other = nouns.some(general=False, avoid=head(kind), only=named)
        return Meaning(type_, {"kind": kind, "other_kind": other})

    return draw


def _which_farther(nouns: Nouns, random: Random) -> Meaning:
    by_size = random.random() < 0.2
    without = ("size",) if by_size else ()
    first = nouns.one(without=without)
    second = nouns.one(avoid=head(first), without=without)
    slots: dict[str, str | int | Meaning] = {
        "first": Meaning("unique", {"kind": first}),
        "second": Meaning("unique", {"kind": second}),
    }
    if by_size:
        return Meaning("which_farther", {**slots, "extent": random.choice(tuple(EXTENTS))})
    return Meaning("which_farther", {**slots, "side": random.choice(tuple(SIDES))})


def _same(nouns: Nouns, random: Random) -> Meaning:
    family = random.choices(PROPERTY_FAMILIES, (2, 2, 1))[0]
    without = (family,)
    first = draw_anchor(nouns, random, avoid=None, two_hop=0.6, without=without)
    avoid = head(first["kind"])
    second = draw_anchor(nouns, random, avoid=avoid, two_hop=0.6, without=without)
    return Meaning("same", {"first": first, "second": second, "attribute": family})


_DRAW: Mapping[str, Callable[[Nouns, Random], Meaning]] = {
    "attribute": _attribute,
    "choose": _choose,
    "verify": _verify,
    "count": _count,
    "count_region": _count_region,
    "count_filter": _count_filter,
    "count_sum": _two_kinds("count_sum"),
    "difference": _two_kinds("difference"),
    "more_of": _two_kinds("more_of"),
    "more_than": _two_kinds("more_than"),
    "which_farther": _which_farther,
    "same": _same,
    "exists_region": _exists_region,
}
