"""Data to train a tool on a concept, and the protocols of its sources.

There are three collection modes. The detector and the segmenter learn from boxes and masks of an
annotated store. The matcher, the classifier and the inpainter learn from pictures that a search
finds for a text. VQA learns from answers inferred from feedback (:mod:`viper.tuning.tool_updates`).
Stores and searches are Protocols here; :mod:`viper.tuning.data_collection` uses them.

Source: CLOVA (Gao et al. 2024), sec. 3.4, "Data collection"; the numbers: its supplement, sec. 8.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from viper.errors import UsageError
from viper.models.vision.roles import Pixels
from viper.models.vision.vocabulary import singulars
from viper.schema import PixelBox

# Most characters of a concept's name; further ones are ignored. A name is one to three words.
MAX_NAME = 100

_REMARK = re.compile(r"\([^()]*\)")
_BREAK = re.compile(r"[\s_\-/]+")

# Least letters of a singular: ``bus`` is not the plural of ``bu``.
_SHORTEST = 3


def plain(name: str) -> str:
    """Return a name in lower case with single spaces: ``Traffic_Light`` is ``traffic light``."""
    return _BREAK.sub(" ", name[:MAX_NAME]).strip().lower()


def without_remark(name: str) -> str:
    """Return the plain name without an explanation in brackets: ``bow`` of ``bow_(weapon)``."""
    return plain(_REMARK.sub(" ", name[:MAX_NAME]))


def spellings(name: str) -> Iterator[str]:
    """Yield the spellings under which a name may be listed: itself, then singulars.

    Singulars of the last word are formed by English endings. A spelling that is not a word only
    costs a look-up.
    """
    text, *others = singulars(plain(name))
    yield text
    yield from (each for each in others if len(each.rpartition(" ")[2]) >= _SHORTEST)


def is_about(name: str, concept: str) -> bool:
    """Return whether one name contains all words of the other: ``red cubes`` is about ``cube``."""
    in_name, in_concept = (
        [set(spellings(word)) for word in without_remark(each).split()] for each in (name, concept)
    )
    return bool(in_name and in_concept) and (
        _all_among(in_name, in_concept) or _all_among(in_concept, in_name)
    )


def _all_among(words: Sequence[set[str]], others: Sequence[set[str]]) -> bool:
    return all(any(word & other for other in others) for word in words)


# Most annotated pictures for the detector (supplement, sec. 8.2).
LOC_SAMPLES = 200

# Most annotated pictures for the segmenter (supplement, sec. 8.3).
SEG_SAMPLES = 50

# Pictures of a concept for the matcher, the classifier and the inpainter (sec. 8.4 and 8.5).
POSITIVES = 7

# Most pictures of one request: far more than any tool learns from, few enough to list in the
# evidence.
MOST_SAMPLES = 10_000

# bool [H, W] of the whole picture, True at the visible pixels of the object.
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class ConceptQuery:
    """A concept to collect data for.

    Attributes:
        concept: name of the concept.
        related: similar but different concepts, as negatives. If empty, they are chosen from the
            vocabulary of the source, see :mod:`viper.tuning.data_collection`.

    Raises:
        UsageError: the name is blank or too long.
    """

    concept: str
    related: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in (self.concept, *self.related):
            if not plain(name) or len(name) > MAX_NAME:
                raise UsageError(
                    f"a concept named {name[:MAX_NAME]!r} ({len(name)} characters) cannot be "
                    f"looked for; expected a name of 1 to {MAX_NAME} characters"
                )


@dataclass(frozen=True, eq=False)
class Annotation:
    """One object of a picture.

    Attributes:
        labels: names of the object, its usual name first, then equally right ones.
        box: ``(x0, y0, x1, y1)`` in pixels from the top-left corner.
        mask: function that returns bool [H, W], or None if there is no mask. It may raise
            :class:`~viper.errors.DataError` for an outline that cannot be read.
    """

    labels: tuple[str, ...]
    box: PixelBox
    mask: Callable[[], Mask] | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class AnnotatedPicture:
    """A picture with all its annotations, so that training also sees known concepts.

    Attributes:
        picture_id: permanent id in the store; the same id always has the same pixels.
        concept: the requested concept by its name in the store.
        things: all annotated objects.
        positives: indices of the objects that show the concept; never empty.
        absent: labels of the store's vocabulary that no object in the picture has.
        incomplete: labels whose objects may lack boxes in the picture.
        pixels: reads uint8 [H, W, 3], RGB, again at each call; may raise
            :class:`~viper.errors.MediaError`.
    """

    picture_id: str
    concept: str
    things: tuple[Annotation, ...]
    positives: tuple[int, ...]
    absent: frozenset[str]
    pixels: Callable[[], Pixels] = field(repr=False)
    incomplete: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class FoundPicture:
    """A picture that a search returned for a text. It may not show the text's content.

    Attributes:
        picture_id: permanent id in the search.
        text: the text that was searched for.
        origin: origin as JSON values: a file, an address, a checksum, how it was found.
        pixels: reads uint8 [H, W, 3], RGB, again at each call; may raise
            :class:`~viper.errors.MediaError`.
    """

    picture_id: str
    text: str
    origin: Mapping[str, Any]
    pixels: Callable[[], Pixels] = field(repr=False)


@runtime_checkable
class AnnotatedStore(Protocol):
    """Protocol of an annotated data set with an open vocabulary."""

    name: str

    def vocabulary(self) -> Sequence[str]:
        """Return the usual names of the store's labels, each once, in a fixed order."""

    def names_of(self, concept: str) -> tuple[str, ...]:
        """Return all names of a concept, the usual one first; empty if the concept is unknown."""

    def samples(self, concept: str, limit: int, *, seed: int = 0) -> list[AnnotatedPicture]:
        """Return up to ``limit`` pictures of a concept, drawn by the seed.

        The list is empty if the concept is unknown. The same arguments give the same pictures in
        the same order.
        """


@runtime_checkable
class PictureSearch(Protocol):
    """Protocol of a search for pictures by a text."""

    name: str

    def search(self, text: str, limit: int) -> list[FoundPicture]:
        """Return up to ``limit`` pictures, best first.

        Raising ``limit`` appends results and never reorders them.
        """


Picture = TypeVar("Picture", AnnotatedPicture, FoundPicture)


@dataclass(frozen=True, eq=False)
class Collected(Generic[Picture]):
    """Data collected for a concept.

    Attributes:
        positives: pictures of the concept, in the order of the source.
        negatives: pictures of related concepts, which probably do not show the concept.
        evidence: JSON values for the learning record: the source, the arguments, and the content
            and origin of every picture.
    """

    concept: str
    positives: tuple[Picture, ...]
    negatives: tuple[Picture, ...]
    evidence: Mapping[str, Any]


def checked_limit(limit: int, least: int = 1) -> int:
    """Return the limit if it is valid.

    Raises:
        UsageError: the limit is not within [``least``, :data:`MOST_SAMPLES`].
    """
    if not least <= limit <= MOST_SAMPLES:
        raise UsageError(
            f"{limit} pictures cannot be collected; ask for {least} to {MOST_SAMPLES:,}"
        )
    return limit
