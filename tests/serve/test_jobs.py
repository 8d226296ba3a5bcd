"""A run's life between the event loop and its thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.serve.bench import WAIT_S
from viper.serve.jobs import Admission, Job, Work, WorkerThreads
from viper.serve.replies import ClientGoneError


class Stage:
    """One place, one thread, and a mark that is set when a job has cleaned up."""

    def __init__(self) -> None:
        self.admission = Admission(1, 5)
        self.threads = WorkerThreads(1)
        self.cleaned: list[str] = []

    def job(self, work: Work, name: str = "job") -> Job:
        place = self.admission.enter()
        cleanup = ExitStack()
        cleanup.callback(self.cleaned.append, name)
        cleanup.callback(place.leave)
        return Job(place, self.threads, work, cleanup)


def play(scenario: Any) -> Stage:
    """Runs a scenario on a fresh stage, which must be empty afterwards."""

    async def act() -> Stage:
        stage = Stage()
        await asyncio.wait_for(scenario(stage), WAIT_S)
        stage.threads.close(WAIT_S)
        assert (stage.admission.running, stage.admission.waiting) == (0, 0)
        return stage

    return asyncio.run(act())


def test_a_job_stopped_before_its_first_step_cleans_up() -> None:
    async def scenario(stage: Stage) -> None:
        job = stage.job(lambda cancel: pytest.fail("it ran"))
        job.stop(ClientGoneError())
        assert isinstance(await job.next(), ClientGoneError)
        await asyncio.wait({job.task})

    assert play(scenario).cleaned == ["job"]


def test_a_job_stopped_in_its_thread_is_told_and_keeps_its_place_until_it_obeys() -> None:
    async def scenario(stage: Stage) -> None:
        begun, obey = threading.Event(), threading.Event()

        def work(cancel: threading.Event) -> Iterator[Any]:
            begun.set()
            assert cancel.wait(WAIT_S) and obey.wait(WAIT_S)
            yield from ()

        job = stage.job(work)
        assert await asyncio.to_thread(begun.wait, WAIT_S)
        job.stop(ClientGoneError())
        job.stop(RuntimeError("a second reason"))
        assert isinstance(await job.next(), ClientGoneError)
        assert stage.admission.running == 1 and stage.cleaned == []
        obey.set()
        await job.task

    assert play(scenario).cleaned == ["job"]


@pytest.mark.parametrize(
    ("raised", "told"),
    [(ValueError("x"), ValueError), (SystemExit(3), SystemExit), (None, RuntimeError)],
)
def test_whatever_ends_the_thread_is_told(raised: BaseException | None, told: type) -> None:
    async def scenario(stage: Stage) -> None:
        def work(cancel: threading.Event) -> Iterator[Any]:
            if raised is not None:
                raise raised
            yield from ()

        job = stage.job(work)
        assert isinstance(await job.next(), told)
        await job.task
        # The thread goes on to serve the next job.
        again = stage.job(work, "again")
        assert isinstance(await again.next(), told)
        await again.task

    assert play(scenario).cleaned == ["job", "again"]
