"""The embedded world's own annotated store: scenes about a concept, reserved or known.

It replaces an open-vocabulary set such as LVIS when none can be downloaded. Scenes are drawn on
request. All are of the training split, so none can occur in validation or test, and from ranges
that no training of the shipped models uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from viper.errors import UsageError
from viper.tuning.training_data import AnnotatedPicture, Annotation, checked_limit, spellings
from viper_lab.world.layout import sample_scene
from viper_lab.world.render import render_scene
from viper_lab.world.reserved import CONCEPTS, reserved_scene
from viper_lab.world.scene import RenderedScene, Scene, SceneObject
from viper_lab.world.splits import combinations
from viper_lab.world.vocabulary import (
    COLOURS,
    HELD_OUT_COMBINATIONS,
    MATERIALS,
    RESERVED_COLOURS,
    RESERVED_PATTERNS,
    RESERVED_SHAPES,
    SHAPES,
    SIZES,
)

SPLIT = "train"

# Each word of the world with its attribute.
WORDS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(SIZES, "size"),
        **dict.fromkeys(COLOURS + RESERVED_COLOURS, "colour"),
        **dict.fromkeys(MATERIALS, "material"),
        **dict.fromkeys(SHAPES + RESERVED_SHAPES, "shape"),
        **dict.fromkeys(RESERVED_PATTERNS, "pattern"),
    }
)

# Usual names of annotated objects: shapes, coloured shapes, reserved concepts.
LABELS: tuple[str, ...] = (
    *SHAPES,
    *(f"{colour} {shape}" for colour, shape in combinations(SPLIT)),
    *CONCEPTS,
)

# Number of seeds of stores and searches; each has separate scenes.
SEEDS = 1_000

# Scenes of one kind that a seed may search.
SCENES = 5_000

# First scene of searches among those of a concept; stores use the scenes before.
SEARCH_FIRST = 5_000_000

# First scene about known concepts in the split, after all scenes that a training draws.
_KNOWN_FIRST = 4 * 10**8


@dataclass(frozen=True)
class ConceptMeaning:
    """Attributes that the words of a concept state.

    Attributes:
        label: the concept in the world's own spelling and order, as ``small red cube``.
        values: attribute to value.
        reserved: the reserved word among them, or None.
    """

    label: str
    values: Mapping[str, str]
    reserved: str | None

    def holds(self, thing: SceneObject) -> bool:
        """Return whether an object has all stated attributes."""
        return all(getattr(thing, name) == value for name, value in self.values.items())


def meaning_of(concept: str) -> ConceptMeaning | None:
    """Return the meaning of a concept; None if a word is unknown or two words exclude each other.

    Two reserved words exclude each other: no object of a scene shows two reserved concepts.
    """
    for spelling in spellings(concept):
        words = spelling.split()
        values = {WORDS[word]: word for word in words if word in WORDS}
        reserved = [word for word in words if word in CONCEPTS]
        if words and len(values) == len(words) and len(reserved) < 2:
            order = ("size", "pattern", "colour", "material", "shape")
            label = " ".join(values[name] for name in order if name in values)
            return ConceptMeaning(label, values, reserved[0] if reserved else None)
    return None


def first_scene(seed: int) -> int:
    """Return the first scene of a seed.

    Raises:
        UsageError: the seed is out of range.
    """
    if not 0 <= seed < SEEDS:
        raise UsageError(f"seed {seed} has no scenes of its own here; choose one in [0, {SEEDS})")
    return seed * SCENES


def scene_about(meaning: ConceptMeaning, index: int, *, present: bool = True) -> Scene:
    """Return scene ``index`` that may show a concept; with ``present`` a reserved one is in it."""
    if meaning.reserved is None:
        return sample_scene(SPLIT, _KNOWN_FIRST + index)
    return reserved_scene(SPLIT, index, meaning.reserved, present=present)


def scenes_with(
    meaning: ConceptMeaning, first: int
) -> Iterator[tuple[int, Scene, tuple[int, ...]]]:
    """Yield index, scene and objects that show the concept, for scenes from ``first`` on.

    Scenes without such an object are skipped. A pair of colour and shape that is held out for the
    test split yields nothing.
    """
    if (meaning.values.get("colour"), meaning.values.get("shape")) in HELD_OUT_COMBINATIONS:
        return
    for index in range(first, first + SCENES):
        scene = scene_about(meaning, index)
        showing = tuple(i for i, thing in enumerate(scene.objects) if meaning.holds(thing))
        if showing:
            yield index, scene, showing


def labels_of(thing: SceneObject) -> tuple[str, ...]:
    """Return an object's names: its shape, its coloured shape, the reserved words that it shows."""
    words = (thing.pattern, thing.colour, thing.shape)
    reserved = [word for word in words if word and word in CONCEPTS]
    patterned = [f"{thing.pattern} {thing.shape}"] if thing.pattern else []
    return tuple(
        dict.fromkeys([thing.shape, f"{thing.colour} {thing.shape}", *patterned, *reserved])
    )


class WorldStore:
    """Scenes of the embedded world as an :class:`~viper.tuning.training_data.AnnotatedStore`.

    Every object is annotated, with its exact box and mask.
    """

    name = "world"

    def vocabulary(self) -> Sequence[str]:
        """Return :data:`LABELS`."""
        return LABELS

    def names_of(self, concept: str) -> tuple[str, ...]:
        """Return the world's spelling of a concept; empty if it has no such words."""
        meaning = meaning_of(concept)
        return () if meaning is None else (meaning.label,)

    def samples(self, concept: str, limit: int, *, seed: int = 0) -> list[AnnotatedPicture]:
        """Return scenes with an object that shows the concept; any words of the world are allowed.

        They are drawn on request, about 40 per second. There are fewer than ``limit`` if
        :data:`SCENES` hold no more.

        Raises:
            UsageError: the limit or the seed is out of range.
        """
        checked_limit(limit)
        meaning, first = meaning_of(concept), first_scene(seed)
        if meaning is None:
            return []
        scenes = zip(scenes_with(meaning, first), range(limit), strict=False)
        return [_picture(meaning, *scene) for scene, _ in scenes]


def _picture(
    meaning: ConceptMeaning, index: int, scene: Scene, showing: tuple[int, ...]
) -> AnnotatedPicture:
    still = render_scene(scene)
    things = tuple(_annotation(still, i) for i in range(len(scene.objects)))
    absent = frozenset(LABELS).difference(*(thing.labels for thing in things))
    kind = meaning.reserved or "known"
    name, image = f"world:{kind}:{index}", still.image
    return AnnotatedPicture(name, meaning.label, things, showing, absent, image.copy)


def _annotation(still: RenderedScene, index: int) -> Annotation:
    labels = labels_of(still.scene.objects[index])
    return Annotation(labels, still.box(index), still.masks[index].copy)
