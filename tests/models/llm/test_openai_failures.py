"""What an endpoint's failures become: retries, or one error in plain words."""

import threading
from typing import Literal

import pytest
from openai_bench import Connect, Serve
from openai_server import GIVE_UP_S, HELD, Answer, completion, refusal

from viper.errors import ModelError, UsageError
from viper.models.llm.protocol import Sampling


@pytest.mark.parametrize(
    "bad",
    [
        refusal(429),
        refusal(408),
        refusal(500),
        refusal(503),
        Answer("upstream is away", 502, {"Content-Type": "text/html"}),
        Answer("<html>hello</html>"),
        Answer('{"choices": [{"text": "tr', headers={"Content-Type": "application/json"}),
        Answer(""),
        Answer("[]"),
        Answer('{"choices": []}'),
        Answer('{"choices": [{"index": 0}]}'),
        Answer('{"choices": ["text"]}'),
        Answer('{"error": {"message": "overloaded"}}'),
        Answer(completion(["x" * 500]).body, cut=100),
        Answer(completion(["x" * 500]).body, cut=0),
    ],
    ids=lambda answer: f"{answer.status}-{answer.body[:20]}-{answer.cut}",
)
def test_what_passes_is_retried_and_then_answered(
    bad: Answer, serve: Serve, connect: Connect, slept: list[float]
) -> None:
    server = serve([bad, bad])
    llm = connect(server)
    assert llm.generate(["p"], Sampling())[0][0].text == "said p"
    assert len(server.received) == 3
    assert len(slept) == 2
    assert (llm.usage.requests, llm.usage.retries) == (3, 2)


@pytest.mark.parametrize("status", [400, 404, 409, 422])
def test_a_refused_request_is_not_retried(
    status: int, serve: Serve, connect: Connect, slept: list[float]
) -> None:
    server = serve(otherwise=lambda request: refusal(status, "n must be 1"))
    with pytest.raises(
        ModelError, match=rf"refused the request \(status {status}\): .*n must be 1"
    ):
        connect(server).generate(["p"], Sampling())
    assert (len(server.received), slept) == (1, [])


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_names_the_variable_and_is_not_retried(
    status: int, serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRITER_KEY", "another")
    server = serve(otherwise=lambda request: refusal(status))
    with pytest.raises(ModelError, match="set the environment variable WRITER_KEY"):
        connect(server, key_env="WRITER_KEY").generate(["p"], Sampling())
    (request,) = server.received
    assert request.headers["authorization"] == "Bearer another"


def test_retries_are_bounded(serve: Serve, connect: Connect, slept: list[float]) -> None:
    server = serve(otherwise=lambda request: refusal(500, "boom"))
    with pytest.raises(ModelError, match="status 500: .*boom; given up after 4 tries"):
        connect(server).generate(["p"], Sampling())
    assert (len(server.received), len(slept)) == (4, 3)


def test_what_cannot_be_read_is_a_model_error_in_the_end(serve: Serve, connect: Connect) -> None:
    server = serve(otherwise=lambda request: Answer("<html>login</html>"))
    with pytest.raises(ModelError, match="expected JSON, got '<html>login"):
        connect(server, max_retries=1).generate(["p"], Sampling())
    assert len(server.received) == 2


def test_retry_after_is_honoured(serve: Serve, connect: Connect, slept: list[float]) -> None:
    server = serve([refusal(429, headers={"Retry-After": "7"})])
    connect(server).generate(["p"], Sampling())
    assert len(slept) == 1
    assert 7.0 <= slept[0] <= 7.5


def test_a_retry_after_of_an_hour_is_an_error_now(
    serve: Serve, connect: Connect, slept: list[float]
) -> None:
    server = serve(otherwise=lambda request: refusal(429, headers={"Retry-After": "3600"}))
    with pytest.raises(ModelError, match="asks to wait 3600 s"):
        connect(server).generate(["p"], Sampling())
    assert (len(server.received), slept) == (1, [])


def test_a_slow_answer_is_a_time_out_and_retried(serve: Serve, connect: Connect) -> None:
    server = serve([HELD])
    llm = connect(server, timeout_s=0.3)
    assert llm.generate(["p"], Sampling())[0][0].text == "said p"
    with pytest.raises(ModelError, match="no complete answer within 0.3 s"):
        connect(serve([HELD, HELD]), timeout_s=0.3, max_retries=1).generate(["p"], Sampling())


@pytest.mark.parametrize("part", ["headers", "body"])
def test_an_answer_that_drips_is_given_up_and_its_connection_closed(
    part: Literal["headers", "body"], serve: Serve, connect: Connect
) -> None:
    dripping = Answer("", drip=part)
    server = serve([dripping])
    llm = connect(server, timeout_s=0.3)
    assert llm.generate(["p"], Sampling())[0][0].text == "said p"
    assert (llm.usage.requests, llm.usage.retries) == (2, 1)
    assert server.left.wait(GIVE_UP_S)
    with pytest.raises(ModelError, match="no complete answer within 0.3 s"):
        connect(serve([dripping] * 2), timeout_s=0.3, max_retries=1).generate(["p"], Sampling())


def test_answers_that_drip_side_by_side_leave_no_thread_behind(
    serve: Serve, connect: Connect
) -> None:
    before = set(threading.enumerate())
    server = serve(otherwise=lambda request: Answer("", drip="body"))
    llm = connect(server, timeout_s=0.3, max_retries=0, concurrency=4)
    attempts = llm.generate_each([f"p{i}" for i in range(4)], Sampling())
    assert all(isinstance(attempt, ModelError) for attempt in attempts)
    llm.close()
    server.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(GIVE_UP_S)
    assert set(threading.enumerate()) <= before


def test_nobody_there_is_a_model_error(serve: Serve, connect: Connect, slept: list[float]) -> None:
    server = serve()
    llm = connect(server)
    server.close()
    with pytest.raises(ModelError, match="no connection"):
        llm.generate(["p"], Sampling())
    assert len(slept) == 3


@pytest.mark.parametrize("fields", [{"code": "context_length_exceeded"}, {"param": "input_tokens"}])
def test_a_prompt_too_long_for_the_server_is_a_usage_error(
    fields: dict[str, str], serve: Serve, connect: Connect
) -> None:
    server = serve([refusal(400, **fields)])
    with pytest.raises(UsageError, match="fills the whole context"):
        connect(server).generate(["p"], Sampling())
