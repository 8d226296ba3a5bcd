"""The shapes of the answers but a run's, for the OpenAPI document; see viper.record for that."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field


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
    415: "The body is no multipart form in UTF-8.",
    422: "A picture or video cannot be read.",
    429: "All places are taken; see Retry-After.",
    500: "The server failed; its log has the details.",
    503: "The server is shutting down.",
    504: "No answer in time.",
}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """OpenAPI responses for these statuses."""
    return {status: {"model": ErrorBody, "description": _ERRORS[status]} for status in statuses}
