"""Replies of the service: runs as strict JSON, and their schema."""

from __future__ import annotations

import base64
import io
import json
import math
from typing import Any, Literal

from pydantic import BaseModel, Field

from viper.models.vision.roles import Pixels
from viper.record import result_record
from viper.run_result import RunResult
from viper.schema import Trial, to_json


def result_json(result: RunResult) -> bytes:
    """Return the record of a run, with ``picture`` if the answer has one."""
    record = result_record(result.trace)
    if result.picture is not None:
        record["picture"] = _address(result.picture)
    return encoded(record)


def _address(picture: Pixels) -> str:
    """Return a picture as the ``data:`` URL of a PNG file."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def trial_json(trial: Trial) -> bytes:
    """Return a trial as JSON."""
    return encoded(to_json(trial))


def encoded(value: Any) -> bytes:
    """Return ASCII JSON in one line. Infinite numbers become null.

    Programs control much of a record's content. Escaping removes line breaks, which could end an
    event early, and lone surrogates, which UTF-8 cannot encode.
    """
    return json.dumps(_finite(value), allow_nan=False, separators=(",", ":")).encode("ascii")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class ErrorDetail(BaseModel):
    """What went wrong."""

    code: str = Field(description="Stable; programs decide by it.")
    message: str = Field(description="One line for a person.")


class ErrorBody(BaseModel):
    """The answer to every request that fails."""

    error: ErrorDetail


class Health(BaseModel):
    """The process is up."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """Whether requests are answered now."""

    status: Literal["ready", "loading", "failed", "shutting_down"]


_ERRORS = {
    400: "A field is missing, unknown or out of range.",
    401: "No token, or a wrong one.",
    403: "Sent by a page of another origin, or to another host name.",
    404: "There is nothing at this path.",
    405: "This path takes another method.",
    413: "The request is too large.",
    415: "The body is neither a multipart form in UTF-8 nor JSON.",
    422: "A picture or video cannot be read, or is not base64 in JSON.",
    429: "All places are taken; see Retry-After.",
    500: "The server failed; its log has the details.",
    503: "The server is shutting down.",
    504: "No answer in time.",
}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI responses for these statuses."""
    return {status: {"model": ErrorBody, "description": _ERRORS[status]} for status in statuses}
