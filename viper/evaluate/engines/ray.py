"""Engine that answers samples on actors of Ray, on this machine or a cluster.

The driver hands out positions and receives results. It loads no model, and it alone writes the
store. The queue knows which actor has which items, and handles the death of an actor.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from viper.evaluate.engines.ray_workers import WorkerPool
from viper.evaluate.engines.sample_runner import Item, ItemOutcome, Outcomes, gave_up
from viper.schema import Failure

# Seconds between checks of the stop signal while no outcome arrives: below what a person notices,
# and five looks a second cost nothing.
_LOOK_EVERY_S = 0.2


class RayEngine:
    """Engine of a pool of actors, good for one run.

    Args:
        pool: actors that know the run's samples. It is killed if the run ends early.
        in_flight: samples at once in each actor.
        on_death: called with the actor that died, in words.
    """

    def __init__(
        self, pool: WorkerPool, in_flight: int, on_death: Callable[[str], None] | None = None
    ) -> None:
        self._pool, self._in_flight, self._on_death = pool, in_flight, on_death
        self._actors = len(pool.workers)

    def describe(self) -> dict[str, Any]:
        """Return ``{"engine": "ray", "actors": …, "in_flight": …}``, the latter per actor."""
        return {"engine": "ray", "actors": self._actors, "in_flight": self._in_flight}

    def run(
        self, items: Iterable[Item], stop: threading.Event, upcoming: Sequence[Item] = ()
    ) -> Outcomes:
        """See :class:`viper.evaluate.engines.sample_runner.Engine`.

        Each actor has half as many items again as it answers at once, so that it never waits
        for the driver, and a budget is overspent by no more than these.

        Raises:
            UsageError, ModelError: an actor cannot begin, has another configuration, or all
                have died.
        """
        queue = WorkQueue(items, self._in_flight + (self._in_flight + 1) // 2)
        try:
            while not queue.finished:
                self._hand_out(queue)
                for report in self._pool.reports(_LOOK_EVERY_S):
                    yield from queue.accept(report.worker, report.outcomes)
                    if report.died is not None:
                        if self._on_death is not None:
                            self._on_death(report.died)
                        yield from queue.drop_actor(report.worker)
                if stop.is_set():
                    return
        finally:
            if not queue.finished:
                self._pool.kill()

    def _hand_out(self, queue: WorkQueue) -> None:
        for worker in self._pool.workers:
            if worker.idle:
                positions = queue.hand_out(worker)
                if positions or queue.busy(worker):
                    self._pool.ask(worker, positions)


# Give an item up after so many actors died while it was under way: the first time another item may
# be the cause, the second time it ran alone.
_KILLS = 2


class WorkQueue:
    """Queue that gives each item to one actor and takes one outcome: judged, or given up.

    It is unknown which item under way killed an actor. So all of them become suspects, and each
    is answered again alone by an actor without other work. An item whose actor dies a second time
    is given up. The others are answered as usual.

    Args:
        items: read one by one when an actor has room.
        room: most items of an actor at a time.
    """

    def __init__(self, items: Iterable[Item], room: int) -> None:
        self._feed = iter(items)
        self._room = room
        self._next: Item | None = next(self._feed, None)
        self._open: dict[Hashable, dict[int, Item]] = {}
        self._suspects: deque[Item] = deque()
        self._kills: Counter[int] = Counter()

    @property
    def finished(self) -> bool:
        """Return whether no item is under way and none is left to hand out."""
        return self._next is None and not self._suspects and not any(self._open.values())

    def busy(self, actor: Hashable) -> bool:
        """Return whether the actor has items."""
        return bool(self._open.get(actor))

    def hand_out(self, actor: Hashable) -> list[int]:
        """Return the positions of more items for an actor; empty if it has enough or none are left.

        An actor gets a chunk when a third of its room is free. Items with the same media go to the
        same actor as far as there is room.
        """
        assigned = self._open.setdefault(actor, {})
        if not assigned and self._suspects:
            suspect = self._suspects.popleft()
            assigned[suspect.position] = suspect
            return [suspect.position]
        if self._kills.keys() & assigned.keys() or 3 * (self._room - len(assigned)) < self._room:
            return []
        return [item.position for item in self._take_chunk(assigned)]

    def _take_chunk(self, assigned: dict[int, Item]) -> Iterator[Item]:
        """Move items from the feed to an actor's items and yield them, until its room is full.

        The room is doubled for items that share their media with the item before.
        """
        last: Item | None = None
        while self._next is not None:
            item = self._next
            same_media = (
                last is not None and item.sample.files and last.sample.files == item.sample.files
            )
            if len(assigned) >= (2 * self._room if same_media else self._room):
                return
            assigned[item.position] = last = item
            self._next = next(self._feed, None)
            yield item

    def accept(self, actor: Hashable, outcomes: Iterable[ItemOutcome]) -> Iterator[ItemOutcome]:
        """Yield the outcomes of items that the actor has. Ignore all others."""
        assigned = self._open.get(actor, {})
        for outcome in outcomes:
            if assigned.pop(outcome.position, None) is not None:
                self._kills.pop(outcome.position, None)
                yield outcome

    def drop_actor(self, actor: Hashable) -> Iterator[ItemOutcome]:
        """Take back the items of a dead actor. Yield the outcomes of those that are given up."""
        for item in self._open.pop(actor, {}).values():
            self._kills[item.position] += 1
            if self._kills[item.position] < _KILLS:
                self._suspects.append(item)
            else:
                says = f"the process that answered it died {_KILLS} times, the last time alone"
                yield gave_up(item, Failure("crash", says), 0.0)
