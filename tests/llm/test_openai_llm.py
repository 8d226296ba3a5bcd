import json
import logging
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from openai_server import HELD, Answer, OpenAIServer, Received, completion, refusal, said

from viper.errors import MissingExtraError, ModelError, UsageError
from viper.llm.openai_llm import OpenAILLM
from viper.llm.protocol import LLM, Completion, Sampling

KEY = "sk-very-secret-0123456789"
WARM = Sampling(temperature=0.7, seed=11, max_tokens=40, stop=("\n\n", "##"), n=3)

Serve = Callable[..., OpenAIServer]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.fixture
def serve() -> Iterator[Serve]:
    started: list[OpenAIServer] = []

    def start(*arguments: Any, **options: Any) -> OpenAIServer:
        started.append(OpenAIServer(*arguments, **options))
        return started[-1]

    yield start
    for server in started:
        server.close()


@pytest.fixture
def slept() -> list[float]:
    """The waits before retries, which nobody sits through."""
    return []


@pytest.fixture
def connect(slept: list[float]) -> Callable[..., OpenAILLM]:
    def build(server: OpenAIServer, **options: Any) -> OpenAILLM:
        options = {"api": "completions", "max_retries": 3, "jitter_seed": 0, **options}
        return OpenAILLM("writer", base_url=server.url, sleep=slept.append, **options)

    return build


Connect = Callable[..., OpenAILLM]


# --- what is sent and what comes back


def test_completions_send_the_prompt_as_it_is(serve: Serve, connect: Connect) -> None:
    server = serve()
    llm = connect(server)
    assert isinstance(llm, LLM)
    assert llm.generate(["# query"], Sampling(max_tokens=5)) == [
        [Completion("said # query", 7, 3, "stop")]
    ]
    (request,) = server.received
    assert request.path == "/v1/completions"
    assert request.body == {
        "model": "writer",
        "prompt": "# query",
        "temperature": 0.0,
        "seed": 0,
        "n": 1,
        "max_tokens": 5,
    }


def test_chat_wraps_the_prompt_as_a_user_message(serve: Serve, connect: Connect) -> None:
    server = serve()
    assert connect(server, api="chat").generate(["hello"], Sampling())[0][0].text == "said hello"
    (request,) = server.received
    assert request.path == "/v1/chat/completions"
    assert request.body["messages"] == [{"role": "user", "content": "hello"}]
    assert "prompt" not in request.body


def test_all_sampling_settings_are_passed_and_choices_come_in_order(
    serve: Serve, connect: Connect
) -> None:
    server = serve(otherwise=said(lambda request, index: f"text {index}"))
    found = connect(server).generate(["p"], WARM)[0]
    assert [item.text for item in found] == ["text 0", "text 1", "text 2"]
    assert [item.completion_tokens for item in found] == [1, 1, 1]
    body = server.received[0].body
    sent = {name: body[name] for name in ("n", "seed", "stop", "temperature", "max_tokens")}
    assert sent == {
        "n": 3,
        "seed": 11,
        "stop": ["\n\n", "##"],
        "temperature": 0.7,
        "max_tokens": 40,
    }


def test_a_server_that_gives_fewer_choices_is_asked_for_the_rest_with_other_seeds(
    serve: Serve, connect: Connect
) -> None:
    by_seed = said(lambda request, index: f"seed {request.body['seed'] + index}", most=2)
    server = serve(otherwise=by_seed)
    found = connect(server).generate(["p"], WARM)[0]
    assert [item.text for item in found] == ["seed 11", "seed 12", "seed 13"]
    assert [request.body["n"] for request in server.received] == [3, 1]


def test_a_server_that_gives_too_many_choices_is_cut_short(serve: Serve, connect: Connect) -> None:
    llm = connect(serve([completion(["a", "b", "c", "d"])]))
    assert [item.text for item in llm.generate(["p"], WARM)[0]] == ["a", "b", "c"]


def test_a_greedy_text_is_asked_for_once(serve: Serve, connect: Connect) -> None:
    server = serve()
    found = connect(server).generate(["p"], Sampling(n=3))[0]
    assert [item.text for item in found] == ["said p"] * 3
    assert [request.body["n"] for request in server.received] == [1]


def test_a_stop_string_that_the_server_lets_through_is_cut_here(
    serve: Serve, connect: Connect
) -> None:
    llm = connect(serve([completion(["one##two"])]))
    assert llm.generate(["p"], Sampling(stop=("##",)))[0][0].text == "one"


def test_fields_can_be_added_and_left_out_and_then_the_name_differs(
    serve: Serve, connect: Connect
) -> None:
    server = serve()
    plain = connect(server)
    other = connect(server, extra={"top_k": 3}, omit=["temperature"])
    other.generate(["p"], Sampling())
    assert server.received[0].body["top_k"] == 3
    assert "temperature" not in server.received[0].body
    names = {plain.model_id, other.model_id, connect(server, api="chat").model_id}
    assert len(names) == 3


def test_a_text_cut_off_by_the_limit_says_so(serve: Serve, connect: Connect) -> None:
    body = completion(["half"]).body.replace('"stop"', '"length"')
    llm = connect(serve([Answer(body)]))
    assert llm.generate(["p"], Sampling())[0][0].finish_reason == "length"


# --- failures


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
    with pytest.raises(ModelError, match="no answer within 0.3 s"):
        connect(serve([HELD, HELD]), timeout_s=0.3, max_retries=1).generate(["p"], Sampling())


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


# --- the key


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


# --- where to


def test_the_address_comes_from_the_profile_then_the_environment(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = serve(), serve()
    monkeypatch.setenv("OPENAI_BASE_URL", here.url)
    OpenAILLM("m").generate(["p"], Sampling())
    OpenAILLM("m", base_url=there.url).generate(["p"], Sampling())
    assert (len(here.received), len(there.received)) == (1, 1)


@pytest.mark.parametrize(
    "address",
    ["localhost:8000", "ftp://host/v1", "http://", "http://me:pass@host/v1", "http://h:x"],
)
def test_an_address_that_is_none_or_holds_a_password_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="base_url is no plain address") as caught:
        OpenAILLM("m", base_url=address)
    assert "pass@" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"api": "responses"}, "known: chat, completions"),
        ({"timeout_s": 0}, "timeout_s is 0"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"max_retries": -1}, "max_retries is -1"),
        ({"price_per_million": {"prompt": 1.0}}, "price_per_million must be"),
        ({"price_per_million": {"prompt": -1, "completion": 2}}, "price_per_million must be"),
        ({"tokenizer": "nowhere"}, "no tokenizer in the folder nowhere"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        OpenAILLM("m", base_url="http://localhost:1/v1", **options)


def test_without_the_package_the_pip_line_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtraError, match=r'pip install "viper-reasoner\[openai\]"'):
        OpenAILLM("m")


# --- counting


def test_usage_and_cost_are_counted(serve: Serve, connect: Connect) -> None:
    server = serve([refusal(500)], otherwise=said(usage=(1000, 200)))
    llm = connect(server, price_per_million={"prompt": 2.0, "completion": 10.0})
    before = llm.usage
    llm.generate(["a", "b", "c"], Sampling())
    usage = llm.usage
    assert (usage.requests, usage.retries) == (4, 1)
    assert (usage.prompt_tokens, usage.completion_tokens) == (3000, 600)
    assert usage.cost_usd == pytest.approx(0.012)
    assert before.requests == 0


def test_without_a_price_the_cost_is_not_known(serve: Serve, connect: Connect) -> None:
    llm = connect(serve())
    llm.generate(["a"], Sampling())
    assert llm.usage.cost_usd is None


def test_a_server_that_counts_no_tokens_is_helped_out(serve: Serve, connect: Connect) -> None:
    server = serve(otherwise=said(lambda request, index: "12345", usage=None))
    found = connect(server).generate(["12345678"], Sampling())[0][0]
    assert (found.prompt_tokens, found.completion_tokens) == (2, 2)


def test_tokens_are_counted_by_a_local_tokenizer_and_keep_within_the_context(
    serve: Serve, connect: Connect, model_folder: Path
) -> None:
    server = serve()
    llm = connect(server, tokenizer=model_folder, max_context=20)
    letters = "x y z w"
    assert (llm.count_tokens(letters), connect(server).count_tokens(letters)) == (8, 2)
    llm.generate(["the red cube"], Sampling(max_tokens=50))
    prompt_tokens = llm.count_tokens("the red cube")
    assert 20 - prompt_tokens - 2 <= server.received[0].body["max_tokens"] <= 20 - prompt_tokens
    with pytest.raises(UsageError, match="fills the whole context"):
        llm.generate(["the red cube " * 20], Sampling())
    assert len(server.received) == 1


# --- side by side


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


def test_one_failure_ends_the_whole_and_nothing_further_is_sent(
    serve: Serve, connect: Connect
) -> None:
    server = serve(otherwise=lambda request: refusal(400))
    with pytest.raises(ModelError, match="refused"):
        connect(server, concurrency=2).generate([f"p{i}" for i in range(50)], Sampling())
    assert len(server.received) < 10


@pytest.mark.parametrize("prompts", [1, 4])
def test_an_interrupt_ends_it_at_once(prompts: int, serve: Serve, connect: Connect) -> None:
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
        llm.generate([f"p{i}" for i in range(prompts)], Sampling())
    assert not server.closing.is_set()
    assert len(server.received) == min(prompts, 2)


# --- scoring


def _echoing(request: Received) -> Answer:
    """Every word is a token; each is as likely as its length is short."""
    choices = []
    for index, text in enumerate(request.prompt):
        tokens = text.split(" ")
        values = [None, *(-float(len(token)) for token in tokens[1:])]
        choices.append(
            {
                "index": index,
                "text": text,
                "finish_reason": "length",
                "logprobs": {"tokens": tokens, "token_logprobs": values},
            }
        )
    return Answer(json.dumps({"choices": choices, "usage": {"prompt_tokens": 9}}))


def test_scores_are_means_over_what_follows_the_prompt(serve: Serve, connect: Connect) -> None:
    server = serve(otherwise=_echoing)
    llm = connect(server)
    assert llm.can_score
    assert llm.score("a prompt of words", [" red", " a cube"]) == [-3.0, -2.5]
    assert llm.score("a prompt", []) == []
    body = server.received[-1].body
    assert (body["echo"], body["max_tokens"]) == (True, 0)
    assert len(server.received) == 2


@pytest.mark.parametrize(
    "answer",
    [refusal(400, "echo is not supported"), completion(["a b"])],
    ids=["refused", "no likelihoods"],
)
def test_a_server_that_does_not_echo_cannot_score_and_is_asked_once(
    answer: Answer, serve: Serve, connect: Connect
) -> None:
    server = serve(otherwise=lambda request: answer)
    llm = connect(server)
    assert not llm.can_score
    with pytest.raises(UsageError, match="cannot score"):
        llm.score("p", ["q"])
    assert len(server.received) == 1


def test_chat_cannot_score_and_does_not_ask(serve: Serve, connect: Connect) -> None:
    server = serve()
    llm = connect(server, api="chat")
    assert not llm.can_score
    with pytest.raises(UsageError, match="cannot score"):
        llm.score("p", ["q"])
    assert server.received == []


def test_a_server_in_trouble_is_not_taken_for_one_that_cannot_score(
    serve: Serve, connect: Connect
) -> None:
    server = serve([refusal(500)] * 4, otherwise=_echoing)
    llm = connect(server)
    with pytest.raises(ModelError, match="status 500"):
        _ = llm.can_score
    assert llm.can_score
