"""Asynchronous work that threads wait for."""

import asyncio
import gc
import threading
from collections.abc import Iterator

import pytest

from viper.llm.loop_thread import LoopThread


class _Resource:
    """Notes in which thread it was let go of."""

    def __init__(self) -> None:
        self.left = threading.Event()
        self.left_in: str | None = None

    async def close(self) -> None:
        self.left_in = threading.current_thread().name
        self.left.set()


@pytest.fixture
def resource() -> _Resource:
    return _Resource()


@pytest.fixture
def loop(resource: _Resource) -> Iterator[LoopThread]:
    made = LoopThread(resource.close)
    yield made
    made.close()


def _loops() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "viper-loop"]


async def _doubled(value: int) -> int:
    await asyncio.sleep(0)
    return 2 * value


def test_many_threads_share_one_loop(loop: LoopThread) -> None:
    before = len(_loops())
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(loop.result(lambda: _doubled(n), 20)))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 2, 4, 6, 8, 10, 12, 14]
    assert len(_loops()) == before + 1


def test_what_takes_too_long_is_cancelled_and_the_loop_goes_on(loop: LoopThread) -> None:
    cancelled = threading.Event()

    async def endless() -> None:
        try:
            while True:
                await asyncio.sleep(0.001)
        finally:
            cancelled.set()

    with pytest.raises(TimeoutError):
        loop.result(endless, 0.05)
    assert cancelled.is_set()
    assert loop.result(lambda: _doubled(4), 20) == 8


def test_an_error_of_the_work_is_raised(loop: LoopThread) -> None:
    async def failing() -> None:
        raise ValueError("off")

    with pytest.raises(ValueError, match="off"):
        loop.result(failing, 20)


def test_closing_ends_what_is_under_way_and_nothing_is_done_afterwards(
    loop: LoopThread, resource: _Resource
) -> None:
    begun = threading.Event()
    ended: list[BaseException] = []

    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    def wait() -> None:
        try:
            loop.result(endless, 20)
        except RuntimeError as error:
            ended.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert begun.wait(20)
    loop.close()
    waiting.join()
    assert resource.left_in == "viper-loop"
    assert [str(error) for error in ended] == [
        "the connections are closed; nothing can be asked any more"
    ]
    with pytest.raises(RuntimeError, match="closed"):
        loop.result(lambda: _doubled(1), 20)


def test_the_thread_ends_when_nobody_needs_it_any_more(resource: _Resource) -> None:
    before = set(_loops())
    loop = LoopThread(resource.close)
    assert set(_loops()) == before
    assert loop.result(lambda: _doubled(1), 20) == 2
    (thread,) = set(_loops()) - before
    del loop
    gc.collect()
    thread.join(20)
    assert not thread.is_alive()
    assert resource.left.is_set()
