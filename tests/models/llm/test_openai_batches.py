"""Several prompts at once: side by side, in order, each with its own end."""

import signal
import threading
from pathlib import Path

import pytest
from openai_bench import Connect, Serve
from openai_server import HELD, Answer, Behaviour, Received, refusal, said

from viper.errors import ModelError, UsageError
from viper.models.llm.protocol import Sampling
from viper.models.llm.wrapped import Attempt, CachedLLM, DeferredLLM


def _texts(attempt: Attempt) -> list[str]:
    assert isinstance(attempt, list), attempt
    return [item.text for item in attempt]


def test_prompts_go_side_by_side_and_no_more_than_allowed(serve: Serve, connect: Connect) -> None:
    meet = threading.Barrier(3)

    def together(request: Received) -> Answer:
        meet.wait(20)
        return said()(request)

    server = serve(otherwise=together)
    prompts = [f"p{i}" for i in range(9)]
    found = connect(server, concurrency=3).generate(prompts, Sampling())
    assert [item[0].text for item in found] == [f"said p{i}" for i in range(9)]
    assert server.peak == 3


def test_order_is_kept_when_the_first_answer_comes_last(serve: Serve, connect: Connect) -> None:
    others = threading.Semaphore(0)

    def first_last(request: Received) -> Answer:
        if request.prompt == "p0":
            for _ in range(3):
                assert others.acquire(timeout=20)
        else:
            others.release()
        return said()(request)

    found = connect(serve(otherwise=first_last), concurrency=4).generate(
        ["p0", "p1", "p2", "p3"], Sampling()
    )
    assert [item[0].text for item in found] == ["said p0", "said p1", "said p2", "said p3"]


def _refusing(*prompts: str) -> Behaviour:
    """Refuses these prompts for good and answers all others."""
    return lambda request: (
        refusal(400, f"no {request.prompt}") if request.prompt in prompts else said()(request)
    )


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_refused_prompt_takes_no_answer_of_another_with_it(
    concurrency: int, serve: Serve, connect: Connect
) -> None:
    llm = connect(serve(otherwise=_refusing("b", "d")), concurrency=concurrency)
    one, two, three, four = llm.generate_each(["a", "b", "c", "d"], Sampling())
    assert (_texts(one), _texts(three)) == (["said a"], ["said c"])
    assert isinstance(two, ModelError) and "no b" in str(two)
    assert isinstance(four, ModelError) and "no d" in str(four)


def test_a_prompt_too_long_is_the_error_of_that_prompt_alone(
    serve: Serve, connect: Connect, model_folder: Path
) -> None:
    llm = connect(serve(), tokenizer=model_folder, max_context=40)
    long, short = llm.generate_each(["the red cube " * 20, "the cube"], Sampling())
    assert isinstance(long, UsageError) and "fills the whole context" in str(long)
    assert _texts(short) == ["said the cube"]


@pytest.mark.parametrize("deferred", [False, True])
def test_what_was_answered_beside_a_refused_prompt_is_kept(
    deferred: bool, serve: Serve, connect: Connect
) -> None:
    server = serve(otherwise=_refusing("b"))
    endpoint = connect(server)
    llm = CachedLLM(DeferredLLM(lambda: endpoint) if deferred else endpoint)
    with pytest.raises(ModelError, match="no b"):
        llm.generate(["a", "b", "c"], Sampling())
    assert sorted(request.prompt for request in server.received) == ["a", "b", "c"]
    kept = llm.generate(["a", "c"], Sampling())
    assert [_texts(found) for found in kept] == [["said a"], ["said c"]]
    assert len(server.received) == 3
    one, two, again = llm.generate_each(["a", "b", "b"], Sampling())
    assert _texts(one) == ["said a"]
    assert isinstance(two, ModelError) and again is two
    assert [request.prompt for request in server.received[3:]] == ["b"]


def test_generate_ends_at_the_first_failure_and_sends_nothing_further(
    serve: Serve, connect: Connect
) -> None:
    server = serve(otherwise=lambda request: refusal(400))
    with pytest.raises(ModelError, match="refused"):
        connect(server, concurrency=2).generate([f"p{i}" for i in range(50)], Sampling())
    assert len(server.received) < 10


@pytest.mark.parametrize("prompts", [1, 4])
@pytest.mark.parametrize("method", ["generate", "generate_each"])
def test_an_interrupt_ends_it_at_once(
    method: str, prompts: int, serve: Serve, connect: Connect
) -> None:
    arrived = threading.Semaphore(0)

    def hold(request: Received) -> Answer:
        arrived.release()
        return HELD

    def interrupt() -> None:
        for _ in range(min(prompts, 2)):
            assert arrived.acquire(timeout=20)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    server = serve(otherwise=hold)
    llm = connect(server, concurrency=2)
    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        getattr(llm, method)([f"p{i}" for i in range(prompts)], Sampling())
    assert not server.closing.is_set()
    assert len(server.received) == min(prompts, 2)
