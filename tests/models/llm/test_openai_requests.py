"""What is sent to an endpoint, and what comes back."""

from openai_bench import Connect, Serve
from openai_server import Answer, completion, said

from viper.models.llm.protocol import LLM, Completion, Sampling

WARM = Sampling(temperature=0.7, seed=11, max_tokens=40, stop=("\n\n", "##"), n=3)


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
