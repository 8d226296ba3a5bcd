"""Huge JSON files of lists of records, one record after the other, in one reading.

The file is one object; some of its members are lists of objects. Records are decoded by the
standard library's decoder from a window of the file, so that memory is bounded by the longest
record and no nesting harms: a recognised streaming parser that was tried here keeps a path for
every level, and 40 kB of opening brackets cost it 3.8 GB.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, BinaryIO

from viper.data.source import Source

CHUNK_BYTES = 4 << 20

MAX_RECORD = 16 << 20
"""Characters of one record, or of a member that is not asked for, at most."""

_SPACE = re.compile(r"[ \t\n\r]*")

_MAX_STRING = 1 << 20
"""Characters of one text; what is wrong farther from the window's end is no matter of its end."""

Progress = Callable[[int, int], None]
"""Is told bytes read and bytes in all."""


def json_records(
    source: Source, members: Collection[str], progress: Progress | None = None
) -> Iterator[tuple[str, int, Any]]:
    """Member, index and value of each element of the lists under ``members``, in file order.

    Args:
        members: names whose values must be lists; other members are read over.

    Raises:
        DataError: missing, unreadable, no JSON object, a member twice or no list, a record longer
            than :data:`MAX_RECORD`.
    """
    with source.opened() as file:
        yield from _Window(source, file, progress).records(frozenset(members))


class _Window:
    """The part of the file that is being decoded."""

    def __init__(self, source: Source, file: BinaryIO, progress: Progress | None) -> None:
        self._source, self._file, self._progress = source, file, progress
        self._total = source.path.stat().st_size
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")()
        self._decode = json.JSONDecoder().raw_decode
        self._text, self._at, self._ended = "", 0, False

    def records(self, members: frozenset[str]) -> Iterator[tuple[str, int, Any]]:
        """See :func:`json_records`."""
        self._expect("{")
        seen: set[str] = set()
        while self._next_is_item("}", first=not seen):
            name = self._value()
            if not isinstance(name, str) or name in seen:
                raise self._wrong("has a member without a name or a member twice")
            seen.add(name)
            self._expect(":")
            if name not in members:
                self._value()
                continue
            if self._peek() != "[":
                raise self._source.wrong(f" {name}", "is no list", "a list of records")
            self._at += 1
            index = 0
            while self._next_is_item("]", first=index == 0):
                yield name, index, self._value()
                index += 1
        if self._peek():
            raise self._wrong("goes on after its end")

    def _next_is_item(self, end: str, *, first: bool) -> bool:
        """Steps over a comma, or over the end."""
        found = self._peek()
        if found == end:
            self._at += 1
            return False
        if not first:
            self._expect(",")
            if self._peek() == end:
                raise self._wrong("has a comma before an end")
        return True

    def _expect(self, character: str) -> None:
        if self._peek() != character:
            raise self._wrong(f"lacks {character!r}")
        self._at += 1

    def _peek(self) -> str:
        """The next character that is no white space; empty at the end of the file."""
        while True:
            space = _SPACE.match(self._text, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _value(self) -> Any:
        """The next value; the window grows until it holds it."""
        self._peek()
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if error.pos < len(self._text) - _MAX_STRING or not self._more():
                    raise self._wrong(f"is cut short or no JSON ({error.msg})") from None
            except RecursionError:
                raise self._wrong("is nested too deeply") from None
            except ValueError:
                raise self._wrong("holds a number of thousands of digits") from None
            else:
                # A number may go on beyond the window; nothing else ends at its edge unseen.
                if end < len(self._text) or not self._more():
                    self._at = end
                    return value

    def _more(self) -> bool:
        """Doubles what is left of the window, by a chunk at least; False at the end of the file."""
        if self._ended:
            return False
        rest = self._text[self._at :]
        if len(rest) > MAX_RECORD:
            raise self._wrong(f"has a record longer than {MAX_RECORD:,} characters")
        data = self._file.read(max(CHUNK_BYTES, len(rest)))
        self._ended = not data
        try:
            self._text = rest + self._utf8.decode(data, final=self._ended)
        except UnicodeDecodeError:
            raise self._wrong("is not UTF-8") from None
        self._at = 0
        if self._progress:
            self._progress(self._file.tell(), self._total)
        return True

    def _wrong(self, seen: str) -> Exception:
        near = max(0, self._file.tell() - len(self._text) + self._at)
        return self._source.wrong(f" near byte {near:,}", seen, "JSON, an object of lists")
