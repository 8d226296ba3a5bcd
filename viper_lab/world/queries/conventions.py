"""Conventions of a data set: how its ambiguous queries are meant.

"The second cube" counts from the left in one data set and from the front in another; nothing
in the query says which, and no annotator of either set doubts it. A :class:`Conventions` fixes one
meaning for each such wording. Explicit queries ("the second cube from the left") mean the same
everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from viper.errors import UnknownNameError

CHOICES: Mapping[str, tuple[str, ...]] = {
    "counted_from": ("left", "right", "front"),
    "singled_out": ("front", "left", "biggest"),
    "before": ("left", "front", "below"),
    "large": ("kind", "class"),
    "looks": ("color", "material", "shape"),
    "several": ("3", "2"),
    "deed": ("last", "first"),
    "when": ("after", "before"),
    "meets": ("what_hit", "who_hits"),
}
"""Each convention and what it can be; see :class:`Conventions`."""


@dataclass(frozen=True)
class Conventions:
    """What each ambiguous wording means in one data set; the values are those of ``CHOICES``.

    Attributes:
        counted_from: the end from which "the second cube" and "which comes first" count.
        singled_out: which of several cubes "a cube" is.
        before: the side of the ball on which "the cube before the ball" is; "after" is the
            opposite one.
        large: "the large cube" is the one of the size class big (``class``), or the cube that
            takes most of the picture (``kind``).
        looks: the attribute that "what does the cube look like?" asks for.
        several: how many "several" are at least.
        deed: which of its deeds "what does the cube do?" asks for.
        when: "when the ball stops" is the next event ``after`` it or the one ``before``.
        meets: "what does the cube meet?" asks whom it hits, or who hits it.

    Raises:
        UnknownNameError: a value that the convention cannot have.
    """

    counted_from: str
    singled_out: str
    before: str
    large: str
    looks: str
    several: str
    deed: str
    when: str
    meets: str

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise UnknownNameError(f"convention {name!r}", getattr(self, name), choices)


def conventions_of(edition: int) -> Conventions:
    """The conventions of one edition of the world.

    Neighbouring editions differ in every convention, and any three have all values of each, so that
    a guess that suits one of them fails in another.
    """
    return Conventions(
        **{
            name: choices[(edition + place) % len(choices)]
            for place, (name, choices) in enumerate(CHOICES.items())
        }
    )


def draw_conventions(random: Random) -> Conventions:
    """Conventions at random, all equally likely."""
    return Conventions(**{name: random.choice(choices) for name, choices in CHOICES.items()})
