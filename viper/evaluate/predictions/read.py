"""Predictions files in the formats of the official scripts, and JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viper.data.source import Source, shown
from viper.errors import DataError

MAX_BYTES = 2**30


@dataclass(frozen=True)
class Given:
    """One prediction as the file has it.

    Attributes:
        source: the file.
        at: where in the file, as ``:3``.
        fields: ``word`` (a truth value as the official CSV has it), ``index`` (NExT-QA), or
            ``box`` and ``answer`` (JSON lines).
    """

    source: Source
    at: str
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class PredictionsFile:
    """What a file holds.

    Attributes:
        given: the last prediction of each key, see :func:`key_of`.
        names: key to the id as the file has it.
        duplicates: predictions that a later one of the same key replaced.
    """

    given: Mapping[str, Given]
    names: Mapping[str, str]
    duplicates: int


def read_predictions(path: Path, metric: str) -> PredictionsFile:
    """Reads the file in the format that goes with a metric.

    ``nlvr`` and ``nlvr2``: lines ``NAME,true|false``; ``nextqa``: one JSON object
    ``{VIDEO_QID: {"prediction": index}}``; all others: JSON lines ``{"id", "box"}`` or
    ``{"id", "answer"}``.

    Raises:
        DataError: no such file, or something in it that does not parse; names the line.
    """
    source = Source(path.parent, path.name)
    reader = {"nlvr": _words, "nlvr2": _words, "nextqa": _indices}.get(metric, _records)
    return _kept(reader(source), key_of(metric))


def key_of(metric: str) -> Callable[[str], str]:
    """By what samples and predictions are matched, for sets of that metric: mostly the id."""
    return _png_identifier if metric == "nlvr" else str


def _png_identifier(name: str) -> str:
    """``1234-0-1`` of ``dev-1234-0-1.png``; the suffix and the split may be missing.

    Source: NLVR's ``metrics_images.py`` cuts at the first point and drops the first part.
    """
    parts = name.split(".")[0].split("-")
    whole = len(parts) == 3 and all(part.isdecimal() for part in parts)
    return "-".join(parts if whole else parts[1:])


def _kept(found: Iterable[tuple[str, Given]], key: Callable[[str], str]) -> PredictionsFile:
    given: dict[str, Given] = {}
    names: dict[str, str] = {}
    total = 0
    for name, prediction in found:
        given[key(name)], names[key(name)] = prediction, name
        total += 1
    return PredictionsFile(given, names, total - len(given))


def _words(source: Source) -> Iterator[tuple[str, Given]]:
    for at, line in source.lines():
        name, comma, rest = line.partition(",")
        if not comma:
            raise source.wrong(at, shown(line), "a name, a comma, and true or false")
        yield name, Given(source, at, {"word": rest.split(",")[0]})


def _indices(source: Source) -> Iterator[tuple[str, Given]]:
    for name, entry in _pairs(source):
        at = f": {shown(name)}"
        if not isinstance(entry, list):
            raise source.wrong(at, f"is {shown(entry)}", '{"prediction": INDEX}')
        fields = dict(entry)
        if "prediction" in fields:
            yield name, Given(source, at, {"index": fields["prediction"]})


def _pairs(source: Source) -> list[tuple[str, Any]]:
    """Keys and values of the file's object with duplicates, which a dict would lose."""

    class Pairs(list[tuple[str, Any]]):
        """An object, told from a list."""

    try:
        found = json.loads(source.read_bytes(MAX_BYTES), object_pairs_hook=Pairs)
    except json.JSONDecodeError as error:
        raise DataError(f"{source.path}:{error.lineno}: is no JSON ({error.msg})") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{source.path}: byte {error.start} is not UTF-8") from None
    except (ValueError, RecursionError):
        raise DataError(
            f"{source.path}: is nested too deeply or holds a number of thousands of digits"
        ) from None
    if not isinstance(found, Pairs):
        raise source.wrong("", f"is {shown(found)}", '{"VIDEO_QID": {"prediction": INDEX}, …}')
    return found


def _records(source: Source) -> Iterator[tuple[str, Given]]:
    for at, record in source.json_lines():
        if not isinstance(record, dict):
            raise source.wrong(at, shown(record), '{"id": …, "box": …} or {"id": …, "answer": …}')
        name = record.get("id")
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise source.wrong(at, f"'id' is {shown(name)}", "the id of a sample")
        if not {"box", "answer"} & record.keys():
            raise source.wrong(at, "neither 'box' nor 'answer'", "one of them")
        yield str(name), Given(source, at, record)
