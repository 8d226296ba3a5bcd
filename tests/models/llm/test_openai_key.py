"""The key goes to the endpoint and nowhere else."""

import logging
import traceback

import pytest
from openai_bench import KEY, Connect, Serve
from openai_server import Answer, refusal

from viper.errors import ModelError, UsageError
from viper.models.llm.openai_llm import OpenAILLM
from viper.models.llm.protocol import Sampling

pytestmark = pytest.mark.usefixtures("environment")


@pytest.mark.parametrize(
    "leak",
    [
        refusal(400, f"bad key {KEY}"),
        refusal(401, f"Incorrect API key provided: {KEY}"),
        refusal(500, "x" * 190 + KEY),
        Answer("y" * 70 + KEY),
        Answer(f'{{"choices": "{KEY}"}}'),
    ],
    ids=lambda answer: f"{answer.status}-{answer.body[:9]}",
)
def test_the_key_is_sent_and_shown_nowhere(
    leak: Answer, serve: Serve, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = serve(otherwise=lambda request: leak)
    llm = connect(server, max_retries=1)
    with pytest.raises(ModelError) as caught:
        llm.generate(["p"], Sampling())
    assert server.received[0].headers["authorization"] == f"Bearer {KEY}"
    shown = "".join(traceback.format_exception(caught.value))
    for text in (shown, repr(caught.value), caplog.text, repr(llm), repr(vars(llm)), llm.model_id):
        assert KEY[:8] not in text
    assert caplog.records


@pytest.mark.parametrize("key", ["EMPTY", KEY])
def test_an_answer_that_holds_the_key_comes_as_it_is(
    key: str, serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    assert connect(serve()).generate([f"set {key}"], Sampling())[0][0].text == f"said set {key}"


def test_a_key_too_short_to_be_secret_is_left_in_errors(
    serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "EMPTY")
    server = serve([refusal(400, "the prompt is EMPTY")])
    with pytest.raises(ModelError, match="the prompt is EMPTY"):
        connect(server).generate(["p"], Sampling())


def test_local_endpoints_need_no_key(
    serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    server = serve()
    assert connect(server).generate(["p"], Sampling())[0][0].text == "said p"


def test_openai_s_own_endpoint_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(UsageError, match="OPENAI_API_KEY is empty"):
        OpenAILLM("gpt")


def test_a_key_that_no_header_can_hold_is_refused_without_showing_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n{KEY}")
    with pytest.raises(UsageError, match="characters that no key has") as caught:
        OpenAILLM("gpt")
    assert KEY not in str(caught.value)
