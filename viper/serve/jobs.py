"""Job of a request: waits for its turn, runs in a worker thread, sends events to the event loop.

:meth:`Admission.enter` gives a request its slot before its body is read, or refuses it. A
:class:`Job` waits in its slot for its turn, and its work then runs in one of the
:class:`WorkerThreads`.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Generic, Literal, TypeVar

from viper.errors import ModelError, ViperError
from viper.run_result import RunResult
from viper.schema import Trial
from viper.serve.replies import ClientGoneError, DeadlineError, QueueFullError

# The last five or so runs count, so that the estimate follows a change of the questions.
_MEAN_WEIGHT = 0.2
# Who waits longer should look again: by then the queue is another one.
_LONGEST_RETRY_S = 60

# Generator that runs in a thread. It stops soon after the event is set.
Work = Callable[[threading.Event], Iterator[Trial | RunResult]]

Loaded = TypeVar("Loaded")

# A trial, or the last event: the result, or the error that ended the run.
Event = Trial | RunResult | BaseException


class Admission:
    """Gives out slots in the order of requests. Belongs to one event loop.

    Args:
        workers: slots that may run at a time.
        queue: number of further slots, which wait.

    Attributes:
        running: number of slots that run now.
    """

    def __init__(self, workers: int, queue: int) -> None:
        self.workers, self.places = workers, workers + queue
        self.running = 0
        self._taken = 0
        self._turns = asyncio.Semaphore(workers)
        self._mean_s = 1.0

    @property
    def waiting(self) -> int:
        """Return the number of requests that are still sending or queued."""
        return self._taken - self.running

    def enter(self) -> Slot:
        """Return a slot. The caller must call :meth:`Slot.leave` in every case.

        Raises:
            QueueFullError: no slot is free.
        """
        if self._taken >= self.places:
            # An estimate from recent runs of the seconds until a slot is free.
            wait_s = math.ceil(math.ceil((self.waiting + 1) / self.workers) * self._mean_s)
            raise QueueFullError(self.places, min(_LONGEST_RETRY_S, max(1, wait_s)))
        self._taken += 1
        return Slot(self)


class Slot:
    """Slot of one request; see :meth:`Admission.enter`."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._began: float | None = None
        self._left = False

    async def turn(self) -> None:
        """Wait until this slot may run."""
        await self._admission._turns.acquire()
        self._admission.running += 1
        self._began = time.monotonic()

    def leave(self) -> None:
        """Free the slot and let the next one run. May be called again."""
        if self._left:
            return
        self._left, admission = True, self._admission
        admission._taken -= 1
        if self._began is not None:
            ran_s = time.monotonic() - self._began
            admission._mean_s += _MEAN_WEIGHT * (ran_s - admission._mean_s)
            admission.running -= 1
            admission._turns.release()


class Loading(Generic[Loaded]):
    """Loads something in a thread of its own, such as models and what needs them.

    Attributes:
        on_failure: called in the thread after a failure.
    """

    def __init__(self, load: Callable[[], Loaded]) -> None:
        self.on_failure: Callable[[], None] | None = None
        self._load, self._started = load, threading.Lock()
        self._result: Future[Loaded] = Future()

    @property
    def state(self) -> Literal["loading", "ready", "failed"]:
        if not self._result.done():
            return "loading"
        return "ready" if self._result.exception() is None else "failed"

    def start(self) -> None:
        """Start loading, once. Returns at once."""
        if self._started.acquire(blocking=False):
            threading.Thread(target=self._run, name="viper-loading", daemon=True).start()

    def wait(self, timeout_s: float) -> Loaded | None:
        """Return what is loaded, or None if it still is not after this time.

        Raises:
            ViperError: it cannot be loaded.
        """
        try:
            return self._result.result(timeout_s)
        except TimeoutError:
            return None

    def _run(self) -> None:
        try:
            self._result.set_result(self._load())
            return
        except ViperError as error:
            self._result.set_exception(error)
        except Exception as error:  # noqa: BLE001 - whatever a model library raises
            failure = ModelError(f"a model cannot be loaded: {type(error).__name__}: {error}")
            failure.__cause__ = error
            self._result.set_exception(failure)
        if self.on_failure is not None:
            self.on_failure()


class WorkerThreads:
    """A fixed number of threads that live as long as the server.

    Runs share threads, since libraries allocate pools and memory arenas for each thread. The
    threads are daemons, since a run that cannot be interrupted must not keep a stopped server
    alive.
    """

    def __init__(self, count: int) -> None:
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._count = count
        self._threads: list[threading.Thread] = []

    def submit(self, work: Callable[[], None]) -> None:
        """Run the work in the next free thread; ``work`` must not raise."""
        while len(self._threads) < self._count:
            name = f"viper-run-{len(self._threads)}"
            self._threads.append(threading.Thread(target=self._serve, name=name, daemon=True))
            self._threads[-1].start()
        self._work.put(work)

    def close(self, timeout_s: float) -> None:
        """Stop the threads after the submitted work. Wait at most ``timeout_s``."""
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
        self._cancel = threading.Event()
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._over = False
        self._requested = time.monotonic()
        self.queued_s: float | None = None
        self.task = self._loop.create_task(self._run(slot, workers, work))
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

    @contextlib.contextmanager
    def limited(self, left_s: float, deadline_s: float) -> Iterator[None]:
        """Stop the run at the deadline, or as soon as the block that awaits its events ends."""
        timer = self._loop.call_later(left_s, self.stop, DeadlineError(deadline_s))
        try:
            yield
        finally:
            timer.cancel()
            self.stop(ClientGoneError())

    def _emit(self, event: Event) -> None:
        if not self._over:
            self._over = not isinstance(event, Trial)
            self._events.put_nowait(event)

    async def _run(self, slot: Slot, workers: WorkerThreads, work: Work) -> None:
        await slot.turn()
        self.queued_s = time.monotonic() - self._requested
        done = asyncio.Event()

        def in_thread() -> None:
            # A closed loop means that the server has stopped, so no caller is left.
            with contextlib.suppress(RuntimeError):
                try:
                    for event in work(self._cancel):
                        self._loop.call_soon_threadsafe(self._emit, event)
                except BaseException as error:  # noqa: BLE001 - native code raises more than Exception
                    self._loop.call_soon_threadsafe(self._emit, error)
                finally:
                    self._loop.call_soon_threadsafe(done.set)

        workers.submit(in_thread)
        await done.wait()
        self._emit(RuntimeError("the run ended without a result"))
