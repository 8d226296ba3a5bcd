"""Meanings of everyday questions about a picture: trees of sets, objects and tests.

A :class:`Things` is a set of objects, a :class:`One` a single object, a :class:`Test` what may be
true of an object. An :class:`Ask` is the whole question; its ``type`` decides which fields count.
Words are those of the question (``sphere``); :mod:`viper_lab.world.everyday.words` maps them to the
world's own (``ball``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

SIDES = ("left", "right", "top", "bottom", "front", "back")
EXTENTS = ("biggest", "smallest", "tallest", "shortest")
RELATIONS = (
    "left", "right", "above", "below", "front", "behind", "on", "under", "next", "touching",
)  # fmt: skip
QUANTIFIERS = ("all", "any", "none", "most", "exactly", "least")
# Types that are answered by yes or no, and may be statements as well.
YES_NO = (
    "exists", "absent", "both", "either", "more", "fewer", "equal", "bound", "quantified", "only",
    "verify", "pair", "identity", "compare", "same", "different", "uniform", "varied", "purely",
)  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A noun with adjectives: words by family, None where the family is not named."""

    noun: str
    general: bool = False
    size: str | None = None
    color: str | None = None
    material: str | None = None

    @property
    def phrase(self) -> str:
        """Return the phrase that programs search for: ``small red metal cube``."""
        return " ".join(filter(None, (self.size, self.color, self.material, self.noun)))

    def without(self, family: str) -> Kind:
        """Return the kind without the adjective of a family."""
        named = {"size": self.size, "color": self.color, "material": self.material, family: None}
        return Kind(self.noun, self.general, named["size"], named["color"], named["material"])


@dataclass(frozen=True)
class Test:
    """What may be true of an object.

    Attributes:
        type: ``is`` (has the property ``word``), a relation to ``anchor``, ``between`` ``anchor``
            and ``other`` (or between the ``pair`` that the anchor names), ``alike`` (same ``word``
            as the anchor: a family), ``apart`` (not the anchor), ``side`` (in the half ``word`` of
            the picture).
        negated: whether the test holds where the rest does not.
    """

    __test__ = False

    type: str
    word: str = ""
    anchor: One | None = None
    other: One | None = None
    negated: bool = False


@dataclass(frozen=True)
class Things:
    """All objects of a kind that pass the tests."""

    kind: Kind
    tests: tuple[Test, ...] = ()


@dataclass(frozen=True)
class One:
    """One object of a set.

    Attributes:
        pick: how it is chosen: ``only``, a side or an extent with ``rank``, ``middle``, or
            ``nearest`` and ``farthest`` with ``anchor``; ``pair`` names two at once.
    """

    things: Things
    pick: str = "only"
    rank: int = 1
    anchor: One | None = None


@dataclass(frozen=True)
class Ask:
    """A question.

    Attributes:
        type: ``refer`` (the object itself), ``which`` (its name), ``attribute``, ``choose``,
            ``choose_one``, ``relate`` (which of two relations to ``other``, or to the picture's
            middle), ``count``, ``sum``, ``difference``, ``more_of``, ``distinct``, or one of
            ``YES_NO``.
        word: a family, side, extent, quantifier or comparison.
        words: two properties to choose from.
    """

    type: str
    things: Things | None = None
    others: Things | None = None
    one: One | None = None
    other: One | None = None
    test: Test | None = None
    word: str = ""
    words: tuple[str, ...] = ()
    number: int = 0


Node = Kind | Test | Things | One | Ask


def nodes(node: Node) -> Iterator[Node]:
    """Yield a node and every node below it."""
    yield node
    for field in fields(node):
        value = getattr(node, field.name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, (Kind, Test, Things, One, Ask)):
                yield from nodes(part)


def constructs(ask: Ask) -> frozenset[str]:
    """Return the names of all constructs of a question, for compositions that are held out."""
    names = {ask.type}
    if ask.type in ("quantified", "bound"):
        names.add(ask.word)
    for node in nodes(ask):
        if isinstance(node, Test):
            names.add(node.type)
            if node.negated:
                names.add("not")
        elif isinstance(node, One) and node.pick != "only":
            names.add("extreme" if node.pick in (*SIDES, *EXTENTS) else node.pick)
            if node.rank > 1:
                names.add("ordinal")
    return frozenset(names)


def depth(node: Node) -> int:
    """Return the number of objects that lead to one another."""
    anchors = [0]
    for child in nodes(node):
        if child is not node and isinstance(child, One):
            anchors.append(depth(child))
    return max(anchors) + isinstance(node, One)


def groups(ask: Ask) -> int:
    """Return the number of groups of objects that a question names."""
    return sum(isinstance(node, Things) for node in nodes(ask))
