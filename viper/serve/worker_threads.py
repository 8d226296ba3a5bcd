"""The threads that runs happen in."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue


class WorkerThreads:
    """A fixed number of threads that live as long as the server.

    Runs share threads because what libraries keep for each thread (pools, memory arenas)
    would pile up otherwise. They are daemons because a run that cannot be interrupted must
    not keep a stopped server alive.
    """

    def __init__(self, count: int) -> None:
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._serve, name=f"viper-run-{number}", daemon=True)
            for number in range(count)
        ]
        self._started = False

    def submit(self, work: Callable[[], None]) -> None:
        """Does the work in the next free thread; ``work`` raises nothing."""
        if not self._started:
            self._started = True
            for thread in self._threads:
                thread.start()
        self._work.put(work)

    def close(self, timeout_s: float) -> None:
        """Ends the threads after the work that was submitted; waits for at most so long."""
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
            del work  # while the thread waits, what it worked on last must not stay in memory
