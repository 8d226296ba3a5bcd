"""Scores of predictions made elsewhere: reads their files and joins them with a data set.

`score_predictions` reads the file in the format of the set's official script, or JSON lines
(`read_predictions`), turns each record into a prediction for its sample's task (`prediction_of`),
and scores it. `summary`, `figure_rows` and `rows_csv` show the result. `predictions_text` writes
the answers of a run in the official format.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from viper.agreement import normalise_answer
from viper.data.sample import Sample
from viper.data.source import SourceFile, brief
from viper.errors import DataError, UsageError
from viper.escape import csv_text, for_csv, for_terminal
from viper.evaluate.intervals import Estimate
from viper.evaluate.metrics import Figures, metric
from viper.evaluate.metrics.accuracy import truth_of
from viper.evaluate.sample_result import Prediction, SampleResult
from viper.schema import PixelBox, to_json

# A million predictions of 100 characters take 100 MB; a larger file is another one, and all of it
# is in memory.
MAX_BYTES = 2**30

# Official files with an answer in words: by metric the names of id and answer in an entry. Source:
# eval.py of GQA, the results format of the VQA challenge, infoseek_eval.py.
OFFICIAL = {
    "gqa": ("questionId", "prediction"),
    "okvqa": ("question_id", "answer"),
    "infoseek": ("data_id", "prediction"),
}


@dataclass(frozen=True)
class PredictionRecord:
    """One prediction as it stands in the file.

    Attributes:
        name: id of the sample as in the file.
        source: the file.
        at: place in the file, as ``:3``.
        fields: ``word`` (a truth value as the official CSV has it), ``index`` (NExT-QA), or
            ``box`` and ``answer`` (JSON lines).
    """

    name: str
    source: SourceFile
    at: str
    fields: Mapping[str, Any]


def read_predictions(path: Path, metric: str) -> list[PredictionRecord]:
    """Read the file in the format that belongs to a metric.

    ``nlvr`` and ``nlvr2``: lines ``NAME,true|false``; ``nextqa``: one JSON object
    ``{VIDEO_QID: {"prediction": index}}``; all others: JSON lines ``{"id", "box"}`` or
    ``{"id", "answer"}``; those of :data:`OFFICIAL` also their own entries, as lines or as a list.

    Raises:
        DataError: no such file, or something in it that does not parse; names the line.
    """
    source = SourceFile(path.parent, path.name)
    entries = partial(_entries, official=OFFICIAL.get(metric))
    return list({"nlvr": _words, "nlvr2": _words, "nextqa": _indices}.get(metric, entries)(source))


def predictions_text(metric: str, rows: Iterable[SampleResult]) -> str:
    """Return the answers of one seed as the text of an official predictions file.

    A sample without an answer gets a blank one, since the official scripts stop without it.

    Raises:
        UsageError: the set has no official file with answers in words.
    """
    if metric not in OFFICIAL:
        known = ", ".join(OFFICIAL)
        raise UsageError(f"{metric} has no official file of answers in words; known: {known}")
    id_key, key = OFFICIAL[metric]
    entries: list[dict[str, Any]] = []
    for row in rows:
        # the VQA challenge's ids are numbers
        is_number = metric == "okvqa" and row.sample_id.isdecimal()
        answer = "" if row.prediction is None else str(row.prediction.value)
        entries.append({id_key: int(row.sample_id) if is_number else row.sample_id, key: answer})
    if metric == "infoseek":
        return "".join(f"{json.dumps(entry)}\n" for entry in entries)
    return json.dumps(entries) + "\n"


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


def _words(source: SourceFile) -> Iterator[PredictionRecord]:
    for at, line in source.lines():
        name, comma, rest = line.partition(",")
        if not comma:
            raise source.wrong(at, brief(line), "a name, a comma, and true or false")
        yield PredictionRecord(name, source, at, {"word": rest.split(",")[0]})


def _indices(source: SourceFile) -> Iterator[PredictionRecord]:
    class Pairs(list[tuple[str, Any]]):
        """JSON object, distinguished from a list. A dict would lose duplicates."""

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
    for name, entry in pairs:
        at = f": {brief(name)}"
        if not isinstance(entry, list):
            raise source.wrong(at, f"is {brief(entry)}", '{"prediction": INDEX}')
        fields = dict(entry)
        if "prediction" in fields:
            yield PredictionRecord(name, source, at, {"index": fields["prediction"]})


def _entries(source: SourceFile, official: tuple[str, str] | None) -> Iterator[PredictionRecord]:
    values: Iterable[tuple[str, Any]] = source.json_lines()
    with source.opened() as file:
        is_list = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
    if is_list and official:
        values = ((f"[{place}]", value) for place, value in enumerate(source.read_json()))
    for at, record in values:
        if not isinstance(record, dict):
            raise source.wrong(at, brief(record), '{"id": …, "box": …} or {"id": …, "answer": …}')
        id_key, key = official if official and official[0] in record else ("id", "answer")
        name = record.get(id_key)
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise source.wrong(at, f"{id_key!r} is {brief(name)}", "the id of a sample")
        if not {"box", key} & record.keys():
            raise source.wrong(at, f"neither 'box' nor {key!r}", "one of them")
        answer = {"answer": record[key]} if key in record else {}
        yield PredictionRecord(str(name), source, at, record | answer)


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
    is_official = "index" in record.fields
    task = "statement" if "word" in record.fields else "choice" if is_official else sample.task
    if task == "statement":
        truth = truth_of(value)
        return None if truth is None else Prediction(truth)
    if task == "choice":
        if isinstance(value, str) and not is_official:
            words = normalise_answer(value)
            matches = [normalise_answer(option) == words for option in sample.options]
        else:
            # ``2.0`` counts, and a truth value does in the official format
            is_index = is_official or not isinstance(value, bool)
            number = value if is_index and isinstance(value, int | float) else None
            matches = [index == number for index in range(len(sample.options))]
        if True not in matches:
            return None
        chosen = matches.index(True)
        return Prediction(sample.options[chosen], choice_index=chosen)
    if task == "ground":
        box = pixel_box(value)
        return None if box is None else Prediction(list(box), box)
    if task == "question":
        is_text = isinstance(value, str) and value.strip()
        is_answer = is_text or isinstance(value, bool) or _is_finite(value)
        return Prediction(value) if is_answer else None
    if task == "tag":
        if not isinstance(value, list):
            return None
        tags = []
        for item in value:
            is_tag = isinstance(item, Mapping) and isinstance(item.get("label"), str)
            box = pixel_box(item.get("box")) if is_tag else None
            if box is None:
                return None
            tags.append({"label": item["label"], "box": list(box)})
        return Prediction(tags)
    return None if value is None or value is False else Prediction(value)


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
    if not isinstance(value, list | tuple) or len(value) != 4 or not all(map(_is_finite, value)):
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


# Kinds of failure of results without a prediction, or with an invalid one.
MISSING, INVALID = "missing", "invalid"

HEADER = ("figure", "%", "95% interval", "n")


@dataclass(frozen=True)
class ScoredPredictions:
    """Scores of a predictions file.

    Attributes:
        rows: one result per sample, in the set's order.
        figures: figures of the metric.
        duplicates: number of predictions that a later one replaced.
        unknown: ids of the file that the data set does not have.
    """

    rows: tuple[SampleResult, ...]
    figures: Figures
    duplicates: int
    unknown: tuple[str, ...]

    def failed(self, kind: str) -> int:
        """Return the number of results with this failure."""
        return sum(result.failure == kind for result in self.rows)


def score_predictions(
    samples: Sequence[Sample],
    metric_name: str,
    path: Path,
    missing: Literal["error", "wrong"] = "error",
) -> ScoredPredictions:
    """Score every sample of the data set. No picture is loaded.

    Args:
        samples: all samples that should have a prediction.
        metric_name: the set's metric, which also tells the file's format.
        path: the predictions file, see :func:`viper.evaluate.predictions.read_predictions`.
        missing: whether a sample without a prediction is an error, as in NLVR's script, or
            counts as wrong.

    Raises:
        DataError: the set is empty, the file does not parse, or predictions are missing.
        UnknownNameError: no such metric.
    """
    if not samples:
        raise DataError("the set has no samples; choose another --split")
    judge, key = metric(metric_name), key_of(metric_name)
    records = read_predictions(path, metric_name)
    # the last prediction of each key counts
    by_key = {key(record.name): record for record in records}
    keys = [key(sample.sample_id) for sample in samples]
    pairs = list(zip(samples, map(by_key.get, keys), strict=True))
    absent = [sample.sample_id for sample, record in pairs if record is None]
    known_keys = set(keys)
    unknown = tuple(record.name for key, record in by_key.items() if key not in known_keys)
    if absent and missing == "error":
        of = f"{len(unknown)} are for ids not in the set: {first_few(unknown)}"
        raise DataError(
            f"{path}: {len(absent)} of {len(samples)} predictions are missing: "
            f"{first_few(absent)}{f' ({of})' if unknown else ''}; "
            "add them, or count them as wrong with --missing wrong"
        )
    rows = []
    for sample, record in pairs:
        prediction = None if record is None else prediction_of(sample, record)
        judged: dict[str, Any] = {"prediction": prediction}
        if record is None:
            judged |= {"failure": MISSING, "message": "no prediction"}
        elif prediction is None:
            value = brief(value_of(sample, record))
            problem = f"{value} is no prediction for the task {sample.task!r}"
            judged |= {"failure": INVALID, "message": problem}
        score = judge.score(sample, prediction)
        rows.append(SampleResult.of(sample, 0, score.value, details=score.details, **judged))
    duplicates = len(records) - len(by_key)
    return ScoredPredictions(tuple(rows), judge.figures(rows), duplicates, unknown)


def first_few(names: Sequence[str]) -> str:
    """Return the first three names, with "…" if there are more."""
    listed = ", ".join(brief(name) for name in names[:3])
    # three show the pattern of wrong ids, on one line
    return f"{listed}, …" if len(names) > 3 else listed


def summary(scored: ScoredPredictions) -> dict[str, Any]:
    """Return figures, groups, failures and oddities as JSON values, in full precision."""
    figures = scored.figures
    return {
        "n": figures.n,
        "headline": figures.headline,
        "figures": to_json(figures.overall),
        "groups": to_json(figures.groups),
        "failures": to_json(figures.failures),
        "predictions": {
            "duplicates": scored.duplicates,
            "unknown": len(scored.unknown),
            "missing": scored.failed(MISSING),
            "invalid": scored.failed(INVALID),
        },
    }


def figure_rows(figures: Figures, by_group: bool) -> Iterator[tuple[str, str, str, str]]:
    """Yield the lines of a table under :data:`HEADER`: figures, groups on request, failures."""
    lines = [*figures.overall.items()]
    if by_group:
        for name, values in figures.groups.items():
            lines += [(f"{name} {value}", estimate) for value, estimate in values.items()]
    lines += [(f"failed: {kind}", estimate) for kind, estimate in figures.failures.items()]
    for name, figure in lines:
        interval = f"[{100 * figure.low:.2f}, {100 * figure.high:.2f}]"
        yield for_terminal(name), percent(figure), interval if figure.n else "-", f"{figure.n}"


def percent(estimate: Estimate) -> str:
    """Return the value in percent with two decimals, rounded as the official scripts do.

    They divide 100 times the count by n; the share times 100 can fall on the other side of a tie.
    """
    hits = estimate.value * estimate.n
    # a sum of whole scores, but for rounding; graded ones are further from whole numbers
    if estimate.n and abs(hits - round(hits)) < 1e-6:
        return f"{round(hits) * 100.0 / estimate.n:.2f}"
    return f"{100 * estimate.value:.2f}"


def rows_csv(rows: Sequence[SampleResult]) -> str:
    """Return one CSV line per sample, with scores, details, prediction, target and groups."""
    details = sorted({name for row in rows for name in row.details})
    groups = sorted({name for row in rows for name in row.groups})
    header = ["id", "task", "score", *details, "failure", "prediction", "target", "cluster", "text"]
    lines = [[for_csv(name) for name in (*header, *(f"group:{name}" for name in groups))]]
    for row in rows:
        numbers = [repr(row.details[name]) if name in row.details else "" for name in details]
        given = row.prediction or Prediction("")
        answer = given.value if given.choice_index is None else given.choice_index
        texts = [row.failure or "", _plain(answer), _plain(row.target), row.cluster, row.text]
        texts += [row.groups.get(name, "") for name in groups]
        start = [for_csv(row.sample_id), row.task, repr(row.score)]
        lines.append([*start, *numbers, *map(for_csv, texts)])
    return csv_text(lines)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(to_json(value), ensure_ascii=False)
