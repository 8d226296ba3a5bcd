"""What the server records of each request: a line of its log, and the counters of its metrics.

A :class:`RequestNote` collects the facts while a request is answered; at its end, its line goes to
the log and :class:`Metrics` counts it.
"""

from __future__ import annotations

import json
import re
import secrets
import time
import traceback
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest
from starlette.datastructures import Headers
from starlette.types import Scope

from viper.run_result import RunResult
from viper.schema import Trial
from viper.serve.jobs import Admission, Event
from viper.serve.replies import code_of, is_internal

# From a cached answer (milliseconds) to beyond the usual deadline of 120 s.
_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300)

_KEY = "viper.note"
_KNOWN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


def note_of(scope: Scope) -> RequestNote:
    """Return the log record of the request with this ASGI scope."""
    return scope[_KEY]


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

    @classmethod
    def begun(cls, scope: Scope) -> RequestNote:
        """Begin the record of a request, and attach it to its scope."""
        client, known = scope.get("client"), Headers(scope=scope).get("x-request-id", "")
        # The caller's own id if it is short and plain: it stands in the log and in a header.
        request_id = known if _KNOWN_ID.fullmatch(known) else secrets.token_hex(8)
        note = cls(request_id, scope["method"], scope["path"], client[0] if client else None)
        scope[_KEY] = note
        return note

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


class Metrics:
    """The server's counters.

    Args:
        admission: the gauges show its slots.
        endpoints: paths that may be labels. Any other path counts as ``other``, so that callers
            cannot create labels without limit.
    """

    def __init__(self, admission: Admission, endpoints: frozenset[str]) -> None:
        self.registry = CollectorRegistry()
        self._endpoints = endpoints
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        self._requests = counter("viper_requests", "Requests by outcome.", ["endpoint", "outcome"])
        self._seconds = Histogram(
            "viper_request_seconds",
            "Seconds from a request's start to the end of its answer.",
            ["endpoint"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._trials = counter("viper_trials", "Programs run.", ["correction"])
        self._failures = counter("viper_failures", "Trials that failed.", ["kind"])
        self._llm_calls = counter("viper_llm_calls", "Programs asked of the LLM.")
        self._llm_tokens = counter("viper_llm_tokens", "Tokens of those.", ["kind"])
        gauge("viper_in_flight", "Runs going on.").set_function(lambda: admission.running)
        waiting = "Requests sending or waiting for their turn."
        gauge("viper_queued", waiting).set_function(lambda: admission.waiting)

    def count_request(self, note: RequestNote) -> None:
        """Count a finished request."""
        endpoint = note.path if note.path in self._endpoints else "other"
        self._requests.labels(endpoint, note.outcome).inc()
        self._seconds.labels(endpoint).observe(note.seconds)

    def count_event(self, event: Event) -> None:
        """Count a program that has run, or the usage of a finished run."""
        if isinstance(event, Trial):
            self._trials.labels(event.correction).inc()
            if event.failure is not None:
                self._failures.labels(event.failure.kind).inc()
        elif isinstance(event, RunResult):
            usage = event.trace.usage
            self._llm_calls.inc(usage.llm_calls)
            self._llm_tokens.labels("prompt").inc(usage.prompt_tokens)
            self._llm_tokens.labels("completion").inc(usage.completion_tokens)

    def text(self) -> bytes:
        """Return all metrics in the format of Prometheus."""
        return generate_latest(self.registry)
