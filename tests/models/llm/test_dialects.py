"""Servers of today answer the first request, or teach what they take by their first refusal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dialects import DIALECTS
from openai_bench import Connect, Serve
from openai_server import Answer, completion

from viper.errors import ModelError, PromptTooLongError
from viper.models.llm.capabilities import Capabilities, capabilities_of
from viper.models.llm.openai_llm import OpenAILLM
from viper.models.llm.protocol import Sampling

SAMPLING = Sampling(temperature=0.4, seed=7, max_tokens=64, stop=("END",))


def model_at(server: object, name: str, corrections: Path) -> OpenAILLM:
    llm = OpenAILLM(name, base_url=server.url)  # type: ignore[attr-defined]
    llm.remember(corrections)
    return llm


@pytest.mark.parametrize("name", DIALECTS)
def test_the_first_query_takes_one_extra_request_at_most_and_the_next_process_none(
    name: str, serve: Serve, tmp_path: Path
) -> None:
    dialect = DIALECTS[name]
    server = serve(otherwise=dialect.answer("four END of it"))
    for spare in (1, 0):
        server.received.clear()
        llm = model_at(server, dialect.model, tmp_path / "endpoints.json")
        ((reply,),) = llm.generate(["how many?"], SAMPLING)
        llm.close()
        assert reply.text == "four "  # a stop that the server does not know holds here
        assert len(server.received) <= 1 + spare
        body = server.received[-1].body
        assert {"max_tokens", "max_completion_tokens"} & body.keys()
        assert not body.keys() & set(dialect.refuses)


@pytest.mark.parametrize("name", [name for name in DIALECTS if name != "ollama"])
def test_a_prompt_that_is_too_long_is_told_from_other_refusals(
    name: str, serve: Serve, tmp_path: Path
) -> None:
    server = serve(otherwise=DIALECTS[name].answer("four"))
    llm = model_at(server, DIALECTS[name].model, tmp_path / "endpoints.json")
    with pytest.raises(PromptTooLongError, match="fills the whole context"):
        llm.generate(["exceed"], SAMPLING)
    llm.close()


def test_a_server_that_cuts_prompts_silently_is_told_of_once(
    serve: Serve, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    llm = connect(serve(otherwise=lambda request: completion(["4"], request.path, (900, 3))))
    for prompt in ("word " * 100, "word " * 4_000, "word " * 4_000):
        llm.generate([prompt], SAMPLING)
    assert [record.levelname for record in caplog.records if "cut" in record.message] == ["WARNING"]


def test_known_hosts_and_models_need_no_refusal() -> None:
    official = capabilities_of("https://api.openai.com/v1", "gpt-4.1-mini")
    assert (official.token_field, official.refused) == ("max_completion_tokens", ())
    assert "temperature" in capabilities_of("https://my.host/v1", "gpt-5-mini").refused
    google = "https://generativelanguage.googleapis.com/v1beta/openai/"
    gemini = capabilities_of(google, "gemini-3-flash")
    assert (gemini.refused, gemini.boxes) == (("seed",), "yx_1000")
    assert capabilities_of("http://localhost:8000/v1", "Qwen/Qwen2.5-VL-7B").boxes == "pixels"
    assert capabilities_of("http://localhost:8000/v1", "anything") == Capabilities()


@pytest.mark.parametrize(
    ("param", "message", "refused"),
    [
        ("temperature", "it is not supported", ("temperature",)),
        ("body.seed", "Extra inputs are not permitted", ("seed",)),
        ("temperature", "'temperature' must be at most 1, got 1.6", None),
        ("max_tokens", "max_tokens is too large: 5000; the model supports at most 4096", None),
        ("messages", "the stop token `stop` stands in a message", None),
        ("", 'Unknown name \\"seed\\": Cannot find field.', ("seed",)),
        ("", "Unsupported parameter: stop", ("stop",)),
        ("", "please stop this at once, n must be 1, temperature is high", None),
        ("messages", "the field 'messages' is wrong", None),
    ],
)
def test_only_a_field_that_is_named_as_one_is_left_out(
    param: str, message: str, refused: tuple[str, ...] | None
) -> None:
    sent = ("model", "messages", "temperature", "seed", "n", "stop", "max_tokens")
    learned = Capabilities().corrected(sent, param, message)
    assert (learned and learned.refused) == refused


def test_a_server_that_refuses_everything_is_not_asked_for_ever(
    serve: Serve, connect: Connect
) -> None:
    def refuse(request: object) -> Answer:
        names = [n for n in request.body if n.startswith("max_")]  # type: ignore[attr-defined]
        error = {"message": f"'{names[0]}' is not supported", "param": names[0]}
        return Answer(json.dumps({"error": error}), 400)

    server = serve(otherwise=refuse)
    with pytest.raises(Exception, match="refused the request"):
        connect(server, api="chat").generate(["p"], SAMPLING)
    assert len(server.received) <= 3


@pytest.mark.parametrize("text", ["", "{", "[]", '{"m": 3}', '{"m": {"refused": 1}}'])
def test_a_broken_file_of_corrections_counts_as_empty(
    text: str, serve: Serve, tmp_path: Path
) -> None:
    server, path = serve(), tmp_path / "endpoints.json"
    path.write_text(text, encoding="utf-8")
    llm = model_at(server, "m", path)
    assert llm.capabilities == Capabilities()
    llm.close()


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 1000, "prompt_tokens_details": {"cached_tokens": 900}},
        {"prompt_tokens": 1000, "prompt_cache_hit_tokens": 900},
        {"prompt_tokens": 1000, "cache_read_input_tokens": 900},
    ],
)
def test_cached_tokens_have_their_own_price(
    usage: dict[str, object], serve: Serve, connect: Connect
) -> None:
    body = json.loads(completion(["four"], usage=None).body)
    body["usage"] = {**usage, "completion_tokens": 10}
    server = serve([Answer(json.dumps(body))])
    llm = connect(server, price_per_million={"prompt": 2.0, "cached": 0.5, "completion": 8.0})
    ((reply,),) = llm.generate(["p"], SAMPLING)
    assert reply.cached_tokens == llm.usage.cached_tokens == 900
    expected = (100 * 2.0 + 900 * 0.5 + 10 * 8.0) / 1e6
    assert reply.cost_usd == pytest.approx(expected)
    assert llm.usage.cost_usd == pytest.approx(expected)


def test_nothing_is_kept_of_a_correction_that_does_not_help(serve: Serve, tmp_path: Path) -> None:
    error = {"message": "'seed' is not supported", "param": "seed"}

    def refuse(request: object) -> Answer:
        if "seed" in request.body:  # type: ignore[attr-defined]
            return Answer(json.dumps({"error": error}), 400)
        return Answer(json.dumps({"error": {"message": "the model is away"}}), 404)

    llm = model_at(serve(otherwise=refuse), "m", tmp_path / "endpoints.json")
    with pytest.raises(ModelError, match="away"):
        llm.generate(["p"], SAMPLING)
    assert llm.capabilities == Capabilities() and not (tmp_path / "endpoints.json").exists()
    llm.close()
