"""What a sample's task makes of a value from a predictions file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from viper.agreement import normalised
from viper.data.sample import Sample
from viper.evaluate.metrics.accuracy import truth_of
from viper.evaluate.predictions.read import Given
from viper.evaluate.row import Prediction
from viper.schema import PixelBox


def prediction_of(sample: Sample, given: Given) -> Prediction | None:
    """The prediction; None where the value is no valid one.

    A valid one is: ``ground`` four finite numbers; ``choice`` the index of one of the options, or
    in JSON lines an option's text; ``statement`` a truth value or true or false in any case;
    ``question`` a text that is not blank, a truth value or a finite number; ``tag`` a list of
    ``{"label", "box"}``; ``edit`` anything but null and false.

    Raises:
        DataError: the line lacks the field that the task needs.
    """
    value = value_of(sample, given)
    if "word" in given.fields:
        return _statement(sample, value)
    if "index" in given.fields:
        return _index(sample, value)
    return _READERS.get(sample.task, _edit)(sample, value)


def value_of(sample: Sample, given: Given) -> Any:
    """The value that stands for the sample's prediction, whatever it is.

    Raises:
        DataError: the line lacks the field that the task needs.
    """
    fields = given.fields
    for name in ("word", "index", "box" if sample.task == "ground" else "answer"):
        if name in fields:
            return fields[name]
    expected = f"{name!r}, since the task of {sample.sample_id} is {sample.task!r}"
    raise given.source.wrong(given.at, f"has no {name!r}", expected)


def pixel_box(value: Any) -> PixelBox | None:
    """Four finite numbers as a box; None for anything else."""
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
    """The option that equals the number: ``2.0`` and, as in the official script, truth values."""
    for index, option in enumerate(sample.options):
        if isinstance(value, int | float) and value == index:
            return Prediction(option, choice_index=index)
    return None


def _choice(sample: Sample, value: Any) -> Prediction | None:
    if not isinstance(value, str):
        return None if isinstance(value, bool) else _index(sample, value)
    for index, option in enumerate(sample.options):
        if normalised(value) == normalised(option):
            return Prediction(option, choice_index=index)
    return None


def _statement(sample: Sample, value: Any) -> Prediction | None:
    said = truth_of(value)
    return None if said is None else Prediction(said)


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
