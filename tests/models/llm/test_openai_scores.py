"""Likelihoods, from endpoints that echo a prompt with them."""

import json

import pytest
from openai_bench import Connect, Serve
from openai_server import Answer, Received, completion, refusal

from viper.errors import ModelError, UsageError


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
