"""Engine that answers many samples at once, with threads of this process and one reasoner.

Models are called through the toolbox and the language model's gatherer, which make batches of the
calls that wait at the same time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from queue import Empty, Full, Queue, SimpleQueue

from viper.evaluate.engines.sample_runner import Item, ItemOutcome, ItemRunner, Outcomes, gave_up
from viper.schema import Failure
from viper.strategies.base import UsageMeter

# Seconds between checks of deadlines and the stop signal while no outcome arrives: below what a
# person notices, and five looks a second cost nothing.
_LOOK_EVERY_S = 0.2

# Seconds that threads get to notice the end of the run: a model's call under way usually ends
# within them, and who pressed Ctrl-C waits.
_LEAVE_S = 5.0

# Threads that read the media of upcoming items: decoding a photograph takes far less time than
# answering, so four keep 16 workers busy.
_READERS = 4

# Outcomes per thread that may wait to be stored: one more than the next, so that a slow disk does
# not stop threads at once. Beyond that they wait, and memory stays bounded.
_WAITING = 2


@dataclass(frozen=True)
class Bounds:
    """Limits on parallel samples and on the time of one sample.

    Attributes:
        in_flight: samples at once.
        deadline_s: time limit of one sample, waiting for models included; None sets none.
    """

    in_flight: int = 16
    deadline_s: float | None = None


@dataclass(eq=False)
class InFlight:
    item: Item
    started: float = field(default_factory=time.monotonic)
    cancel: threading.Event = field(default_factory=threading.Event)
    usage: UsageMeter = field(default_factory=UsageMeter)
    over: bool = False

    def gave_up(self, kind: str, message: str) -> ItemOutcome:
        seconds = round(time.monotonic() - self.started, 4)
        return gave_up(self.item, Failure(kind, message), seconds, self.usage.snapshot())


class LocalEngine:
    """Engine that runs in one process.

    Args:
        runner: answers and scores an item.
        bounds: limits on parallel samples and time.
    """

    def __init__(self, runner: ItemRunner, bounds: Bounds) -> None:
        self._runner, self._bounds = runner, bounds

    def run(
        self, items: Iterable[Item], stop: threading.Event, upcoming: Sequence[Item] = ()
    ) -> Outcomes:
        """See :class:`viper.evaluate.engines.sample_runner.Engine`.

        A sample past its deadline is yielded as failed (kind ``deadline``) at once, and its
        run is cancelled. A thread that does not return from it delays no other.
        """
        return _ThreadPool(self._runner, iter(items), upcoming, self._bounds).run(stop)


class _ThreadPool:
    """Threads of one run. Each takes the next item when it is free."""

    def __init__(
        self, runner: ItemRunner, feed: Iterator[Item], upcoming: Sequence[Item], bounds: Bounds
    ) -> None:
        self._runner, self._feed, self._bounds = runner, feed, bounds
        self._upcoming, self._to_read = upcoming, SimpleQueue[Item | None]()
        self._taken = self._queued = -1
        self._lock = threading.Lock()
        self._feeding = threading.Lock()
        self._running: set[InFlight] = set()
        self._done: Queue[ItemOutcome | BaseException | None] = Queue(_WAITING * bounds.in_flight)
        self._threads: list[threading.Thread] = []
        self._leaving = threading.Event()

    def run(self, stop: threading.Event) -> Outcomes:
        try:
            for _ in range(_READERS if self._upcoming else 0):
                self._start(self._read_ahead, "viper-media")
            for _ in range(self._bounds.in_flight):
                self._start(self._work, "viper-sample")
            working = self._bounds.in_flight
            while working and not stop.is_set():
                with suppress(Empty):
                    outcome = self._done.get(timeout=_LOOK_EVERY_S)
                    if isinstance(outcome, BaseException):
                        raise outcome
                    if outcome is None:
                        working -= 1
                    else:
                        yield outcome
                yield from self._fail_overdue()
        except (Exception, KeyboardInterrupt):
            stop.set()
            yield from self._ended()
            raise
        else:
            yield from self._ended()
        finally:
            self._stop()

    def _start(self, target: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        self._threads = [*(t for t in self._threads if t.is_alive()), thread]
        thread.start()

    def _fail_overdue(self) -> Iterator[ItemOutcome]:
        """Give up the items under way past the deadline, and start a thread in place of each."""
        limit = self._bounds.deadline_s
        if limit is None:
            return
        now = time.monotonic()
        with self._lock:
            late = [running for running in self._running if now - running.started > limit]
            for running in late:
                running.over = True
                self._running.discard(running)
        for running in late:
            running.cancel.set()
            self._start(self._work, "viper-sample")
        for running in late:
            yield running.gave_up("deadline", f"no answer within {limit:g} s")

    def _ended(self) -> Iterator[ItemOutcome]:
        """Stop, and yield the answers that nobody has taken yet.

        Failures are left out: Ctrl-C also reaches child processes, and what they fail at would be
        stored as a failure of the sample.
        """
        self._stop()
        with suppress(Empty):
            while True:
                outcome = self._done.get_nowait()
                if isinstance(outcome, ItemOutcome) and outcome.row.failure is None:
                    yield outcome

    def _stop(self) -> None:
        """Cancel the items under way. Threads that do not react are left running."""
        self._leaving.set()
        for _ in range(_READERS):
            self._to_read.put(None)
        with self._lock:
            for running in self._running:
                running.cancel.set()
        end = time.monotonic() + _LEAVE_S
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _work(self) -> None:
        while not self._leaving.is_set():
            try:
                item = self._take()
            except BaseException as error:  # noqa: BLE001 - raised again in the run's thread
                self._report(error)
                return
            if item is None:
                break
            running = InFlight(item)
            with self._lock:
                self._running.add(running)
            try:
                done = self._runner.answer(item, running.cancel, running.usage)
            except BaseException as error:  # noqa: BLE001 (boundary: panics are no Exception)
                done = running.gave_up("internal", f"{type(error).__name__}: {error}")
            with self._lock:
                self._running.discard(running)
                if running.over:
                    return  # given up at its deadline: another thread took this one's place
            if done is not None:
                self._report(done)
        self._report(None)

    def _take(self) -> Item | None:
        """Return the next item, and queue the media of those after it."""
        with self._feeding:
            item = next(self._feed, None)
            if item is not None and self._upcoming:
                self._taken = item.position
                ahead = self._runner.ahead(self._bounds.in_flight)
                for later in islice(self._upcoming, ahead):
                    if later.position > self._queued:
                        self._queued = later.position
                        self._to_read.put(later)
            return item

    def _read_ahead(self) -> None:
        while not self._leaving.is_set() and (item := self._to_read.get()) is not None:
            if item.position > self._taken:  # else it is being read already
                self._runner.prefetch(item)

    def _report(self, what: ItemOutcome | BaseException | None) -> None:
        """Pass an outcome to the run's thread. Wait while its queue is full and the run goes on."""
        while True:
            try:
                self._done.put(what, timeout=_LOOK_EVERY_S)
                return
            except Full:
                if self._leaving.is_set():
                    return
