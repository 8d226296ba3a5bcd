"""A catalogue: designs of objects with fictional names, their makers, and the makers' towns.

Names are invented for each catalogue, so no model can know them. Names of training and of testing
are disjoint (:func:`viper_lab.recipes.writer_words.is_test_word`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from viper.errors import UsageError
from viper_lab.recipes.writer_words import made_up_words
from viper_lab.world.splits import check_split, combinations
from viper_lab.world.vocabulary import COLOURS, MATERIALS, SIZES

# Default number of designs in a catalogue.
DESIGNS = 120

# Number of named pictures, and of places with words of their own for colors.
WORKS, COLOUR_PLACES = 40, 4

# Share of the designs that share their look with another one and have distinguishing marks.
MARKED = 0.2

# Letters of marks, none of which is easily read as another.
_LETTERS = "ABCDEFHKLMNPRTUVXYZ"


@dataclass(frozen=True)
class Look:
    """Look of a design."""

    shape: str
    colour: str
    material: str
    size: str

    @property
    def words(self) -> str:
        """Return all attributes, ``small red metal cube``."""
        return f"{self.size} {self.colour} {self.material} {self.shape}"

    def differences(self, other: Look) -> int:
        """Return the number of attributes in which another look differs."""
        return sum(getattr(other, name) != value for name, value in vars(self).items())


@dataclass(frozen=True)
class Town:
    """A town. ``river``, ``region`` and ``mayor`` are names."""

    name: str
    region: str
    river: str
    mayor: str


@dataclass(frozen=True)
class Maker:
    """A maker of designs; ``place`` is a town's name."""

    name: str
    founded: int
    founder: str
    place: str


@dataclass(frozen=True)
class Design:
    """An entry of the catalogue.

    Attributes:
        mark: printed on a label in front of it; "" for none.
        maker: a maker's name.
        price: in coins.
    """

    name: str
    look: Look
    maker: str
    year: int
    price: int
    designer: str
    mark: str = ""


@dataclass(frozen=True)
class Work:
    """A picture with a name: who took it, and when."""

    name: str
    taker: str
    taken: int


@dataclass(frozen=True)
class Catalogue:
    """Designs, makers and places that belong together, and named pictures.

    Attributes:
        works: as many as questions about them may need, in no order.
        colour_words: a place's word for a color, by (place, color).
    """

    split: str
    seed: int
    designs: tuple[Design, ...]
    makers: tuple[Maker, ...]
    places: tuple[Town, ...]
    works: tuple[Work, ...]
    colour_words: Mapping[tuple[str, str], str]

    @property
    def entries(self) -> Mapping[str, Sequence[Design | Maker | Town | Work]]:
        """Return everything that has facts, by its kind."""
        return {
            "design": self.designs,
            "maker": self.makers,
            "place": self.places,
            "work": self.works,
        }

    def design(self, name: str) -> Design:
        """Return the design of that name."""
        return next(design for design in self.designs if design.name == name)

    def look_alikes(self, design: Design) -> tuple[Design, ...]:
        """Return designs that differ in one attribute, or in the mark alone."""
        return tuple(
            other
            for other in self.designs
            if other is not design and design.look.differences(other.look) <= 1
        )


def catalogue(split: str, seed: int = 0, designs: int = DESIGNS) -> Catalogue:
    """Return the catalogue of that number; the same arguments always give the same one.

    Args:
        designs: number of designs; makers and places are a third and a seventh as many.

    Raises:
        UnknownNameError: there is no such split.
        UsageError: more designs than there are looks.
    """
    check_split(split)
    random = Random(f"catalogue {split} {seed} {designs}")
    looks = list(_looks(split))
    random.shuffle(looks)
    twins = round(designs * MARKED / 2)
    if designs - twins > len(looks):
        raise UsageError(f"{designs} designs; there are looks for {len(looks) + twins} at most")
    makers, places = max(3, designs // 3), max(2, designs // 7)
    spoken = min(places, COLOUR_PLACES)
    count = 2 * designs + 2 * makers + 4 * places + 2 * WORKS + spoken * len(COLOURS)
    names = iter(made_up_words(random, count, test=split != "train"))
    towns = tuple(Town(next(names), next(names), next(names), next(names)) for _ in range(places))
    firms = tuple(
        Maker(next(names), random.randint(1800, 1990), next(names), random.choice(towns).name)
        for _ in range(makers)
    )
    chosen = [(look, "") for look in looks[: designs - twins]]
    marks = _marks(random, 2 * twins)
    for place in range(twins):
        look = chosen[place][0]
        chosen[place] = (look, marks[2 * place])
        chosen.append((look, marks[2 * place + 1]))
    made = []
    for look, mark in chosen:
        maker = random.choice(firms)
        year = random.randint(maker.founded + 1, 2020)
        price = random.randint(11, 990)
        made.append(Design(next(names), look, maker.name, year, price, next(names), mark))
    works = tuple(Work(next(names), next(names), random.randint(1950, 2025)) for _ in range(WORKS))
    words = {(town.name, colour): next(names) for town in towns[:spoken] for colour in COLOURS}
    return Catalogue(split, seed, tuple(made), firms, towns, works, words)


def _looks(split: str) -> Iterator[Look]:
    for colour, shape in combinations(split):
        for material in MATERIALS:
            for size in SIZES:
                yield Look(shape, colour, material, size)


def _marks(random: Random, count: int) -> list[str]:
    """Draw distinct marks, ``KT 47``, of which no two differ in one character alone."""
    marks: list[str] = []
    while len(marks) < count:
        letters = "".join(random.choice(_LETTERS) for _ in range(2))
        mark = f"{letters}{random.randint(23, 98)}"
        if all(sum(a != b for a, b in zip(mark, other, strict=True)) > 1 for other in marks):
            marks.append(mark)
    return marks
