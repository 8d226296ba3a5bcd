"""Replies of the service: runs and refusals as strict JSON, and their schema.

An error of a request is a :class:`Refusal` or one of the callers' faults, and its text reaches the
caller; any other is the server's own, and only its log has the text.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, Field

from viper.errors import MediaError, UnknownNameError, UsageError, ViperError
from viper.models.llm.messages import Picture
from viper.record import result_record
from viper.run_result import RunResult

if TYPE_CHECKING:
    from starlette.exceptions import HTTPException
    from starlette.responses import Response

_HIDDEN = "the server could not finish this request; its log knows it as {request_id}"

_ROUTE_CODES = {404: "not_found", 405: "method_not_allowed"}

# HTTP status by class. Subclasses do not count: here they are the server's own errors.
_CALLERS_FAULT: dict[type, int] = {UsageError: 400, UnknownNameError: 400, MediaError: 422}


class Refusal(ViperError):
    """Request that the server rejects; ``message`` is meant for the caller.

    Attributes:
        status: status of the HTTP answer.
        headers: extra headers of the HTTP answer.
        usual: the message if none is given.
    """

    code = "refused"
    status = 400
    headers: dict[str, str] = {}
    usual = ""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.usual)


class NotMultipartError(Refusal):
    """The body is neither a multipart form in UTF-8 nor JSON."""

    code, status = "not_multipart", 415


class TooLargeError(Refusal):
    """The body is above the limit."""

    code, status = "too_large", 413


class UnauthorizedError(Refusal):
    """The token is missing or wrong."""

    code, status = "unauthorized", 401
    headers = {"WWW-Authenticate": "Bearer"}


class ForbiddenError(Refusal):
    """A foreign web page may have sent the request."""

    code, status = "forbidden", 403


class HiddenError(Refusal):
    """The caller may not know that there is a server, or there is nothing at the path."""

    code, status, usual = "not_found", 404, "not found"


class QueueFullError(Refusal):
    """Every slot is in use."""

    code, status = "queue_full", 429

    def __init__(self, places: int, retry_after_s: int) -> None:
        self.headers = {"Retry-After": str(retry_after_s)}
        super().__init__(f"all {places} places are taken; try again in {retry_after_s} s")


class ShuttingDownError(Refusal):
    """The server is shutting down."""

    code, status = "shutting_down", 503
    headers = {"Retry-After": "10"}
    usual = "the server is shutting down; try again soon, or elsewhere"


class DeadlineError(Refusal):
    """The request took longer than it may."""

    code, status = "deadline", 504

    def __init__(self, deadline_s: float) -> None:
        super().__init__(f"no answer within {deadline_s:g} s; ask for fewer trials, or try later")


class ClientGoneError(Refusal):
    """The caller has disconnected; this answer is not read."""

    code, status, usual = "client_gone", 499, "the caller hung up"


class RouteError(Refusal):
    """The path does not exist, or does not take this method."""

    def __init__(self, error: HTTPException) -> None:
        self.status = error.status_code
        self.code = _ROUTE_CODES.get(error.status_code, "bad_request")
        self.headers = dict(error.headers or {})
        super().__init__(str(error.detail))


def is_internal(error: BaseException) -> bool:
    """Return whether the text of this error is hidden from callers."""
    return not isinstance(error, Refusal) and type(error) not in _CALLERS_FAULT


def code_of(error: BaseException) -> str:
    """Return the stable code: a ViperError's own, else ``internal``."""
    return error.code if isinstance(error, ViperError) else "internal"


def error_body(error: BaseException, request_id: str) -> dict[str, Any]:
    """Return ``{"error": {"code", "message"}}`` with the message in one line."""
    message = _HIDDEN.format(request_id=request_id) if is_internal(error) else str(error)
    return {"error": {"code": code_of(error), "message": " ".join(message.split())}}


def error_response(error: BaseException, request_id: str) -> Response:
    """Build the JSON answer to an error."""
    # Here, since commands know the refusals before they serve anything, and their help is fast.
    from starlette.responses import Response

    status, headers = _CALLERS_FAULT.get(type(error), 500), None
    if isinstance(error, Refusal):
        status, headers = error.status, error.headers
    body = encoded(error_body(error, request_id))
    return Response(body, status, headers, "application/json")


def result_json(result: RunResult) -> bytes:
    """Return the record of a run, with ``picture`` if the answer has one.

    Its fields are those of :class:`~viper.schema.Trace` and the computed ones of
    :mod:`viper.record`; a further field belongs there.
    """
    record = result_record(result.trace)
    if result.picture is not None:
        record["picture"] = Picture(result.picture).data_uri()
    return encoded(record)


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
