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
from functools import partial
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
            raise QueueFullError(self.places, self._retry_after_s())
        self._taken += 1
        return Slot(self)

    def _retry_after_s(self) -> int:
        """Estimate from recent runs the seconds until a slot is free."""
        turns = math.ceil((self.waiting + 1) / self.workers)
        return min(_LONGEST_RETRY_S, max(1, math.ceil(turns * self._mean_s)))

    def _release(self, ran_s: float | None) -> None:
        """Free a slot. ``ran_s`` is the duration of its run, None if it never ran."""
        self._taken -= 1
        if ran_s is None:
            return
        self._mean_s += _MEAN_WEIGHT * (ran_s - self._mean_s)
        self.running -= 1
        self._turns.release()


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
        if not self._left:
            self._left = True
            ran = None if self._began is None else time.monotonic() - self._began
            self._admission._release(ran)


class Loading(Generic[Loaded]):
    """Loads something in a thread of its own, such as models and what needs them.

    Attributes:
        error: why it cannot be loaded.
        on_failure: called in the thread after a failure.
    """

    def __init__(self, load: Callable[[], Loaded]) -> None:
        self.error: ViperError | None = None
        self.on_failure: Callable[[], None] | None = None
        self.loaded: Loaded | None = None
        self._load = load
        self._started = threading.Lock()
        self._ended = threading.Event()

    @property
    def state(self) -> Literal["loading", "ready", "failed"]:
        if self.error is not None:
            return "failed"
        return "ready" if self._ended.is_set() else "loading"

    def start(self) -> None:
        """Start loading, once. Returns at once."""
        if self._started.acquire(blocking=False):
            threading.Thread(target=self._run, name="viper-loading", daemon=True).start()

    def wait(self, timeout_s: float) -> Loaded | None:
        """Return what is loaded, or None if it still is not after this time.

        Raises:
            ViperError: it cannot be loaded.
        """
        self._ended.wait(timeout_s)
        if self.error is not None:
            raise self.error
        return self.loaded

    def _run(self) -> None:
        try:
            self.loaded = self._load()
        except ViperError as error:
            self.error = error
        except Exception as error:  # noqa: BLE001 - whatever a model library raises
            text = f"a model cannot be loaded: {type(error).__name__}: {error}"
            self.error = ModelError(text)
            self.error.__cause__ = error
        self._ended.set()
        if self.error is not None and self.on_failure is not None:
            self.on_failure()


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
