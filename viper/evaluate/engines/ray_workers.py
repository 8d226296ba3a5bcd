"""Pool of the actors of a run. Actors that die are replaced."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from viper.data.sample import Sample
from viper.errors import EXIT_USAGE, ModelError, UsageError, ViperError
from viper.evaluate.engines.ray_actor import ActorSettings, Ready, ReasonerActor, StartFailure
from viper.evaluate.engines.ray_cluster import Share
from viper.evaluate.engines.sample_runner import ItemOutcome
from viper.evaluate.evaluation import Evaluation
from viper.evaluate.runs.manifest import Environment, Manifest, SetDescription, differences

# Deaths before the first start after which an actor is not replaced: loading fails alike each time,
# and a shortage of memory may pass once or twice.
_FALSE_STARTS = 3

# Deaths without an outcome in between after which an actor is not replaced. More than for starts,
# because single samples can kill an actor that works.
_DEATHS_IN_A_ROW = 10

# Ending idle processes takes a second or two; who waits for the end of a run should not wait longer
# for a busy one.
_CLOSE_S = 5.0


@dataclass(eq=False)
class Worker:
    """Place of one actor. If the actor dies, another takes the place.

    Attributes:
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

    @property
    def idle(self) -> bool:
        """Return whether the worker waits for items."""
        return self.ready and self.call is None


@dataclass(frozen=True)
class WorkerReport:
    """Outcomes of a worker; ``died`` names an actor that died, in words."""

    worker: Worker
    outcomes: list[ItemOutcome] = field(default_factory=list)
    died: str | None = None


class WorkerPool:
    """Actors with the same :class:`ActorSettings` and share. End the pool with :meth:`close`.

    Args:
        settings: settings of each actor.
        share: share of the cluster for each actor.
        actors: number of actors; those that do not fit begin when there is room.
    """

    def __init__(self, settings: ActorSettings, share: Share, actors: int) -> None:
        import ray

        self._ray, self._settings = ray, settings
        actor_class: Any = ray.remote(ReasonerActor)
        self._class = actor_class.options(
            num_cpus=share.cpus, num_gpus=share.gpus, scheduling_strategy="SPREAD"
        )
        self._expected: Manifest | None = None
        self._last_death = ""
        self.workers = [self._new_worker() for _ in range(actors)]

    def manifest(self) -> Manifest:
        """Return what the first actor that can answer would write into ``run.json``.

        Raises:
            UsageError, ModelError: no actor can begin; the message of one says why.
        """
        while self._expected is None:
            for _ in self.reports(wait_s=1.0):
                pass
        return self._expected

    def expect(self, manifest: Manifest) -> None:
        """Require this run's configuration of every actor.

        Raises:
            UsageError: an actor's is another one; shows the differences.
        """
        first, self._expected = self._expected, manifest
        if first is not None:
            _check_same(manifest, first, "the first actor")

    def ask(self, worker: Worker, positions: Sequence[int]) -> None:
        """Send items to an idle worker and request the outcomes that are ready there."""
        worker.call = worker.actor.exchange.remote(list(positions))

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
        for call in arrived:
            worker = calls[call]
            report = self._report_of(worker)
            if report is not None:
                yield report

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

    def _report_of(self, worker: Worker) -> WorkerReport | None:
        call, worker.call = worker.call, None
        try:
            reply = self._ray.get(call)
        except self._ray.exceptions.RayTaskError as error:
            raise ModelError(f"an actor broke: {_error_text(error.cause or error)}") from None
        except self._ray.exceptions.RayError as error:
            return self._replace(worker, error)
        if isinstance(reply, StartFailure):
            kind: type[ViperError] = UsageError if reply.exit_code == EXIT_USAGE else ModelError
            raise kind(f"an actor on {reply.node} cannot begin: {reply.message}")
        if isinstance(reply, Ready):
            self._register(worker, reply)
            return None
        if reply:
            worker.deaths = 0
        return WorkerReport(worker, [pickle.loads(packed) for packed in reply])

    def _register(self, worker: Worker, ready: Ready) -> None:
        manifest = Manifest.from_json(ready.manifest)
        if self._expected is None:
            self._expected = manifest
        _check_same(self._expected, manifest, f"the actor on {ready.node}")
        worker.false_starts = 0
        worker.ready, worker.where = True, f"on {ready.node}, process {ready.pid}"

    def _replace(self, worker: Worker, error: Exception) -> WorkerReport:
        self._ray.kill(worker.actor)
        self._last_death = _error_text(error)
        worker.deaths += 1
        worker.false_starts += not worker.ready
        worker.ready = False
        if worker.deaths < _DEATHS_IN_A_ROW and worker.false_starts < _FALSE_STARTS:
            fresh = self._new_worker()
            worker.actor, worker.call = fresh.actor, fresh.call
        return WorkerReport(worker, died=worker.where or "that had not begun")


def run_manifest(
    actors: Manifest,
    evaluation: Evaluation,
    samples: Sequence[Sample],
    execution: Mapping[str, Any],
) -> Manifest:
    """Return the run's manifest: models and prompts of an actor, everything else of the driver."""
    return replace(
        actors,
        set=SetDescription.of(evaluation.set_name, evaluation.located(), samples),
        arguments=tuple(sys.argv),
        execution=execution,
        environment=Environment.here(),
    )


def _check_same(expected: Manifest, actual: Manifest, whose: str) -> None:
    differing = differences(expected, actual)
    if differing:
        raise UsageError(
            f"{whose} has another configuration than this process; give every node the same "
            f"files and versions: {'; '.join(differing)}"
        )


def _error_text(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
