"""Counters of the server, in their own registry."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from viper.schema import Trace, Trial
from viper.serve.admission import Admission
from viper.serve.note import RequestNote

CONTENT_TYPE = CONTENT_TYPE_LATEST

_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300)


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
        self._requests = Counter(
            "viper_requests",
            "Requests by outcome.",
            ["endpoint", "outcome"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "viper_request_seconds",
            "Seconds from a request's start to the end of its answer.",
            ["endpoint"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._trials = Counter(
            "viper_trials", "Programs run.", ["correction"], registry=self.registry
        )
        self._failures = Counter(
            "viper_failures", "Trials that failed.", ["kind"], registry=self.registry
        )
        self._llm_calls = Counter(
            "viper_llm_calls", "Programs asked of the LLM.", registry=self.registry
        )
        self._llm_tokens = Counter(
            "viper_llm_tokens", "Tokens of those.", ["kind"], registry=self.registry
        )
        in_flight = Gauge("viper_in_flight", "Runs going on.", registry=self.registry)
        in_flight.set_function(lambda: admission.running)
        queued = Gauge(
            "viper_queued", "Requests sending or waiting for their turn.", registry=self.registry
        )
        queued.set_function(lambda: admission.waiting)

    def count_request(self, note: RequestNote) -> None:
        """Count a finished request."""
        endpoint = note.path if note.path in self._endpoints else "other"
        self._requests.labels(endpoint, note.outcome).inc()
        self._seconds.labels(endpoint).observe(note.seconds)

    def count_trial(self, trial: Trial) -> None:
        """Count a program that has run."""
        self._trials.labels(trial.correction).inc()
        if trial.failure is not None:
            self._failures.labels(trial.failure.kind).inc()

    def count_usage(self, trace: Trace) -> None:
        """Count the usage of a finished run."""
        self._llm_calls.inc(trace.usage.llm_calls)
        self._llm_tokens.labels("prompt").inc(trace.usage.prompt_tokens)
        self._llm_tokens.labels("completion").inc(trace.usage.completion_tokens)

    def text(self) -> bytes:
        """Return all metrics in the format of Prometheus."""
        return generate_latest(self.registry)
