"""What is collected to teach a tool a concept, and where it may come from.

Three manners, each for the tools that learn from it: boxes and masks out of a store that people
annotated (the detector, the segmenter), pictures found by a text (the matcher, the classifier, the
inpainter), and answers inferred from what would have been right (:mod:`viper.tuning.tool_updates`).
Stores and searches are stated here as Protocols; :mod:`viper.tuning.data_collection` asks them.

Source: CLOVA (Gao et al. 2024), sec. 3.4, "Data collection"; the numbers: its supplement, sec. 8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from viper.errors import UsageError
from viper.models.vision.roles import Pixels
from viper.schema import PixelBox
from viper.tuning.concept_names import MAX_NAME, plain

LOC_SAMPLES = 200
"""Annotated pictures for the detector at most."""

SEG_SAMPLES = 50
"""Annotated pictures for the segmenter at most."""

POSITIVES = 7
"""Pictures of a concept for the matcher, the classifier and the inpainter."""

MOST_SAMPLES = 10_000
"""Of one request, whatever is asked for."""

Mask = NDArray[np.bool_]
"""bool [H, W] of the whole picture: where the object is seen."""


@dataclass(frozen=True)
class ConceptQuery:
    """A concept to collect data for.

    Attributes:
        concept: its name.
        related: concepts like it and yet others, as negatives; empty: chosen from what the source
            of the data knows, see :mod:`viper.tuning.data_collection`.

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
        labels: what it is called, its usual name first, then others that are as right.
        box: ``(x0, y0, x1, y1)`` in pixels from the top-left corner.
        mask: gives bool [H, W] when it is called; None where there is no mask. May raise
            :class:`~viper.errors.DataError` for an outline that cannot be read.
    """

    labels: tuple[str, ...]
    box: PixelBox
    mask: Callable[[], Mask] | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class AnnotatedPicture:
    """A picture with everything that is annotated in it, so that old concepts stay in sight.

    Attributes:
        picture_id: names it for good within its store: the same id, the same pixels.
        concept: what was asked for, by the store's name of it.
        things: all annotated objects.
        positives: indices of those things that show the concept; never empty.
        absent: labels of the store's vocabulary that are known to be on nothing in it.
        incomplete: labels of which some objects in it may be without a box.
        load: reads uint8 [H, W, 3], RGB; may raise :class:`~viper.errors.MediaError`.
    """

    picture_id: str
    concept: str
    things: tuple[Annotation, ...]
    positives: tuple[int, ...]
    absent: frozenset[str]
    load: Callable[[], Pixels] = field(repr=False)
    incomplete: frozenset[str] = frozenset()

    def pixels(self) -> Pixels:
        """Return the picture, uint8 [H, W, 3], RGB, read again at each call."""
        return self.load()


@dataclass(frozen=True, eq=False)
class FoundPicture:
    """A picture that a search found for a text; nobody vouches that it shows it.

    Attributes:
        picture_id: names it for good within its search.
        text: what was searched for.
        origin: where it is from, as JSON values: a file, an address, a checksum, why it was found.
        load: reads uint8 [H, W, 3], RGB; may raise :class:`~viper.errors.MediaError`.
    """

    picture_id: str
    text: str
    origin: Mapping[str, Any]
    load: Callable[[], Pixels] = field(repr=False)

    def pixels(self) -> Pixels:
        """Return the picture, uint8 [H, W, 3], RGB, read again at each call."""
        return self.load()


@runtime_checkable
class AnnotatedStore(Protocol):
    """An open-vocabulary annotated set."""

    name: str

    def vocabulary(self) -> Sequence[str]:
        """Return the usual names of the store's labels, each once, in a fixed order."""
        ...

    def names_of(self, concept: str) -> tuple[str, ...]:
        """Return all names of a concept, the usual one first; empty if the concept is unknown."""
        ...

    def samples(self, concept: str, limit: int, *, seed: int = 0) -> list[AnnotatedPicture]:
        """Return up to ``limit`` pictures of a concept, drawn by the seed; empty if the concept is
        unknown.

        The same arguments give the same pictures in the same order.
        """
        ...


@runtime_checkable
class PictureSearch(Protocol):
    """Pictures by a text."""

    name: str

    def search(self, text: str, limit: int) -> list[FoundPicture]:
        """Return up to ``limit`` pictures, best first. Raising ``limit`` appends results and never
        reorders them."""
        ...


Picture = TypeVar("Picture", AnnotatedPicture, FoundPicture)


@dataclass(frozen=True, eq=False)
class Collected(Generic[Picture]):
    """What was collected for a concept.

    Attributes:
        positives: pictures of the concept, in the order of the source.
        negatives: pictures of related concepts that do not show it, as far as is known.
        evidence: JSON values for the trace store: the source, the arguments, and of every picture
            what it is and where it is from.
    """

    concept: str
    positives: tuple[Picture, ...]
    negatives: tuple[Picture, ...]
    evidence: Mapping[str, Any]


def checked_limit(limit: int, least: int = 1) -> int:
    """Return the limit if it is valid.

    Raises:
        UsageError: it is not within [``least``, :data:`MOST_SAMPLES`].
    """
    if not least <= limit <= MOST_SAMPLES:
        raise UsageError(
            f"{limit} pictures cannot be collected; ask for {least} to {MOST_SAMPLES:,}"
        )
    return limit
