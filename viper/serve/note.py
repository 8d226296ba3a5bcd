"""Record of one request, for its log line and for the metrics."""

from __future__ import annotations

import json
import re
import secrets
import time
import traceback
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Scope

from viper.serve.refusals import code_of, is_internal

_KEY = "viper.note"
_KNOWN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


def note_of(scope: Scope) -> RequestNote:
    """Return the log record of the request with this ASGI scope."""
    return scope[_KEY]


def keep_note(scope: Scope, note: RequestNote) -> None:
    """Attach a log record to a request."""
    scope[_KEY] = note


def request_id_from(header: str | None) -> str:
    """Return the caller's own id if it is short and plain, else a new one."""
    return header if header is not None and _KNOWN_ID.fullmatch(header) else secrets.token_hex(8)


@dataclass
class RequestNote:
    """Log record of one request.

    Attributes:
        status: HTTP status of the answer; None before the answer.
        outcome: ``answered``, ``no_answer``, ``ok``, or an error's code.
        error: the error that ended it early.
        facts: further fields of the log line.
        query: the caller's words; logged only if the settings say so.
    """

    request_id: str
    method: str
    path: str
    client: str | None = None
    status: int | None = None
    outcome: str | None = None
    error: BaseException | None = None
    query: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def fail(self, error: BaseException) -> None:
        """Record the error that ended the request."""
        self.error, self.outcome = error, code_of(error)

    def line(self, *, with_words: bool) -> str:
        """Return one line of JSON.

        Args:
            with_words: include the query, and error messages, which may quote it.
        """
        record: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "request_id": self.request_id,
            "client": self.client,
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "outcome": self.outcome,
            "seconds": round(self.seconds, 4),
            **self.facts,
        }
        if with_words and self.query is not None:
            record["query"] = self.query
        if self.error is not None and is_internal(self.error):
            record["error"] = type(self.error).__name__
            record["where"] = [
                f"{frame.filename}:{frame.lineno} {frame.name}"
                for frame in traceback.extract_tb(self.error.__traceback__)
            ]
        if with_words and self.error is not None:
            record["message"] = str(self.error)
        return json.dumps(record)
