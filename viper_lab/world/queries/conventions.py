"""Annotator conventions of a data set, which decide the meaning of its ambiguous queries.

"The second cube" counts from the left in one data set and from the front in another. The query does
not say which, and every annotator of a set agrees. A :class:`Conventions` fixes one meaning for
each such wording. Explicit queries ("the second cube from the left") mean the same everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, get_args, get_type_hints

from viper.errors import UnknownNameError


@dataclass(frozen=True)
class Conventions:
    """The meaning of each ambiguous wording in one data set.

    Attributes:
        counted_from: the end from which "the second cube" and "which comes first" count.
        singled_out: the one of several cubes that "a cube" means.
        before: the side of the ball that "the cube before the ball" means; "after" is the opposite
            one.
        large: "the large cube" is the one of the size class big (``class``), or the cube with the
            largest area in the picture (``kind``).
        looks: the attribute that "what does the cube look like?" asks for.
        several: the least number that "several" means.
        deed: the one of its events that "what does the cube do?" asks for.
        when: "when the ball stops" is the next event ``after`` it or the one ``before``.
        meets: "what does the cube meet?" asks for its target, or for the object that hits it.

    Raises:
        UnknownNameError: a value that the convention cannot have.
    """

    counted_from: Literal["left", "right", "front"]
    singled_out: Literal["front", "left", "biggest"]
    before: Literal["left", "front", "below"]
    large: Literal["kind", "class"]
    looks: Literal["color", "material", "shape"]
    several: Literal["3", "2"]
    deed: Literal["last", "first"]
    when: Literal["after", "before"]
    meets: Literal["what_hit", "who_hits"]

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise UnknownNameError(f"convention {name!r}", getattr(self, name), choices)


# Each convention and its possible values.
CHOICES: Mapping[str, tuple[Any, ...]] = {
    name: get_args(values) for name, values in get_type_hints(Conventions).items()
}


def conventions_of(edition: int) -> Conventions:
    """Return the conventions of one edition of the world.

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
    """Draw conventions at random, all equally likely."""
    return Conventions(**{name: random.choice(choices) for name, choices in CHOICES.items()})
