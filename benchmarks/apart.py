"""Work done in a process of its own, so that its memory is its alone; for benchmarks."""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from typing import Any


def apart(work: Callable[..., None], *args: Any) -> tuple[float, float]:
    """Seconds and most megabytes that ``work(*args)`` takes; ends this process where it fails."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_done, args=(sender, work, args))
    started = time.perf_counter()
    process.start()
    process.join()
    seconds = time.perf_counter() - started
    if process.exitcode:
        sys.exit(f"{work.__name__} failed; see above")
    return seconds, receiver.recv()


def _done(sender: Any, work: Callable[..., None], args: tuple[Any, ...]) -> None:
    work(*args)
    sender.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000)
