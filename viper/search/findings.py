"""Results of searches, and the two protocols of search providers.

All content of results is untrusted data. It is never run, and its addresses are not followed. It
is marked as quoted in prompts and escaped on pages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from viper.errors import DataError
from viper.models.vision.roles import Pixels

MAX_TEXT = 2_000
"""Characters of a provider's text that are kept."""

MAX_NAME = 200
"""Characters of a title, a name or an address that are kept."""

MAX_RESULTS = 100
"""Results of one search at most."""

_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True)
class Passage:
    """Passage of a text.

    Attributes:
        title: of the text that it is from.
        text: at most :data:`MAX_TEXT` characters, in one line.
        source: where it is from: a file's name, an address; for people to look up.
        score: the provider's own; larger is better.
    """

    title: str
    text: str
    source: str = ""
    score: float = 0.0


@dataclass(frozen=True)
class TextFindings:
    """Results of a text search.

    Attributes:
        passages: the best first.
        direct: an answer that the provider gives by itself, as a knowledge panel does; "": none.
        related: questions that others asked, at most five.
    """

    passages: tuple[Passage, ...] = ()
    direct: str = ""
    related: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.passages or self.direct)


@dataclass(frozen=True)
class Entity:
    """Named thing that a picture shows."""

    name: str
    description: str = ""


@dataclass(frozen=True)
class SimilarPicture:
    """Picture of a collection that resembles the query picture.

    Attributes:
        picture_id: names it in the collection.
        score: likeness in [-1, 1].
        caption: what is written under it; "": nothing is.
        title: of the page or product that it is of; "": none.
        entities: what is known of what it shows.
        identical: the same picture, perhaps of another size or packed otherwise.
    """

    picture_id: str
    score: float
    caption: str = ""
    title: str = ""
    entities: tuple[Entity, ...] = field(default=())
    identical: bool = False


@runtime_checkable
class TextSearch(Protocol):
    """Protocol of a search for passages by words."""

    name: str

    def search(self, query: str, limit: int) -> TextFindings:
        """Return at most ``limit`` passages for a query, best first.

        Raises:
            UsageError: an empty query or a limit outside 1 to :data:`MAX_RESULTS`.
            ModelError: the provider fails, refuses or answers with something else.
            StoreError: an index that cannot be read.
        """
        ...


@runtime_checkable
class ImageSearch(Protocol):
    """Protocol of a search for similar pictures."""

    name: str

    def similar(self, pixels: Pixels, limit: int) -> Sequence[SimilarPicture]:
        """Return at most ``limit`` pictures, most similar first.

        Args:
            pixels: uint8 [H, W, 3] RGB.

        Raises:
            UsageError: a limit outside 1 to :data:`MAX_RESULTS`.
            ModelError, StoreError: as :meth:`TextSearch.search`.
        """
        ...


def json_line(line: bytes, where: str) -> Any:
    """Return the JSON value of a line of a file.

    Raises:
        DataError: the line is no JSON; names ``where``.
    """
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{where}: no JSON ({str(error)[:80]}); expected an object a line"
        ) from None


def plain(value: object, most: int = MAX_TEXT) -> str:
    """Return an untrusted text in one line, shortened and without control or invisible characters.

    What is no text is nothing.
    """
    if not isinstance(value, str):
        return ""
    head = value[: 8 * most]
    return _SPACE.sub(" ", _UNSEEN.sub(" ", head)).strip()[:most].rstrip()
