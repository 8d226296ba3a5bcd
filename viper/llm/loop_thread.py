"""Lets threads wait for asynchronous work, within a time that bounds all of it.

The time limit of a synchronous HTTP client bounds each read, so that a server which sends a
byte now and then is never late. Asynchronous work can be given up wherever it stands.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from typing import TypeVar

Result = TypeVar("Result")
AtEnd = Callable[[], Awaitable[None]]

_CLOSED = "the connections are closed; nothing can be asked any more"


class LoopThread:
    """An event loop in one thread of its own; thread-safe.

    The thread begins with the first work, so that making one costs nothing, and ends with
    :meth:`close` or when nobody refers to this object any more.

    Args:
        at_end: called in the loop before it ends; it lets go of what the work used.
    """

    def __init__(self, at_end: AtEnd) -> None:
        self._at_end = at_end
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tell_end: Callable[[], object] = lambda: None
        self._closed = False

    def result(self, work: Callable[[], Awaitable[Result]], limit_s: float) -> Result:
        """What the work returns; an interrupt (Ctrl-C) cancels it.

        Args:
            limit_s: seconds it may take from beginning to end.

        Raises:
            TimeoutError: it took longer, and was cancelled.
            RuntimeError: closed, before or meanwhile.
        """

        async def bounded() -> Result:
            async with asyncio.timeout(limit_s):
                return await work()

        # Under the lock no work is handed to a loop that was told to end: it would wait for ever.
        with self._lock:
            loop = self._running()
            future = asyncio.run_coroutine_threadsafe(bounded(), loop)
        try:
            return future.result()
        except CancelledError:
            raise RuntimeError(_CLOSED) from None
        finally:
            future.cancel()

    def close(self) -> None:
        """Cancels what is under way and waits for the thread to end; may be repeated."""
        with self._lock:
            self._closed = True
            self._tell_end()
        if self._thread is not None:
            self._thread.join()

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._closed:
            raise RuntimeError(_CLOSED)
        if self._loop is None:
            loop, over = asyncio.new_event_loop(), asyncio.Event()
            # The thread must not refer to this object, which then would never be let go of.
            self._thread = threading.Thread(
                target=_serve, args=(loop, over, self._at_end), name="viper-loop", daemon=True
            )
            self._thread.start()
            finalizer = weakref.finalize(self, loop.call_soon_threadsafe, over.set)
            finalizer.atexit = False
            self._loop, self._tell_end = loop, finalizer
        return self._loop


def _serve(loop: asyncio.AbstractEventLoop, over: asyncio.Event, at_end: AtEnd) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(_until(over, at_end))


async def _until(over: asyncio.Event, at_end: AtEnd) -> None:
    await over.wait()
    # Connections under way are not closed under those who use them.
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await at_end()
