"""What the routes of one server share, and how it comes to an orderly end."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

from viper.reasoner import Reasoner
from viper.serve.admission import Admission, Place
from viper.serve.auth import Gatekeeper
from viper.serve.jobs import Job, Work
from viper.serve.metrics import Metrics
from viper.serve.refusals import ShuttingDownError
from viper.serve.settings import ServeSettings
from viper.serve.warmup import Warmup
from viper.serve.worker_threads import WorkerThreads

CANCEL_WAIT_S = 5.0
"""How long a stopping server waits for runs that it has cancelled."""

ENDPOINTS = frozenset({"/v1/run", "/v1/exec", "/healthz", "/readyz", "/metrics", "/openapi.json"})


class Service:
    """A Reasoner with the bookkeeping of a server around it.

    Attributes:
        closing: no further requests are taken.
        jobs: the runs that wait or go on.
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

    def start_job(self, place: Place, work: Work, cleanup: ExitStack) -> Job:
        """Puts a run on its way.

        Raises:
            ShuttingDownError: the server began to stop while the request was read.
        """
        if self.closing:
            raise ShuttingDownError
        job = Job(place, self.threads, work, cleanup.pop_all())
        self.jobs.add(job)
        job.task.add_done_callback(lambda _: self.jobs.discard(job))
        return job

    async def drain(self, grace_s: float | None = None) -> None:
        """Takes no more requests, lets runs finish for the grace time, then cancels them."""
        self.closing = True
        await self._jobs_end(self.settings.grace_s if grace_s is None else grace_s)
        self.stop_jobs()
        await self._jobs_end(CANCEL_WAIT_S)

    def stop_jobs(self) -> None:
        """Cancels every run; their callers hear that the server is shutting down."""
        for job in list(self.jobs):
            job.stop(ShuttingDownError())

    async def _jobs_end(self, timeout_s: float) -> None:
        tasks = [job.task for job in self.jobs]
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)
