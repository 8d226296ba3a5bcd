"""Gathering of single requests of many threads into batches, without additional threads.

If the model is idle, a request is served at once. Otherwise it waits. When the model is free again,
the oldest waiting request is served together with all others of its kind. The load thus decides the
size of a batch, and nobody waits for a batch to fill.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from viper.errors import ModelError

# Returns the results of a batch of items of one kind, in their order.
Serve = Callable[[Hashable, list[Any]], Sequence[Any]]


class Gatherer:
    """Serves one model; safe to call from several threads.

    Args:
        serve: called by one thread at a time.
        most: maximum number of items in one batch.

    Attributes:
        batches: number of batches served.
        items: number of items in all of them.
    """

    def __init__(self, serve: Serve, most: int = 32) -> None:
        self._serve, self._most = serve, most
        self._waiting: deque[_Request] = deque()
        self._busy = False
        self._lock = threading.Lock()
        self.batches = self.items = 0

    def ask(self, kind: Hashable, item: Any) -> Any:
        """Return the result for an item, served together with others of its kind.

        Raises:
            Exception: the error of ``serve`` for this very item. A failed batch is served again in
                halves, so no item fails because of another. Every caller gets a separate exception
                object.
        """
        mine = _Request(kind, item)
        with self._lock:
            self._waiting.append(mine)
            first = not self._busy
            self._busy = True
        if not first:
            mine.turn.wait()
        if not mine.done:
            self._take_turn()
        if mine.error is not None:
            raise mine.error
        return mine.result

    def _take_turn(self) -> None:
        """Serve the oldest request, which is the caller's own, and all that fit with it."""
        with self._lock:
            kind = self._waiting[0].kind
            batch = [each for each in self._waiting if each.kind == kind][: self._most]
            for request in batch:
                self._waiting.remove(request)
            self.batches += 1
            self.items += len(batch)
        try:
            self._serve_batch(batch)
            _part_errors(batch)
        except BaseException:
            # An interrupt of this thread: put the requests of the others back.
            with self._lock:
                self._waiting.extendleft(each for each in reversed(batch[1:]) if not each.done)
            raise
        finally:
            with self._lock:
                if self._waiting:
                    self._waiting[0].turn.set()
                else:
                    self._busy = False
            for request in batch:
                if request.done:
                    request.turn.set()

    def _serve_batch(self, batch: list[_Request]) -> None:
        """Serve a batch at once, or its halves if it fails."""
        try:
            results = self._serve(batch[0].kind, [request.item for request in batch])
            if len(results) != len(batch):
                raise ModelError(f"{len(results)} results came back for {len(batch)} items")
        except Exception as error:  # noqa: BLE001 (boundary: handed to who asked)
            if len(batch) == 1:
                batch[0].error, batch[0].done = error, True
                return
        else:
            for request, result in zip(batch, results, strict=True):
                request.result, request.done = result, True
            return
        # After the handler, so that the error no longer holds the memory of the failed batch.
        middle = len(batch) // 2
        self._serve_batch(batch[:middle])
        self._serve_batch(batch[middle:])


@dataclass(eq=False)
class _Request:
    """One request. ``turn`` is set if it is done, or if its thread must serve the next batch."""

    kind: Hashable
    item: Any
    turn: threading.Event = field(default_factory=threading.Event)
    done: bool = False
    result: Any = None
    error: Exception | None = None


def _part_errors(batch: Sequence[_Request]) -> None:
    """Copy repeated exceptions, because raising one in several threads would mix up tracebacks."""
    ids: set[int] = set()
    for request in batch:
        error = request.error
        if error is not None and id(error) in ids:
            # Made by hand, because the class need not be callable with the error's ``args``.
            twin = type(error).__new__(type(error), *error.args)
            twin.args, twin.__cause__ = error.args, error.__cause__
            vars(twin).update(vars(error))
            request.error = twin.with_traceback(error.__traceback__)
        ids.add(id(request.error))
