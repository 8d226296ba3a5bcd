"""Shared state of the routes: loading before the first request, jobs, orderly shutdown."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Literal

from viper.reasoner import Reasoner
from viper.serve.admission import Admission, Slot
from viper.serve.auth import Gatekeeper
from viper.serve.jobs import Job, Work, WorkerThreads
from viper.serve.metrics import Metrics
from viper.serve.refusals import ShuttingDownError
from viper.serve.settings import ServeSettings

# Seconds that a stopping server waits for runs that it has cancelled.
CANCEL_WAIT_S = 5.0

ENDPOINTS = frozenset(
    {"/v1/run", "/v1/exec", "/healthz", "/readyz", "/metrics", "/openapi.json", "/docs"}
)


State = Literal["loading", "ready", "failed"]


class Warmup:
    """Loads the models and starts the sandbox in its own thread.

    Attributes:
        state: state of loading; ``failed`` once a part cannot be loaded.
        error: the error of a failed load.
        on_failure: called in the thread after a failure.
    """

    def __init__(self, reasoner: Reasoner) -> None:
        self.state: State = "loading"
        self.error: Exception | None = None
        self.on_failure: Callable[[], None] | None = None
        self._reasoner = reasoner
        self._ended = threading.Event()

    def start(self) -> None:
        """Start loading. Returns at once."""
        threading.Thread(target=self._load, name="viper-warmup", daemon=True).start()

    def wait(self, timeout_s: float) -> State:
        """Return the state once loading has ended, or after this time."""
        self._ended.wait(timeout_s)
        return self.state

    def _load(self) -> None:
        try:
            self._reasoner.components.load()
        except Exception as error:  # noqa: BLE001 - whatever a model library raises
            logging.getLogger("viper.serve").error("warm-up failed: %s", error)
            self.state, self.error = "failed", error
        else:
            self.state = "ready"
        self._ended.set()
        if self.error is not None and self.on_failure is not None:
            self.on_failure()


class Service:
    """Reasoner with the state of a server around it.

    Attributes:
        closing: whether new requests are refused.
        jobs: waiting and running jobs.
    """

    def __init__(self, reasoner: Reasoner, settings: ServeSettings) -> None:
        self.reasoner, self.settings = reasoner, settings
        self.admission = Admission(settings.workers, settings.queue)
        self.gatekeeper = Gatekeeper(settings)
        self.metrics = Metrics(self.admission, ENDPOINTS)
        self.warmup = Warmup(reasoner)
        self.threads = WorkerThreads(settings.workers)
        self.closing = False
        self.jobs: set[Job] = set()

    def start_job(self, slot: Slot, work: Work, cleanup: ExitStack) -> Job:
        """Start a run.

        Raises:
            ShuttingDownError: the server began to stop while it read the request.
        """
        if self.closing:
            raise ShuttingDownError
        job = Job(slot, self.threads, work, cleanup.pop_all())
        self.jobs.add(job)
        job.task.add_done_callback(lambda _: self.jobs.discard(job))
        return job

    async def drain(self, grace_s: float | None = None) -> None:
        """Refuse new requests, let runs finish for the grace time, then cancel them."""
        self.closing = True
        await self._wait_for_jobs(self.settings.grace_s if grace_s is None else grace_s)
        self.stop_jobs()
        await self._wait_for_jobs(CANCEL_WAIT_S)

    def stop_jobs(self) -> None:
        """Cancel every run. Its callers get the error that the server is shutting down."""
        for job in list(self.jobs):
            job.stop(ShuttingDownError())

    async def _wait_for_jobs(self, timeout_s: float) -> None:
        tasks = [job.task for job in self.jobs]
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)
