"""Results of searches, and the two protocols of search providers.

A provider checks a search (:func:`check_search`), cleans every text that it returns
(:func:`plain`), and gives :class:`TextFindings` or :class:`SimilarPicture`. All content of results
is untrusted data. It is never run, and its addresses are not followed. It is marked as quoted in
prompts and escaped on pages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from viper.errors import DataError, UsageError
from viper.models.vision.roles import Pixels

# Most characters of a provider's text: ten passages of so many fit the prompt of a small model.
MAX_TEXT = 2_000

# Most characters of a title, a name or an address: a line or two of a prompt; longer ones carry
# other text than a name.
MAX_NAME = 200

# Most results of one search; larger ones are no search but a copy of the collection.
MAX_RESULTS = 100

# Control characters and invisible ones, with which a text could hide words from a reader.
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True)
class Passage:
    """Passage of a text.

    Attributes:
        title: title of the whole text.
        text: the passage in one line, at most :data:`MAX_TEXT` characters.
        source: origin for people to look up: a file's name, an address.
        score: score of the provider; larger is better.
    """

    title: str
    text: str
    source: str = ""
    score: float = 0.0


@dataclass(frozen=True)
class TextFindings:
    """Results of a text search.

    Attributes:
        passages: passages, best first.
        direct: direct answer of the provider, as in a knowledge panel; "" without one.
        related: at most five related questions.
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
        picture_id: name in the collection.
        score: similarity in [-1, 1].
        caption: its caption; "" without one.
        title: title of its page or product; "" without one.
        entities: entities that it shows.
        identical: whether it is the same picture, in any size or encoding.
    """

    picture_id: str
    score: float
    caption: str = ""
    title: str = ""
    entities: tuple[Entity, ...] = ()
    identical: bool = False


@runtime_checkable
class TextSearch(Protocol):
    """Protocol of a search for passages by words."""

    name: str

    def search(self, query: str, limit: int) -> TextFindings:
        """Return at most ``limit`` passages for a query, best first.

        Raises:
            UsageError: the query is empty, or the limit is outside 1 to :data:`MAX_RESULTS`.
            ModelError: the provider fails, refuses, or gives an invalid reply.
            StoreError: the index cannot be read.
        """


@runtime_checkable
class ImageSearch(Protocol):
    """Protocol of a search for similar pictures."""

    name: str

    def similar(self, pixels: Pixels, limit: int) -> Sequence[SimilarPicture]:
        """Return at most ``limit`` pictures, most similar first.

        Args:
            pixels: uint8 [H, W, 3] RGB.

        Raises:
            UsageError: the limit is outside 1 to :data:`MAX_RESULTS`.
            ModelError, StoreError: see :meth:`TextSearch.search`.
        """


def json_line(line: bytes, where: str) -> Any:
    """Return the JSON value of a line of a file.

    Raises:
        DataError: the line is not JSON; names ``where``.
    """
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{where}: no JSON ({str(error)[:80]}); expected an object a line"
        ) from None


def plain(value: object, most: int = MAX_TEXT) -> str:
    """Return an untrusted text in one line, shortened and without control or invisible characters.

    Return "" if the value is not a text.
    """
    if not isinstance(value, str):
        return ""
    head = value[: 8 * most]
    return _SPACE.sub(" ", _UNSEEN.sub(" ", head)).strip()[:most].rstrip()


def check_search(query: str | None, limit: int) -> None:
    """Check the limit of a search, and its text unless it is None.

    Raises:
        UsageError: the query is empty, or the limit is outside 1 to :data:`MAX_RESULTS`.
    """
    if query is not None and not plain(query):
        raise UsageError("the text to search for is empty")
    if not 1 <= limit <= MAX_RESULTS:
        raise UsageError(f"a limit of {limit} results; expected 1 to {MAX_RESULTS}")
