"""Asynchronous requests that threads wait for."""

import asyncio
import gc
import threading
from collections.abc import Iterator
from random import Random

import pytest

from viper.models.llm.endpoint import Endpoint, UsageCounter
from viper.models.llm.openai_client import Client
from viper.models.llm.retry import Backoff

NOWHERE = Endpoint("http://127.0.0.1:9/v1", "NO_KEY", "no-key-needed")


def _client() -> Client:
    counter, random = UsageCounter(), Random(0)
    return Client(NOWHERE, 20, counter, backoff=Backoff(), random=random, sleep=asyncio.sleep)


@pytest.fixture
def client() -> Iterator[Client]:
    made = _client()
    yield made
    made.close()


def _loops() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "viper-openai"]


async def _doubled(value: int) -> int:
    await asyncio.sleep(0)
    return 2 * value


def test_many_threads_share_one_loop(client: Client) -> None:
    before = len(_loops())
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(client.run(lambda: _doubled(n))))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 2, 4, 6, 8, 10, 12, 14]
    assert len(_loops()) == before + 1


def test_an_error_of_the_work_is_raised_and_the_loop_goes_on(client: Client) -> None:
    async def failing() -> None:
        raise ValueError("off")

    with pytest.raises(ValueError, match="off"):
        client.run(failing)
    assert client.run(lambda: _doubled(4)) == 8


def test_closing_ends_what_is_under_way_and_nothing_is_done_afterwards(client: Client) -> None:
    begun = threading.Event()
    ended: list[BaseException] = []

    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    def wait() -> None:
        try:
            client.run(endless)
        except RuntimeError as error:
            ended.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert begun.wait(20)
    client.close()
    waiting.join()
    assert client._openai.is_closed()
    assert [str(error) for error in ended] == [
        "the connections are closed; nothing can be asked any more"
    ]
    with pytest.raises(RuntimeError, match="closed"):
        client.run(lambda: _doubled(1))


def test_the_thread_ends_when_nobody_needs_it_any_more() -> None:
    before = set(_loops())
    client = _client()
    connections = client._openai
    assert set(_loops()) == before
    assert client.run(lambda: _doubled(1)) == 2
    (thread,) = set(_loops()) - before
    del client
    gc.collect()
    thread.join(20)
    assert not thread.is_alive()
    assert connections.is_closed()
