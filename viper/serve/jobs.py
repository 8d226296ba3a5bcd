"""Job of a request: waits for its turn, runs in a worker thread, sends events to the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from queue import SimpleQueue

from viper.run_result import RunResult
from viper.schema import Trial
from viper.serve.admission import Slot

# Generator that runs in a thread. It stops soon after the event is set.
Work = Callable[[threading.Event], Iterator[Trial | RunResult]]

# A trial, or the last event: the result, or the error that ended the run.
Event = Trial | RunResult | BaseException


class WorkerThreads:
    """A fixed number of threads that live as long as the server.

    Runs share threads, since libraries allocate pools and memory arenas for each thread. The
    threads are daemons, since a run that cannot be interrupted must not keep a stopped server
    alive.
    """

    def __init__(self, count: int) -> None:
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._serve, name=f"viper-run-{number}", daemon=True)
            for number in range(count)
        ]
        self._started = False

    def submit(self, work: Callable[[], None]) -> None:
        """Run the work in the next free thread; ``work`` must not raise."""
        if not self._started:
            self._started = True
            for thread in self._threads:
                thread.start()
        self._work.put(work)

    def close(self, timeout_s: float) -> None:
        """Stop the threads after the submitted work. Wait at most ``timeout_s``."""
        if not self._started:
            return
        for _ in self._threads:
            self._work.put(None)
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            del work  # free the memory of the last run while the thread waits


class Job:
    """A waiting or running run. Its slot is freed when its thread has finished.

    Args:
        cleanup: closed at the end, even if the run never began.

    Attributes:
        queued_s: seconds between the request and the start of the run; None before the start.
    """

    def __init__(
        self, slot: Slot, workers: WorkerThreads, work: Work, cleanup: contextlib.ExitStack
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._slot, self._workers, self._work = slot, workers, work
        self._cancel = threading.Event()
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._over = False
        self._requested = time.monotonic()
        self.queued_s: float | None = None
        self.task = self._loop.create_task(self._run())
        # Not inside the task, since a task that is cancelled before its first step never runs.
        self.task.add_done_callback(lambda _: cleanup.close())

    async def next(self) -> Event:
        """Return the next event. Do not call it after the last event."""
        return await self._events.get()

    def stop(self, reason: BaseException) -> None:
        """Stop the run and make ``reason`` its last event. Does nothing after the last event."""
        if self._over:
            return
        self._emit(reason)
        self._cancel.set()
        if self.queued_s is None:
            self.task.cancel()

    def _emit(self, event: Event) -> None:
        if not self._over:
            self._over = not isinstance(event, Trial)
            self._events.put_nowait(event)

    async def _run(self) -> None:
        await self._slot.turn()
        self.queued_s = time.monotonic() - self._requested
        done = asyncio.Event()
        self._workers.submit(partial(self._in_thread, done))
        await done.wait()
        self._emit(RuntimeError("the run ended without a result"))

    def _in_thread(self, done: asyncio.Event) -> None:
        # A closed loop means that the server has stopped, so no caller is left.
        with contextlib.suppress(RuntimeError):
            try:
                for event in self._work(self._cancel):
                    self._loop.call_soon_threadsafe(self._emit, event)
            except BaseException as error:  # noqa: BLE001 - native code raises more than Exception
                self._loop.call_soon_threadsafe(self._emit, error)
            finally:
                self._loop.call_soon_threadsafe(done.set)
