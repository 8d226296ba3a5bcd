"""Does several slow things at once, at most so many, and can be interrupted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(
    work: Callable[[Item, threading.Event], Result], items: Sequence[Item], limit: int
) -> list[Result]:
    """What ``work`` gives for every item, in their order.

    The first failure, or an interrupt (Ctrl-C), ends the whole at once: nothing further
    is begun and what is under way is not waited for. That is why this is no executor of
    the standard library: those wait for their threads when the program ends.

    Args:
        work: gets an item, and an event that is set once its result is of no more use.
        limit: how many are done at once; 1 does them in the calling thread.

    Raises:
        Exception: what ``work`` raised first.
    """
    over = threading.Event()
    if limit == 1 or len(items) <= 1:
        return [work(item, over) for item in items]
    todo: SimpleQueue[tuple[int, Item]] = SimpleQueue()
    for numbered in enumerate(items):
        todo.put(numbered)
    done: SimpleQueue[tuple[int, Result] | BaseException] = SimpleQueue()

    def serve() -> None:
        while not over.is_set():
            try:
                index, item = todo.get_nowait()
            except Empty:
                return
            try:
                done.put((index, work(item, over)))
            except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
                done.put(error)
                return

    found: dict[int, Result] = {}
    try:
        for number in range(min(limit, len(items))):
            threading.Thread(target=serve, name=f"side-by-side-{number}", daemon=True).start()
        while len(found) < len(items):
            arrived = done.get()
            if isinstance(arrived, BaseException):
                raise arrived
            found[arrived[0]] = arrived[1]
    finally:
        over.set()
    return [found[index] for index in range(len(items))]
