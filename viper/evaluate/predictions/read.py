"""Predictions files in the formats of the official scripts and JSON lines, read for each task."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viper.agreement import normalise_answer
from viper.data.sample import Sample
from viper.data.source import SourceFile, brief
from viper.errors import DataError
from viper.evaluate.metrics.accuracy import truth_of
from viper.evaluate.sample_result import Prediction
from viper.schema import PixelBox

# A million predictions of 100 characters take 100 MB; a larger file is another one, and all of it
# is in memory.
MAX_BYTES = 2**30


@dataclass(frozen=True)
class PredictionRecord:
    """One prediction as it stands in the file.

    Attributes:
        source: the file.
        at: place in the file, as ``:3``.
        fields: ``word`` (a truth value as the official CSV has it), ``index`` (NExT-QA), or
            ``box`` and ``answer`` (JSON lines).
    """

    source: SourceFile
    at: str
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class PredictionsFile:
    """Contents of a predictions file.

    Attributes:
        records: the last prediction of each key, see :func:`key_of`.
        names: ids as in the file, by key.
        duplicates: number of predictions that a later one with the same key replaced.
    """

    records: Mapping[str, PredictionRecord]
    names: Mapping[str, str]
    duplicates: int


def read_predictions(path: Path, metric: str) -> PredictionsFile:
    """Read the file in the format that belongs to a metric.

    ``nlvr`` and ``nlvr2``: lines ``NAME,true|false``; ``nextqa``: one JSON object
    ``{VIDEO_QID: {"prediction": index}}``; all others: JSON lines ``{"id", "box"}`` or
    ``{"id", "answer"}``.

    Raises:
        DataError: no such file, or something in it that does not parse; names the line.
    """
    source = SourceFile(path.parent, path.name)
    reader = {"nlvr": _words, "nlvr2": _words, "nextqa": _indices}.get(metric, _records)
    return _by_key(reader(source), key_of(metric))


def key_of(metric: str) -> Callable[[str], str]:
    """Return the function from an id to the key by which samples and predictions match."""
    return _png_identifier if metric == "nlvr" else str


def _png_identifier(name: str) -> str:
    """Return ``1234-0-1`` for ``dev-1234-0-1.png``; suffix and split may be missing.

    Source: NLVR's ``metrics_images.py`` cuts at the first point and drops the first part.
    """
    parts = name.split(".")[0].split("-")
    whole = len(parts) == 3 and all(part.isdecimal() for part in parts)
    return "-".join(parts if whole else parts[1:])


def _by_key(
    records: Iterable[tuple[str, PredictionRecord]], key: Callable[[str], str]
) -> PredictionsFile:
    by_key: dict[str, PredictionRecord] = {}
    names: dict[str, str] = {}
    total = 0
    for name, prediction in records:
        by_key[key(name)], names[key(name)] = prediction, name
        total += 1
    return PredictionsFile(by_key, names, total - len(by_key))


def _words(source: SourceFile) -> Iterator[tuple[str, PredictionRecord]]:
    for at, line in source.lines():
        name, comma, rest = line.partition(",")
        if not comma:
            raise source.wrong(at, brief(line), "a name, a comma, and true or false")
        yield name, PredictionRecord(source, at, {"word": rest.split(",")[0]})


def _indices(source: SourceFile) -> Iterator[tuple[str, PredictionRecord]]:
    for name, entry in _pairs(source):
        at = f": {brief(name)}"
        if not isinstance(entry, list):
            raise source.wrong(at, f"is {brief(entry)}", '{"prediction": INDEX}')
        fields = dict(entry)
        if "prediction" in fields:
            yield name, PredictionRecord(source, at, {"index": fields["prediction"]})


def _pairs(source: SourceFile) -> list[tuple[str, Any]]:
    """Return keys and values of the file's object with duplicates, which a dict would lose."""

    class Pairs(list[tuple[str, Any]]):
        """JSON object, distinguished from a list."""

    try:
        pairs = json.loads(source.read_bytes(MAX_BYTES), object_pairs_hook=Pairs)
    except json.JSONDecodeError as error:
        raise DataError(f"{source.path}:{error.lineno}: is no JSON ({error.msg})") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{source.path}: byte {error.start} is not UTF-8") from None
    except (ValueError, RecursionError):
        raise DataError(
            f"{source.path}: is nested too deeply or holds a number of thousands of digits"
        ) from None
    if not isinstance(pairs, Pairs):
        raise source.wrong("", f"is {brief(pairs)}", '{"VIDEO_QID": {"prediction": INDEX}, …}')
    return pairs


def _records(source: SourceFile) -> Iterator[tuple[str, PredictionRecord]]:
    for at, record in source.json_lines():
        if not isinstance(record, dict):
            raise source.wrong(at, brief(record), '{"id": …, "box": …} or {"id": …, "answer": …}')
        name = record.get("id")
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise source.wrong(at, f"'id' is {brief(name)}", "the id of a sample")
        if not {"box", "answer"} & record.keys():
            raise source.wrong(at, "neither 'box' nor 'answer'", "one of them")
        yield str(name), PredictionRecord(source, at, record)


def prediction_of(sample: Sample, record: PredictionRecord) -> Prediction | None:
    """Return the prediction, or None if the value is not valid.

    A valid one is: ``ground`` four finite numbers; ``choice`` the index of one of the options, or
    in JSON lines an option's text; ``statement`` a truth value or true or false in any case;
    ``question`` a text that is not blank, a truth value or a finite number; ``tag`` a list of
    ``{"label", "box"}``; ``edit`` anything but null and false.

    Raises:
        DataError: the line lacks the field that the task needs.
    """
    value = value_of(sample, record)
    if "word" in record.fields:
        return _statement(sample, value)
    if "index" in record.fields:
        return _index(sample, value)
    return _READERS.get(sample.task, _edit)(sample, value)


def value_of(sample: Sample, record: PredictionRecord) -> Any:
    """Return the value of the sample's prediction, valid or not.

    Raises:
        DataError: the line lacks the field that the task needs.
    """
    fields = record.fields
    for name in ("word", "index", "box" if sample.task == "ground" else "answer"):
        if name in fields:
            return fields[name]
    expected = f"{name!r}, since the task of {sample.sample_id} is {sample.task!r}"
    raise record.source.wrong(record.at, f"has no {name!r}", expected)


def pixel_box(value: Any) -> PixelBox | None:
    """Return four finite numbers as a box; None for anything else."""
    if not isinstance(value, list | tuple) or len(value) != 4:
        return None
    if not all(_is_finite(number) for number in value):
        return None
    x0, y0, x1, y1 = (float(number) for number in value)
    return (x0, y0, x1, y1)


def _is_finite(value: Any) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def _ground(sample: Sample, value: Any) -> Prediction | None:
    box = pixel_box(value)
    return None if box is None else Prediction(value=list(box), box=box)


def _index(sample: Sample, value: Any) -> Prediction | None:
    """Return the option that equals the number: ``2.0`` counts, and truth values as officially."""
    for index, option in enumerate(sample.options):
        if isinstance(value, int | float) and value == index:
            return Prediction(option, choice_index=index)
    return None


def _choice(sample: Sample, value: Any) -> Prediction | None:
    if not isinstance(value, str):
        return None if isinstance(value, bool) else _index(sample, value)
    for index, option in enumerate(sample.options):
        if normalise_answer(value) == normalise_answer(option):
            return Prediction(option, choice_index=index)
    return None


def _statement(sample: Sample, value: Any) -> Prediction | None:
    truth = truth_of(value)
    return None if truth is None else Prediction(truth)


def _question(sample: Sample, value: Any) -> Prediction | None:
    if isinstance(value, str):
        return Prediction(value) if value.strip() else None
    return Prediction(value) if isinstance(value, bool) or _is_finite(value) else None


def _tag(sample: Sample, value: Any) -> Prediction | None:
    if not isinstance(value, list):
        return None
    tags = []
    for item in value:
        if not isinstance(item, Mapping) or not isinstance(item.get("label"), str):
            return None
        box = pixel_box(item.get("box"))
        if box is None:
            return None
        tags.append({"label": item["label"], "box": list(box)})
    return Prediction(tags)


def _edit(sample: Sample, value: Any) -> Prediction | None:
    return None if value is None or value is False else Prediction(value)


_READERS: Mapping[str, Callable[[Sample, Any], Prediction | None]] = {
    "ground": _ground,
    "question": _question,
    "choice": _choice,
    "statement": _statement,
    "tag": _tag,
}
