"""Readers of texts to index, from JSON lines, Markdown or a Wikipedia dump; passages.

The index lists the files (:func:`text_files`), reads each by the reader of its ending
(:func:`documents`) and stores a document's :func:`passages`. Each file is read record by record,
always in the same order. An interrupted index continues after its last record.
"""

from __future__ import annotations

import bz2
import gzip
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from xml.etree.ElementTree import ParseError

from viper.errors import DataError, MissingExtraError, UsageError
from viper.search.findings import MAX_NAME, MAX_TEXT, json_line, plain

# Approximate number of words of a passage, as in retrieval for question answering (Karpukhin et al.
# 2020): long enough for a fact with its subject, short enough that ten fit a prompt.
WORDS = 100

# Limit for a line of JSON and for a whole Markdown file: other kinds of files are one endless line.
MAX_LINE_BYTES = 16 << 20

# Related questions of a document that are kept; a prompt shows no more.
MAX_RELATED = 5

_PACKINGS: Mapping[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
# Elements of Wikipedia's markup that hold no sentences.
_NO_PROSE = ("ref", "table", "math", "gallery")
_MARKUP = re.compile(r"\{\{|\}\}|\[\[|\]\]|</|/>|<(?!br\b|hr\b|wbr\b|!)", re.IGNORECASE)
_CLOSES = {"}}": "{{", "]]": "[[", "</": "<", "/>": "<"}

# Most characters of an article times the depth of its markup: the parser reads on from each
# element that is not closed. Articles have some 10^6; at this bound it takes up to five seconds.
_MAX_MARKUP = 20_000_000

_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$", re.MULTILINE)
_FENCE = re.compile(r"^\s*(?:```|~~~)", re.MULTILINE)
_PARAGRAPH = re.compile(r"\n\s*\n")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True)
class Document:
    """Text with a title.

    Attributes:
        text: the text; empty lines separate paragraphs.
        direct: a short answer for the whole, as in a knowledge panel; "" without one.
        related: questions that it answers.
        source: address or name to look it up by; "" for the file's name.
        unread: why there is no text of an article whose markup cannot be read; else "".
    """

    title: str
    text: str
    direct: str = ""
    related: tuple[str, ...] = ()
    source: str = ""
    unread: str = ""


def text_files(paths: list[Path]) -> list[Path]:
    """Return the files that can be indexed, from these files and below these folders, in order.

    Raises:
        UsageError: one of the paths does not exist, or no file can be indexed.
    """
    files: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            for root, folders, names in os.walk(path):
                folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
                inside = [Path(root, name) for name in sorted(names) if not name.startswith(".")]
                files.update(dict.fromkeys(file for file in inside if reader_of(file) is not None))
        elif not path.is_file():
            raise UsageError(f"{path}: no such file or folder of texts")
        elif reader_of(path) is None:
            raise UsageError(f"{path}: cannot be indexed; known: {', '.join(sorted(_READERS))}")
        else:
            files[path] = None
    if not files:
        named = ", ".join(map(str, paths))
        raise UsageError(f"{named}: nothing to index there; known: {', '.join(sorted(_READERS))}")
    return list(files)


def documents(path: Path) -> Iterator[tuple[Document, int]]:
    """Yield the texts of a file, each with the number of bytes read so far.

    Raises:
        DataError: the content does not match the file's name; names the line.
        MissingExtraError: the file is a Wikipedia dump, and the parser of its markup is missing.
    """
    reader = reader_of(path)
    assert reader is not None, path
    try:
        yield from reader(path)
    except (OSError, EOFError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from None


def passages(document: Document) -> Iterator[str]:
    """Yield pieces of about :data:`WORDS` words: whole paragraphs, or sentences of long ones."""
    parts: list[str] = []
    for paragraph in _PARAGRAPH.split(document.text):
        if len(paragraph.split()) <= WORDS:
            parts.append(plain(paragraph))
            continue
        for sentence in _SENTENCE.split(paragraph):
            words = sentence.split()
            for start in range(0, len(words), WORDS):
                parts.append(plain(" ".join(words[start : start + WORDS])))
    piece = ""
    for part in filter(None, parts):
        if piece and len(piece.split()) + len(part.split()) > WORDS:
            yield piece
            piece = ""
        piece = f"{piece} {part}".lstrip()
    if piece:
        yield piece


def reader_of(path: Path) -> Callable[[Path], Iterator[tuple[Document, int]]] | None:
    """Return the reader for a file name, or None if it cannot be indexed."""
    name = path.name.lower()
    for packing in _PACKINGS:
        name = name.removesuffix(packing)
    return next((reader for end, reader in _READERS.items() if name.endswith(end)), None)


@contextmanager
def _open(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Open a file. Yield the unpacked file, and the raw file, whose position is the progress."""
    with path.open("rb") as raw:
        unpack = _PACKINGS.get(path.suffix.lower())
        yield (raw if unpack is None else unpack(raw)), raw


def _json_lines(path: Path) -> Iterator[tuple[Document, int]]:
    with _open(path) as (file, raw):
        number = 0
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise DataError(f"{path}:{number}: a line of more than {MAX_LINE_BYTES:,} bytes")
            if line.strip():
                yield _record(line, f"{path}:{number}"), raw.tell()


def _record(line: bytes, where: str) -> Document:
    value = json_line(line, where)
    text = value.get("text", value.get("contents")) if isinstance(value, dict) else None
    if not isinstance(text, str):
        raise DataError(f'{where}: no text; expected {{"title": "…", "text": "…"}}')
    related = value.get("related") or value.get("questions") or []
    questions = [plain(item, MAX_NAME) for item in related] if isinstance(related, list) else []
    source = next((value[key] for key in ("url", "source", "id") if value.get(key)), "")
    return Document(
        plain(value.get("title"), MAX_NAME),
        text,
        plain(value.get("direct") or value.get("panel")),
        tuple(filter(None, questions))[:MAX_RELATED],
        plain(str(source), MAX_NAME),
    )


def _markdown(path: Path) -> Iterator[tuple[Document, int]]:
    """Yield one text for each section. Fenced code stays."""
    with _open(path) as (file, _):
        data = file.read(MAX_LINE_BYTES + 1)
    if len(data) > MAX_LINE_BYTES:
        raise DataError(f"{path}: more than {MAX_LINE_BYTES:,} bytes; cut it into several files")
    text = data.decode("utf-8", "replace")
    fenced = [match.start() for match in _FENCE.finditer(text)]
    heads = [h for h in _HEADING.finditer(text) if bisect_left(fenced, h.start()) % 2 == 0]
    first = plain(heads[0][1], MAX_NAME) if heads else path.stem
    starts = [(0, first)] if not heads or text[: heads[0].start()].strip() else []
    starts += [(head.end(), plain(head[1], MAX_NAME)) for head in heads]
    ends = [head.start() for head in heads[1 if len(starts) == len(heads) else 0 :]] + [len(text)]
    for (start, title), end in zip(starts, ends, strict=True):
        if text[start:end].strip():
            whole = title if title == first else f"{first}: {title}"
            yield Document(whole[:MAX_NAME], text[start:end], source=path.name), len(data)


def _wikipedia(path: Path) -> Iterator[tuple[Document, int]]:
    """Yield the articles of a MediaWiki dump (``pages-articles.xml``) without their markup."""
    try:
        import mwparserfromhell
        from defusedxml.common import DefusedXmlException
        from defusedxml.ElementTree import iterparse
    except ModuleNotFoundError as error:
        needed = error.name or "mwparserfromhell"
        raise MissingExtraError(needed, "a Wikipedia dump") from None
    with _open(path) as (file, raw):
        try:
            events = iterparse(file, ("start", "end"), forbid_dtd=True)
            root = next(events)[1]
            for event, page in events:
                if event == "start" or page.tag.rpartition("}")[2] != "page":
                    continue
                title, text = page.findtext("{*}title"), page.findtext("{*}revision/{*}text")
                if page.findtext("{*}ns") == "0" and page.find("{*}redirect") is None and text:
                    name = plain(title, MAX_NAME)
                    if depth_of_markup(text) * len(text) > _MAX_MARKUP:
                        prose, problem = "", "too many elements are not closed"
                    else:
                        prose, problem = _prose(mwparserfromhell.parse(text))
                    yield Document(name, prose, unread=problem), raw.tell()
                root.clear()  # of the page itself as well
        except (ParseError, DefusedXmlException) as error:
            raise DataError(f"{path}: no dump of MediaWiki ({str(error)[:80]})") from None


def depth_of_markup(text: str) -> int:
    """Return how many elements of MediaWiki's markup are open at once, at most."""
    depth, deepest = dict.fromkeys(_CLOSES.values(), 0), 0
    for token in map(re.Match.group, _MARKUP.finditer(text)):
        opens = _CLOSES.get(token)
        if opens is None:
            depth[token] += 1
            deepest = max(deepest, depth[token])
        else:
            depth[opens] = max(0, depth[opens] - 1)
    return deepest


def _prose(code: Any) -> tuple[str, str]:
    """Return the text of an article without references and tables, and "" or what failed."""
    try:
        # A table in a reference goes with the reference.
        for tag in code.filter_tags(
            recursive=code.RECURSE_OTHERS, matches=lambda element: element.tag in _NO_PROSE
        ):
            code.remove(tag)
        return code.strip_code(), ""
    except (ValueError, RecursionError) as error:
        return "", f"{type(error).__name__}: {error}"


# Readers by the end of a file's name, without the suffix of a packed file.
_READERS: Mapping[str, Callable[[Path], Iterator[tuple[Document, int]]]] = {
    ".jsonl": _json_lines,
    ".md": _markdown,
    ".markdown": _markdown,
    ".xml": _wikipedia,
}

assert WORDS * 20 <= MAX_TEXT
