"""Opens the actors of ``--engine ray`` for the commands that answer many items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TypeVar

from viper.commands.options import ProfileChoice
from viper.commands.run_options import RayOptions
from viper.commands.terminal import status, warn
from viper.evaluate.engines.ray import Facts, RayEngine, WorkerPool
from viper.evaluate.engines.ray_actor import ActorSettings
from viper.evaluate.engines.ray_cluster import Share, connected, local_cpus, share_of
from viper.evaluate.engines.sample_runner import Engine, Work
from viper.threads import thread_count


@contextmanager
def opened_pool(
    work: Callable[[], Work],
    options: RayOptions,
    threads: int | None,
    differing: Callable[[Facts, Facts], Sequence[str]],
) -> Iterator[tuple[WorkerPool, Share]]:
    """Yield the actors and the share of each; they are killed if the block ends by an exception.

    Args:
        work: see :class:`viper.evaluate.engines.ray_actor.ActorSettings`.
        threads: of the models of an actor; None takes its processors.
        differing: see :class:`viper.evaluate.engines.ray.WorkerPool`.

    Raises:
        UsageError, ModelError: Ray is not running, or has no room.
    """
    actors, cpus = options.actors, options.cpus_per_actor
    with connected(options.ray_address, local_cpus(actors, cpus)) as nodes:
        share = share_of(nodes, actors, cpus, options.gpus_per_actor)
        count = thread_count(threads or max(1, int(share.cpus)))
        settings = ActorSettings(work, str(Path.cwd()), count, bool(share.gpus))
        pool = WorkerPool(settings, share, actors, differing, warn)
        try:
            yield pool, share
        except BaseException:
            pool.kill()
            raise
        pool.close()


def differing_facts(expected: Facts, actual: Facts) -> list[str]:
    """Return the names of the facts that differ."""
    return [name for name in expected if expected[name] != actual.get(name)]


@contextmanager
def opened_engine(
    there: Callable[[], Work],
    options: RayOptions,
    threads: int | None,
    here: Work,
    differing: Callable[[Facts, Facts], Sequence[str]] = differing_facts,
) -> Iterator[Engine]:
    """Yield an engine of actors if the options ask for Ray, else that of this process.

    Args:
        there: makes the work of an actor, whose facts may not contradict those ``here``.
        threads, differing: of :func:`opened_pool`.
    """
    if options.engine == "local":
        yield here.engine
        return
    with opened_pool(there, options, threads, differing) as (pool, _):
        with status("starting actors"):
            pool.expect(here.facts)
        yield RayEngine(pool, options.workers, whole=not here.items)


Choice = TypeVar("Choice", bound=ProfileChoice)


def choice_of(kind: type[Choice], options: Choice) -> Choice:
    """Return the options of a kind alone: others may hold a password, which no actor needs."""
    return kind(**{one.name: getattr(options, one.name) for one in fields(kind)})
