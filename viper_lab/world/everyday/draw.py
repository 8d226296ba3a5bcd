"""Draws meanings of everyday questions, freely composed.

Nouns come from a source: any words (:class:`FreeKinds`), or words that are true of a scene.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Protocol

from viper_lab.world.everyday.meaning import (
    EXTENTS,
    QUANTIFIERS,
    SIDES,
    Ask,
    Kind,
    One,
    Test,
    Things,
    constructs,
)
from viper_lab.world.everyday.words import Words, is_held_out, world_words
from viper_lab.world.queries.lexicon import FAMILIES

# Pairs of constructs that no training question combines.
HELD_OUT_PAIRS: Sequence[frozenset[str]] = tuple(
    frozenset(pair)
    for pair in (
        ("count", "between"),
        ("exists", "under"),
        ("all", "on"),
        ("none", "next"),
        ("which", "ordinal"),
        ("attribute", "alike"),
        ("verify", "nearest"),
        ("sum", "not"),
        ("compare", "behind"),
        ("least", "front"),
        ("refer", "apart"),
        ("different", "between"),
    )
)

# How often each type of question is asked.
SHARES: Mapping[str, float] = {
    "refer": 0.12, "which": 0.11, "attribute": 0.115, "choose": 0.045, "choose_one": 0.035,
    "count": 0.085, "sum": 0.015, "difference": 0.02, "more_of": 0.015, "distinct": 0.015,
    "exists": 0.085, "absent": 0.03, "both": 0.02, "either": 0.015, "more": 0.015, "fewer": 0.015,
    "equal": 0.015, "bound": 0.045, "quantified": 0.115, "only": 0.02, "verify": 0.085,
    "pair": 0.03, "identity": 0.015, "relate": 0.055, "uniform": 0.025, "varied": 0.015,
    "purely": 0.02, "compare": 0.045, "same": 0.035, "different": 0.015,
}  # fmt: skip

_RELATIONS = {
    "left": 4, "right": 4, "front": 4, "behind": 4, "above": 1.5, "below": 1.5, "on": 4, "under": 3,
    "next": 3, "touching": 0.7,
}  # fmt: skip


# Most objects that lead to the one in question.
DEEPEST = 3


class Kinds(Protocol):
    """A source of kinds."""

    def kind(self, *, general: bool, adjectives: int) -> Kind:
        """Return a kind with that many adjectives."""
        ...

    def word(self, family: str) -> str:
        """Return a word of a family."""
        ...


@dataclass(frozen=True)
class FreeKinds:
    """Kinds of any words."""

    random: Random
    words: Words = field(default_factory=world_words)

    def kind(self, *, general: bool, adjectives: int) -> Kind:
        noun = self.random.choice(self.words.general if general else self.words.shape)
        named = self.random.sample(FAMILIES[:3], adjectives)
        while True:
            kind = Kind(noun, general, **{family: self.word(family) for family in named})
            if not is_held_out(f"{kind.color} {noun}"):
                return kind

    def word(self, family: str) -> str:
        words: Sequence[str] = getattr(self.words, family)
        return self.random.choice(words)


def draw_ask(
    random: Random,
    kinds: Kinds,
    *,
    types: Mapping[str, float] = SHARES,
    held_out: bool = False,
    deepest: int = DEEPEST,
) -> Ask:
    """Draw a question.

    Args:
        deepest: most objects that lead to one object.
        held_out: draw only questions with a pair of constructs that is held out; else none.
    """
    while True:
        type_ = random.choices(tuple(types), tuple(types.values()))[0]
        ask = _DRAW[type_](_Drawer(random, kinds, deepest), type_)
        named = constructs(ask)
        if any(pair <= named for pair in HELD_OUT_PAIRS) == held_out:
            return ask


@dataclass(frozen=True)
class _Drawer:
    random: Random
    kinds: Kinds
    deepest: int = DEEPEST

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def kind(self, general: float = 0.25, fewest: int = 0) -> Kind:
        is_general = self.chance(general)
        count = self.random.choices((0, 1, 2, 3), (4, 5, 2, 0.4))[0]
        return self.kinds.kind(general=is_general, adjectives=max(count, fewest))

    def property(self) -> tuple[str, str]:
        family = self.random.choices(FAMILIES, (2, 5, 4, 2))[0]
        return family, self.kinds.word(family)

    def anchor(self, depth: int) -> One:
        """Draw an object that others are described by; ``depth`` further objects at most."""
        if min(depth, self.deepest - 1) > 0 and self.chance(0.5):
            return self.one(depth)
        if self.chance(0.12):
            return One(Things(self.kind(0.3)), *self.side())
        return One(Things(self.kind(0.04, fewest=int(self.chance(0.5)))))

    def side(self) -> tuple[str, int]:
        pick = self.random.choice((*SIDES, *SIDES, *EXTENTS[:2], *EXTENTS))
        rank = self.random.choices((1, 2, 3), (8, 2, 1))[0] if pick in SIDES else 1
        return pick, rank

    def test(self, depth: int, *, named: bool = True) -> Test:
        """Draw a test; ``named`` allows one of a property."""
        types = ("is", "relation", "between", "alike", "apart", "side")
        type_ = self.random.choices(types, (4.0 * named, 10, 2, 1.2, 1.2 * named, 0.9 * named))[0]
        negated = self.chance(0.3 if type_ == "is" else 0.09)
        if type_ == "is":
            return Test("is", self.property()[1], negated=negated)
        if type_ == "relation":
            relation = self.random.choices(tuple(_RELATIONS), tuple(_RELATIONS.values()))[0]
            return Test(relation, anchor=self.anchor(depth - 1), negated=negated)
        if type_ == "side":
            return Test(type_, self.random.choice(("left", "right")), negated=negated)
        if type_ == "between" and self.chance(0.35):
            return Test(type_, anchor=One(Things(self.kind(0.08)), "pair"))
        if type_ == "between":
            return Test(type_, anchor=self.anchor(0), other=self.anchor(0))
        if type_ == "alike":
            family = self.random.choice(FAMILIES)
            return Test("alike", family, anchor=self.anchor(depth - 1), negated=self.chance(0.2))
        return Test("apart", anchor=self.anchor(depth - 1))

    def things(self, plain: float = 0.5, depth: int = 2, general: float = 0.25) -> Things:
        kind = self.kind(general)
        if self.chance(plain):
            return Things(kind)
        if self.chance(0.06):
            return Things(kind, self.neither())
        first = self.test(depth)
        if first.type != "apart" and self.chance(0.12):
            second = self.test(0)
            if second.type != first.type:
                return Things(kind, (first, second))
        return Things(kind, (first,))

    def neither(self) -> tuple[Test, Test]:
        """Draw two properties of a family that an object lacks."""
        first, second = self.two(self.random.choice(FAMILIES[1:]))
        return Test("is", first, negated=True), Test("is", second, negated=True)

    def two(self, family: str) -> tuple[str, str]:
        """Draw two words of a family."""
        while True:
            first, second = self.kinds.word(family), self.kinds.word(family)
            if first != second:
                return first, second

    def one(self, depth: int = 2) -> One:
        """Draw an object by a test, a superlative or its nearness."""
        depth = min(depth, self.deepest)
        way = self.random.choices(("test", "side", "near", "middle"), (10, 7, 2, 0.7))[0]
        if way == "test":
            if self.chance(0.12):
                lacks = self.neither()
                return One(Things(self.kind(0.6), lacks[: self.random.choice((1, 1, 2))]))
            first = self.test(depth, named=False)
            if self.chance(0.12) and (second := self.test(0, named=False)).type != first.type:
                return One(Things(self.kind(0.4), (first, second)))
            return One(Things(self.kind(0.4), (first,)))
        if way == "side":
            kind = self.kind(0.35)
            tests = (self.test(depth - 1, named=False),) if self.chance(0.12) else ()
            return One(Things(kind, tests), *self.side())
        if way == "near":
            pick = "nearest" if self.chance(0.75) else "farthest"
            return One(Things(self.kind(0.45)), pick, anchor=self.anchor(depth - 1))
        return One(Things(self.kind(0.2)), "middle")

    def subject(self, plain: float = 0.3) -> One:
        if self.chance(plain):
            return One(Things(self.kind(0.05, fewest=int(self.chance(0.6)))))
        return self.one(self.random.choices((1, 2, 3), (5, 4, 2))[0])


def _refer(d: _Drawer, type_: str) -> Ask:
    return Ask(type_, one=d.subject(0.12))


def _which(d: _Drawer, type_: str) -> Ask:
    one = d.one(d.random.choices((1, 2, 3), (5, 4, 2))[0])
    if d.chance(0.7):
        noun = d.kinds.kind(general=True, adjectives=int(d.chance(0.15)))
        one = replace(one, things=replace(one.things, kind=noun))
    return Ask(type_, one=one)


def _attribute(d: _Drawer, type_: str) -> Ask:
    family = d.random.choices(FAMILIES, (1.5, 5, 3, 3))[0]
    one = d.subject()
    kind = one.things.kind
    if family == "shape":
        kind = replace(d.kinds.kind(general=True, adjectives=1), size=kind.size)
    else:
        kind = kind.without(family)
    return Ask(type_, one=replace(one, things=replace(one.things, kind=kind)), word=family)


def _choose(d: _Drawer, type_: str) -> Ask:
    family = d.random.choice(FAMILIES)
    words = d.two(family)
    one = d.subject()
    kind = d.kinds.kind(general=True, adjectives=1) if family == "shape" else one.things.kind
    if family != "shape":
        kind = kind.without(family)
    return Ask(type_, one=replace(one, things=replace(one.things, kind=kind)), words=words)


def _relate(d: _Drawer, type_: str) -> Ask:
    pairs = (("left", "right"), ("front", "behind"), ("above", "below"), ("on", "under"))
    words = d.random.choices(pairs, (4, 4, 1, 1))[0]
    if d.chance(0.5):
        words = words[::-1]
    of_picture = words[0] in ("left", "right") and d.chance(0.4)
    return Ask(type_, one=d.subject(0.5), other=None if of_picture else d.anchor(1), words=words)


def _uniform(d: _Drawer, type_: str) -> Ask:
    return Ask(type_, things=d.things(0.85, 1, 0.4), word=d.random.choice(FAMILIES))


def _purely(d: _Drawer, type_: str) -> Ask:
    kind = d.kinds.kind(general=True, adjectives=0)
    return Ask(type_, things=Things(kind), test=Test("is", d.property()[1]))


def _pair(d: _Drawer, type_: str) -> Ask:
    first, second = d.anchor(1), d.anchor(1)
    if type_ in ("same", "different"):
        return Ask(type_, one=first, other=second, word=d.random.choice(FAMILIES))
    word = d.random.choice(("left", "right", "front", "back", "top", "bottom", *EXTENTS, *EXTENTS))
    return Ask(type_, one=first, other=second, word=word)


def _sets(d: _Drawer, type_: str) -> Ask:
    plain = 0.85
    return Ask(type_, things=d.things(plain, 1, 0.1), others=d.things(plain, 1, 0.1))


def _quantified(d: _Drawer, type_: str) -> Ask:
    word = d.random.choices(QUANTIFIERS, (5, 2, 4, 2, 2, 2))[0]
    test = d.test(1)
    if test.type == "apart" or d.chance(0.4):
        test = Test("is", d.property()[1], negated=d.chance(0.1))
    number = d.random.choice((1, 2, 3)) if word in ("exactly", "least") else 0
    return Ask(type_, things=d.things(0.8, 1, 0.35), test=test, word=word, number=number)


def _verify(d: _Drawer, type_: str) -> Ask:
    if d.chance(0.5):
        test = Test("is", d.property()[1], negated=d.chance(0.15))
        if d.chance(0.12):
            test = Test("side", d.random.choice(("left", "right")), negated=test.negated)
        return Ask(type_, one=d.subject(0.45), test=test)
    test = d.test(1, named=False)
    while test.type in ("apart", "alike"):
        test = d.test(1, named=False)
    return Ask(type_, one=d.anchor(1), test=test)


def _pair_test(d: _Drawer, type_: str) -> Ask:
    word = d.random.choices(("both", "either", "neither"), (4, 1, 2))[0]
    test = Test("is", d.property()[1])
    return Ask(type_, one=d.anchor(1), other=d.anchor(1), test=test, word=word)


def _identity(d: _Drawer, type_: str) -> Ask:
    pick, rank = d.side()
    kind = d.kinds.kind(general=d.chance(0.75), adjectives=int(d.chance(0.2)))
    return Ask(type_, one=d.anchor(1), other=One(Things(kind), pick, rank))


def _bound(d: _Drawer, type_: str) -> Ask:
    word = d.random.choice(("least", "most", "exactly", "over", "under"))
    return Ask(
        type_, things=d.things(0.7, 1), word=word, number=d.random.choice((1, 1, 2, 3, 4, 5))
    )


def _only(d: _Drawer, type_: str) -> Ask:
    noun = Test("is", d.kinds.kind(general=False, adjectives=0).noun)
    return Ask(type_, things=Things(d.kinds.kind(general=True, adjectives=1)), test=noun)


_DRAW: Mapping[str, Callable[[_Drawer, str], Ask]] = {
    "refer": _refer,
    "which": _which,
    "attribute": _attribute,
    "choose": _choose,
    "choose_one": _pair,
    "count": lambda d, type_: Ask(type_, things=d.things(0.35)),
    "distinct": lambda d, type_: Ask(
        type_, things=d.things(0.8, 1, 0.7), word=d.random.choice(FAMILIES)
    ),
    "exists": lambda d, type_: Ask(type_, things=d.things(0.35)),
    "absent": lambda d, type_: Ask(type_, things=d.things(0.5)),
    **dict.fromkeys(
        ("sum", "difference", "more_of", "both", "either", "more", "fewer", "equal"), _sets
    ),
    "bound": _bound,
    "quantified": _quantified,
    "only": _only,
    "verify": _verify,
    "pair": _pair_test,
    "relate": _relate,
    **dict.fromkeys(("uniform", "varied"), _uniform),
    "purely": _purely,
    "identity": _identity,
    **dict.fromkeys(("compare", "same", "different"), _pair),
}
