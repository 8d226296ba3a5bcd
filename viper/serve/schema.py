"""The shapes of all answers, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from viper.schema import Failure, Task, ToolCall, Usage


class TrialRecord(BaseModel):
    """One program that was run."""

    program: str = Field(description="Empty where the strategy writes none.")
    correction: str = Field(description="Why this program was run: first, self_debug, …")
    ok: bool
    failure: Failure | None
    thresholds: dict[str, float]
    seconds: float
    seed: int | None
    temperature: float | None
    stdout: str
    writing: Usage = Field(description="What the requests for its program cost.")
    writing_seconds: float
    plan: str | None = Field(description="Numbered steps, where the strategy plans.")
    demonstrations: list[str] = Field(description="Ids of those that its prompts showed.")


class TrialEvent(TrialRecord):
    """A ``trial`` event: the program with its tool calls, as it ends."""

    index: int
    tool_calls: list[ToolCall]


class VoteRecord(BaseModel):
    """An answer that was voted for."""

    answer: str = Field(description="In a few words.")
    count: int


class RunRecord(BaseModel):
    """A finished run; what ``viper run --json`` prints, and the picture of an edit.

    Null where a field does not apply.
    """

    version: int = Field(alias="schema", description="Version of this record.")
    query: str
    task: Task
    task_reason: str
    answer: Any
    answer_kind: str | None
    choice_index: int | None
    box: list[float] | None = Field(
        description="x0, y0, x1, y1 in pixels from the top-left corner."
    )
    image_index: int | None
    info: Any
    images: list[str]
    picture: str | None = Field(
        default=None, description="Of an edit alone: the data: address of a PNG."
    )
    program: str | None
    plan: str | None
    turns: Any
    path: list[Any] | None
    strategy: str
    profile: str
    api: str
    api_left_out: list[str] = Field(description="Names that the prompt had no room for.")
    seed: int
    failure: Failure | None
    fallback: str | None = Field(description="What answered after every trial had failed.")
    trials: list[TrialRecord]
    chosen: int | None = Field(description="Which of the trials gave the answer, from 0.")
    votes: list[VoteRecord] = Field(description="Where several answers were voted on; best first.")
    tool_calls: list[ToolCall] = Field(description="Of that trial.")
    usage: Usage
    seconds: float


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
