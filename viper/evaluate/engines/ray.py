"""Engine that answers samples on actors of Ray, on this machine or a cluster.

`RayEngine.run` hands out items (`WorkQueue`) to the actors of a `WorkerPool`, and yields the
results that they report. The driver alone writes the store. The queue knows which actor has which
items; the pool replaces actors that die.
"""

from __future__ import annotations

import math
import pickle
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from viper.data.sample import Sample
from viper.errors import EXIT_USAGE, ModelError, UsageError, ViperError
from viper.evaluate.engines.ray_actor import ActorSettings, Ready, ReasonerActor, StartFailure
from viper.evaluate.engines.ray_cluster import Share
from viper.evaluate.engines.sample_runner import Item, ItemOutcome, Outcomes, gave_up
from viper.evaluate.evaluation import Evaluation
from viper.evaluate.runs.manifest import Manifest, RunEnvironment, SetDescription, differences
from viper.schema import Failure

# What decides the answers of an actor, as JSON values.
Facts = Mapping[str, Any]

# Seconds between checks of the stop signal while no outcome arrives: below what a person notices,
# and five looks a second cost nothing.
_LOOK_EVERY_S = 0.2


class RayEngine:
    """Engine of a pool of actors, good for runs of which all but the last go to their end.

    Args:
        pool: of actors; it is killed if a run ends early.
        in_flight: samples at once in each actor.
        whole: the actors do not know the samples, and get them sent; these can be pickled. An actor
            gets those whose media it saw in earlier runs before it helps another.
    """

    def __init__(self, pool: WorkerPool, in_flight: int, whole: bool = False) -> None:
        self._pool, self._in_flight = pool, in_flight
        self._homes: dict[tuple[str, ...], Hashable] | None = {} if whole else None

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
        room = self._in_flight + (self._in_flight + 1) // 2
        queue = WorkQueue(items, room, self._homes)
        try:
            for worker in self._pool.workers:
                if worker.ready and worker.call is None:
                    self._pool.ask(worker, [])  # tells of a death since the last run
            while not queue.finished:
                for worker in self._pool.workers:
                    if worker.ready and worker.call is None:
                        given = queue.hand_out(worker)
                        if given or queue.busy(worker):
                            positions = [item.position for item in given]
                            self._pool.ask(worker, positions if self._homes is None else given)
                for report in self._pool.reports(_LOOK_EVERY_S):
                    yield from queue.accept(report.worker, report.outcomes)
                    if report.died:
                        yield from queue.drop_actor(report.worker)
                if stop.is_set():
                    return
        finally:
            if not queue.finished:
                self._pool.kill()


# Give an item up after so many actors died while it was under way: the first time another item may
# be the cause, the second time it ran alone.
_KILLS = 2

# Items among which an actor's own are looked for, as a multiple of its room: pictures of several
# actors, also where dozens of items share one.
_AHEAD = 64


class WorkQueue:
    """Queue that gives each item to one actor and takes one outcome: judged, or given up.

    It is unknown which item under way killed an actor. So all of them become suspects, and each
    is answered again alone by an actor without other work. An item whose actor dies a second time
    is given up. The others are answered as usual.

    Args:
        items: read one by one when an actor has room.
        room: most items of an actor at a time.
        homes: the actor that had the media last; it gets them again before others do.
    """

    def __init__(
        self, items: Iterable[Item], room: int, homes: dict[tuple[str, ...], Hashable] | None = None
    ) -> None:
        self._feed = iter(items)
        self._room, self._homes = room, homes
        self._ahead: list[Item] = []
        self._read()
        self._open: dict[Hashable, dict[int, Item]] = {}
        self._suspects: deque[Item] = deque()
        self._kills: Counter[int] = Counter()

    @property
    def finished(self) -> bool:
        """Return whether no item is under way and none is left to hand out."""
        return not (self._ahead or self._suspects or any(self._open.values()))

    def busy(self, actor: Hashable) -> bool:
        """Return whether the actor has items."""
        return bool(self._open.get(actor))

    def hand_out(self, actor: Hashable) -> list[Item]:
        """Return more items for an actor; none if it has enough or none are left.

        An actor gets a chunk when a third of its room is free. Items with the same media go to the
        same actor as far as there is room, which is doubled for them.
        """
        assigned = self._open.setdefault(actor, {})
        if not assigned and self._suspects:
            suspect = self._suspects.popleft()
            assigned[suspect.position] = suspect
            return [suspect]
        if self._kills.keys() & assigned.keys() or 3 * (self._room - len(assigned)) < self._room:
            return []
        given: list[Item] = []
        files: tuple[str, ...] = ()
        while self._ahead:
            place = self._place(actor)
            item = self._ahead[place]
            same_media = files and item.sample.files == files
            if assigned and not same_media and self._is_of_another(item, actor):
                break
            if len(assigned) >= (2 * self._room if same_media else self._room):
                break
            assigned[item.position] = item
            given.append(item)
            files = item.sample.files
            if self._homes is not None:
                self._homes[files] = actor
            del self._ahead[place]
            self._read()
        return given

    def _read(self) -> None:
        """Read the next item, or as many as an actor's own are looked for among."""
        count = 1 if self._homes is None else _AHEAD * self._room
        self._ahead += islice(self._feed, count - len(self._ahead))

    def _is_of_another(self, item: Item, actor: Hashable) -> bool:
        """Return whether another actor had the media; an actor takes one of these at a time."""
        homes = self._homes or {}
        return homes.get(item.sample.files, actor) is not actor

    def _place(self, actor: Hashable) -> int:
        """Return which of the items ahead is for an actor: one of no other, or else the first."""
        places = enumerate(self._ahead)
        return next((at for at, item in places if not self._is_of_another(item, actor)), 0)

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


# Deaths before the first start after which an actor is not replaced: each start loads the models.
_FALSE_STARTS = 3

# Deaths without an outcome in between after which an actor is not replaced; a few items that kill
# their actor may follow each other.
_DEATHS_IN_A_ROW = 10

# Seconds without an actor after which it is said what they wait for; most have loaded by then.
_LATE_S = 60.0

# An actor ends its sandbox processes in this time, unless it hangs.
_CLOSE_S = 5.0


@dataclass(eq=False)
class Worker:
    """Place of one actor. If the actor dies, another takes the place.

    Attributes:
        call: the call under way; None if the worker waits for items.
        where: node and process of its actor, in words; empty until one has begun.
        ready: whether its actor has begun.
        deaths: since its last outcome.
        false_starts: deaths since an actor last began.
    """

    actor: Any
    call: Any
    where: str = ""
    ready: bool = False
    deaths: int = 0
    false_starts: int = 0


@dataclass(frozen=True)
class WorkerReport:
    """Outcomes of a worker, or that its actor died."""

    worker: Worker
    outcomes: list[ItemOutcome] = field(default_factory=list)
    died: bool = False


class WorkerPool:
    """Actors with the same :class:`ActorSettings` and share. End the pool with :meth:`close`.

    Args:
        settings: settings of each actor.
        share: share of the cluster for each actor.
        actors: number of actors; those that do not fit begin when there is room.
        differing: returns in words what differs between the facts of two actors.
        say: told in words of each death of an actor, and once if none begins for long, perhaps
            since others fill the cluster.
    """

    def __init__(
        self,
        settings: ActorSettings,
        share: Share,
        actors: int,
        differing: Callable[[Facts, Facts], Sequence[str]],
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        import ray

        self._ray, self._settings, self._differing = ray, settings, differing
        self._share, self._say, self._late = share, say, time.monotonic() + _LATE_S
        actor_class: Any = ray.remote(ReasonerActor)
        self._class = actor_class.options(
            num_cpus=share.cpus, num_gpus=share.gpus, scheduling_strategy="SPREAD"
        )
        self._expected: Facts | None = None
        self._last_death = ""
        self.workers = [self._new_worker() for _ in range(actors)]

    def facts(self) -> Facts:
        """Return the facts of the first actor that can answer.

        Raises:
            UsageError, ModelError: no actor can begin; the message of one says why.
        """
        while self._expected is None:
            for _ in self.reports(wait_s=1.0):
                pass
        return self._expected

    def expect(self, facts: Facts) -> None:
        """Require these facts of every actor.

        Raises:
            UsageError: an actor's is another one; shows the differences.
        """
        first, self._expected = self._expected, facts
        if first is not None:
            self._check_same(facts, first, "the first actor")

    def ask(self, worker: Worker, given: Sequence[int | Item]) -> None:
        """Send items to an idle worker and request the outcomes that are ready there."""
        worker.call = worker.actor.exchange.remote(list(given))

    def reports(self, wait_s: float) -> Iterator[WorkerReport]:
        """Yield what arrived within ``wait_s``. The replacement of a dead actor has begun by then.

        Raises:
            UsageError, ModelError: an actor cannot begin or broke, or all have died.
        """
        calls = {worker.call: worker for worker in self.workers if worker.call is not None}
        if not calls:
            raise ModelError(
                f"all actors died over and over ({self._last_death}); fewer --actors or "
                "--workers need less memory"
            )
        arrived, _ = self._ray.wait(list(calls), num_returns=1, timeout=wait_s)
        if not arrived and time.monotonic() > self._late:
            self._late, free = math.inf, self._ray.available_resources()
            if not any(worker.where for worker in self.workers):
                self._say(
                    f"no actor has begun yet; each takes {self._share.cpus:g} processors and "
                    f"{self._share.gpus:g} GPUs, and {free.get('CPU', 0):g} and "
                    f"{free.get('GPU', 0):g} are free"
                )
        for call in arrived:
            worker = calls[call]
            worker.call = None
            try:
                reply = self._ray.get(call)
            except self._ray.exceptions.RayTaskError as error:
                raise ModelError(f"an actor broke: {_error_text(error.cause or error)}") from None
            except self._ray.exceptions.RayError as error:
                yield self._replace(worker, error)
                continue
            if isinstance(reply, StartFailure):
                kind: type[ViperError] = UsageError if reply.exit_code == EXIT_USAGE else ModelError
                raise kind(f"an actor on {reply.node} cannot begin: {reply.message}")
            if isinstance(reply, Ready):
                self._expected = self._expected or reply.facts
                self._check_same(self._expected, reply.facts, f"the actor on {reply.node}")
                worker.false_starts = 0
                worker.ready, worker.where = True, f"on {reply.node}, process {reply.pid}"
                continue
            if reply:
                worker.deaths = 0
            yield WorkerReport(worker, [pickle.loads(packed) for packed in reply])

    def close(self) -> None:
        """Let the actors stop their processes, then kill those that take too long."""
        closing = [worker.actor.close.remote() for worker in self.workers if worker.ready]
        if closing:
            self._ray.wait(closing, num_returns=len(closing), timeout=_CLOSE_S)
        self.kill()

    def kill(self) -> None:
        """Kill all actors at once."""
        for worker in self.workers:
            self._ray.kill(worker.actor)
        self.workers = []

    def _new_worker(self) -> Worker:
        actor = self._class.remote(self._settings)
        return Worker(actor, actor.begin.remote())

    def _check_same(self, expected: Facts, actual: Facts, whose: str) -> None:
        if differing := self._differing(expected, actual):
            raise UsageError(
                f"{whose} has another configuration than this process; give every node the same "
                f"files and versions: {'; '.join(differing)}"
            )

    def _replace(self, worker: Worker, error: Exception) -> WorkerReport:
        self._ray.kill(worker.actor)
        self._last_death = _error_text(error)
        worker.deaths += 1
        worker.false_starts += not worker.ready
        worker.ready = False
        if worker.deaths < _DEATHS_IN_A_ROW and worker.false_starts < _FALSE_STARTS:
            fresh = self._new_worker()
            worker.actor, worker.call = fresh.actor, fresh.call
        where = worker.where or "that had not begun"
        told = f"{where}: {self._last_death}"
        self._say(f"an actor died ({told}); its unfinished items are answered again")
        return WorkerReport(worker, died=True)


def manifest_differences(expected: Facts, actual: Facts) -> list[str]:
    """Return in words what differs between two manifests, given as JSON values."""
    return differences(Manifest.from_json(expected), Manifest.from_json(actual))


def run_manifest(
    like: Manifest, evaluation: Evaluation, samples: Sequence[Sample], execution: Mapping[str, Any]
) -> Manifest:
    """Return the run's manifest: models and prompts of an actor, everything else of the driver."""
    return replace(
        like,
        set=SetDescription.of(evaluation.set_name, evaluation.located(), samples),
        arguments=tuple(sys.argv),
        execution=execution,
        environment=RunEnvironment.here(),
    )


def _error_text(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
