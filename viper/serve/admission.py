"""Slots for requests: some run, some wait, and further ones are rejected."""

from __future__ import annotations

import asyncio
import math
import time

from viper.serve.refusals import QueueFullError

_MEAN_WEIGHT = 0.2
_LONGEST_RETRY_S = 60


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
