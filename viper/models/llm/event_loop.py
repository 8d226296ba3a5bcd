"""An event loop in a thread of its own, and the models that answer their prompts there.

Threads wait for asynchronous work (:class:`EventLoop`). Callers may have event loops of their own,
and asynchronous work can be cancelled anywhere. A :class:`ConcurrentLLM` answers all prompts of a
call side by side.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

from viper.errors import ViperError
from viper.models.llm.messages import Prompt
from viper.models.llm.protocol import Completion, Sampling, check_running
from viper.models.llm.wrapped import Attempt

Result = TypeVar("Result")
AtEnd = Callable[[], Awaitable[object]]

# Seconds between looks at the end of the query: well below the second that users wait for it.
_POLL_S = 0.1


class EventLoop:
    """Runs asynchronous work of many threads; thread-safe.

    The thread starts with the first work, so creating a loop costs nothing. It ends with
    :meth:`close`, or when this object is garbage collected.

    Args:
        name: the thread's name.
        closed: the error's text for work that comes after the end.
        at_end: awaited when all work is cancelled. It must not refer to this object or its owner,
            or they would never be garbage collected.
    """

    def __init__(self, name: str, closed: str, at_end: AtEnd | None = None) -> None:
        self._name, self._closed_text, self._at_end = name, closed, at_end
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._end: Callable[[], object] = lambda: None
        self._closed = False

    def run(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Return the result of asynchronous work.

        An interrupt (Ctrl-C) cancels it, and so does the end of the query that it is for.

        Raises:
            CancelledError: the query was cancelled.
            RuntimeError: the loop is closed, before or meanwhile.
        """
        # The lock keeps work away from a loop that is ending, where it would wait for ever.
        with self._lock:
            if self._closed:
                raise RuntimeError(self._closed_text)
            if self._loop is None:
                loop, over = asyncio.new_event_loop(), asyncio.Event()
                # The thread must not refer to this object, or it would never be garbage collected.
                self._thread = threading.Thread(
                    target=_serve, args=(loop, over, self._at_end), name=self._name, daemon=True
                )
                self._thread.start()
                finalizer = weakref.finalize(self, loop.call_soon_threadsafe, over.set)
                finalizer.atexit = False
                self._loop, self._end = loop, finalizer
            future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            while not concurrent.futures.wait([future], _POLL_S).done:
                check_running()
            return future.result()
        except concurrent.futures.CancelledError:
            raise RuntimeError(self._closed_text) from None
        finally:
            future.cancel()

    def close(self) -> None:
        """Cancel current work and end the thread; calling it again is harmless."""
        with self._lock:
            self._closed = True
            self._end()
        if self._thread is not None:
            self._thread.join()


class ConcurrentLLM:
    """Base of language models that answer many prompts at once.

    Args:
        loop: runs the work.
        most: maximum number of prompts of one call that are answered at once; None sets no limit.

    Attributes:
        concurrent: callers are served concurrently; nobody needs to gather their prompts.
    """

    concurrent = True

    def __init__(self, loop: EventLoop, most: int | None = None) -> None:
        self._loop, self._most = loop, most

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[list[Completion]]:
        """Return ``sampling.n`` completions for each prompt.

        The first prompt that fails ends the call; :meth:`generate_each` continues.

        Raises:
            PromptTooLongError: a prompt fills the whole context.
            UsageError: pictures for a model that takes none, or a prompt that the template rejects.
            ModelError: the model rejects a prompt or the sampling, or keeps failing.
        """
        return self._run_all(partial(self._complete, sampling), prompts)

    def generate_each(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Attempt]:
        """Return completions or an error for each prompt; a failure does not affect other prompts.

        Returns:
            In the order of the prompts, the completions or the error that ``generate`` would raise.
            If the model rejects everything, there are as many errors as prompts.
        """

        async def attempt(prompt: Prompt) -> Attempt:
            try:
                return await self._complete(sampling, prompt)
            except ViperError as error:
                return error

        return self._run_all(attempt, prompts)

    def _run_all(
        self, work: Callable[[Any], Coroutine[Any, Any, Result]], items: Sequence[Any]
    ) -> list[Result]:
        """Return the result of ``work`` for each item; the first failure cancels the others."""

        async def run_all() -> list[Result]:
            room = asyncio.Semaphore(self._most or len(items) or 1)

            async def one(item: Any) -> Result:
                async with room:
                    return await work(item)

            tasks = [asyncio.ensure_future(one(item)) for item in items]
            try:
                return await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()

        return self._loop.run(run_all)

    async def _complete(self, sampling: Sampling, prompt: Prompt) -> list[Completion]:
        raise NotImplementedError


def _serve(loop: asyncio.AbstractEventLoop, over: asyncio.Event, at_end: AtEnd | None) -> None:
    async def until_over() -> None:
        await over.wait()
        # Cancel current work before ending what it uses.
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if at_end is not None:
            await at_end()

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(until_over())
