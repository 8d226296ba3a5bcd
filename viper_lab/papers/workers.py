"""A pool of worker processes for one reproduction, each with models of its own.

Python runs one thread at a time, so a process keeps little more than one core busy. What a process
works at alone is a group: everything of one part under one seed, whose cells share pictures and
programs. Who takes a group holds a lock on it to the end, so a group of a process that died can be
taken by another.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import Protocol

from viper.errors import EXIT_INTERRUPTED, StoreError
from viper.storage.files import WriterLock
from viper_lab.papers.cell_runner import Cell, CellRunner, slug
from viper_lab.papers.parts import Part
from viper_lab.papers.plan import Progress
from viper_lab.papers.result import Reproduction

# In the folder of a reproduction.
LOCKS = "locks"

# Cells, each with a part that it is asked about.
Cells = Sequence[tuple[Cell, Part]]

# How long a worker may take to end when it is asked to.
_END_S = 20


class PaperStudy(Protocol):
    """What is measured."""

    def cells(self) -> Cells:
        """Return every cell with each part it is asked about, once."""
        ...

    def reproduce(self, runner: CellRunner) -> Reproduction:
        """Answer everything that is not stored yet, and judge it."""
        ...


class WorkerJob(Protocol):
    """What each process does; it is pickled."""

    def runner(self) -> AbstractContextManager[CellRunner]:
        """Open a runner of this process's own."""
        ...

    def study(self, runner: CellRunner) -> PaperStudy: ...


@dataclass(frozen=True)
class Group:
    """Cells that are asked about one part under one seed."""

    part: Part
    seed: int
    cells: tuple[Cell, ...]


def groups_of(runner: CellRunner, cells: Cells) -> list[Group]:
    """Return the groups of some cells, the longest first, so that the last ones are short."""
    by_part: dict[str, tuple[Part, list[Cell]]] = {}
    for cell, part in cells:
        by_part.setdefault(part.name, (part, []))[1].append(cell)
    seeds = runner.scale.seeds
    groups = [Group(part, seed, tuple(own)) for part, own in by_part.values() for seed in seeds]

    def answers(group: Group) -> int:
        return sum(runner.step(cell, group.part, group.seed).answers for cell in group.cells)

    return sorted(groups, key=answers, reverse=True)


def share(runner: CellRunner, groups: Iterable[Group], claims: Claims) -> None:
    """Answer one group after another, as long as there is one that nobody else works at."""
    for group in groups:
        if claims.take(group):
            for cell in group.cells:
                runner.results(cell, group.part, group.seed)


class Claims:
    """Which groups are taken, by locks on files in a folder that processes share; close it.

    Args:
        folder: is made if need be.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: list[WriterLock] = []

    def take(self, group: Group) -> bool:
        """Take the group, if it is free; it is this process's from now on."""
        self._folder.mkdir(parents=True, exist_ok=True)
        place = self._folder / f"{slug(f'{group.part.name} {group.seed}')}.lock"
        try:
            self._held.append(WriterLock(place, "a group"))
        except StoreError:
            return False
        return True

    def close(self) -> None:
        """Give everything back."""
        while self._held:
            self._held.pop().release()


def answer_together(
    job: WorkerJob, runner: CellRunner, cells: Cells, progress: Progress, processes: int
) -> None:
    """Answer what is not stored yet, with as many processes; tells the progress of it."""
    runner.tell = progress.tell
    groups = groups_of(runner, cells)
    others = min(processes, len(groups)) - 1 if progress.plan.missing else 0
    with workers(others, job, progress) as wait, closing(Claims(runner.folder / LOCKS)) as claims:
        share(runner, groups, claims)
        wait()


@contextmanager
def workers(count: int, job: WorkerJob, progress: Progress) -> Iterator[Callable[[], None]]:
    """Run that many further processes while the block runs; they end with it, whatever happens.

    Yields a function that waits until all have ended by themselves; one that failed has left its
    answers to others.
    """
    spawning = get_context("spawn")
    pipes = [spawning.Pipe(duplex=False) for _ in range(count)]
    processes = [spawning.Process(target=_work, args=(job, sender)) for _, sender in pipes]
    listeners = [
        Thread(target=_listen, args=(receiver, progress), daemon=True) for receiver, _ in pipes
    ]

    def wait() -> None:
        for listener in listeners:
            listener.join()
        for process in processes:
            process.join()

    started = []
    try:
        for process, listener, (_, sender) in zip(processes, listeners, pipes, strict=True):
            process.start()
            started.append(process)
            sender.close()  # the worker's copy is the last: its end is the end of the pipe
            listener.start()
        yield wait
    finally:
        for process in started:
            process.terminate()
        deadline = time.monotonic() + _END_S
        for process in started:
            process.join(max(0.1, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()


def _work(job: WorkerJob, sender: Connection) -> None:
    """Answer what no other process answers, and tell who started this one."""
    # In a session of its own: Ctrl-C is for who started it, who then ends it.
    os.setsid()
    os.dup2(2, 1)  # what a library prints; standard output is the report's
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    Thread(target=_end_with_starter, daemon=True).start()
    try:
        with job.runner() as runner, closing(Claims(runner.folder / LOCKS)) as claims:
            runner.tell = lambda step, mean: sender.send((step, mean))
            share(runner, groups_of(runner, job.study(runner).cells()), claims)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


def _end_with_starter() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    _thread.interrupt_main()


def _listen(receiver: Connection, progress: Progress) -> None:
    with suppress(EOFError, OSError):
        while True:
            progress.tell(*receiver.recv())
