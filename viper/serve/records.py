"""Runs as JSON that any parser takes."""

from __future__ import annotations

import base64
import io
import json
import math
from typing import Any

from viper.models.vision.roles import Pixels
from viper.reasoner import RunResult
from viper.record import result_record
from viper.schema import Trial, to_json


def result_json(result: RunResult) -> bytes:
    """The record of a run, with its ``picture`` where one was answered."""
    record = result_record(result.trace)
    if result.picture is not None:
        record["picture"] = _address(result.picture)
    return encoded(record)


def _address(picture: Pixels) -> str:
    """A picture as the ``data:`` address of a PNG file."""
    from PIL import Image

    written = io.BytesIO()
    Image.fromarray(picture).save(written, "PNG")
    return "data:image/png;base64," + base64.b64encode(written.getvalue()).decode("ascii")


def trial_json(trial: Trial) -> bytes:
    """A trial as JSON."""
    return encoded(to_json(trial))


def encoded(value: Any) -> bytes:
    """ASCII JSON in one line; numbers without end become null.

    Programs choose much of what is in a record. Escapes leave no line break that could
    end an event early, and no half of a character that UTF-8 could not hold.
    """
    return json.dumps(_finite(value), allow_nan=False, separators=(",", ":")).encode("ascii")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
