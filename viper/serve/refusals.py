"""Errors that reject a request, and their replies to the caller."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException

from viper.errors import MediaError, UnknownNameError, UsageError, ViperError

_HIDDEN = "the server could not finish this request; its log knows it as {request_id}"

_ROUTE_CODES = {404: "not_found", 405: "method_not_allowed"}

# HTTP status by class. Subclasses do not count: here they are the server's own errors.
_CALLERS_FAULT: dict[type[BaseException], int] = {
    UsageError: 400,
    UnknownNameError: 400,
    MediaError: 422,
}


class Refusal(ViperError):
    """Request that the server rejects; ``message`` is meant for the caller.

    Attributes:
        status: status of the HTTP answer.
        headers: extra headers of the HTTP answer.
    """

    code = "refused"
    status = 400
    headers: dict[str, str] = {}


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

    def __init__(self) -> None:
        super().__init__("the server is shutting down; try again soon, or elsewhere")


class DeadlineError(Refusal):
    """The request took longer than it may."""

    code, status = "deadline", 504

    def __init__(self, deadline_s: float) -> None:
        super().__init__(f"no answer within {deadline_s:g} s; ask for fewer trials, or try later")


class ClientGoneError(Refusal):
    """The caller has disconnected; this answer is not read."""

    code, status = "client_gone", 499

    def __init__(self) -> None:
        super().__init__("the caller hung up")


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


def status_of(error: BaseException) -> int:
    """Return the HTTP status of an answer to this error."""
    return error.status if isinstance(error, Refusal) else _CALLERS_FAULT.get(type(error), 500)


def code_of(error: BaseException) -> str:
    """Return the stable code: a ViperError's own, else ``internal``."""
    return error.code if isinstance(error, ViperError) else "internal"


def error_body(error: BaseException, request_id: str) -> dict[str, Any]:
    """Return ``{"error": {"code", "message"}}`` with the message in one line."""
    message = _HIDDEN.format(request_id=request_id) if is_internal(error) else str(error)
    return {"error": {"code": code_of(error), "message": " ".join(message.split())}}
