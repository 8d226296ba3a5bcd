"""Models before models: one error a prompt, loaded late, gathered over threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from viper.errors import ModelError, ScriptExhaustedError, UsageError
from viper.models.llm.endpoint import LLMUsage
from viper.models.llm.messages import system, user
from viper.models.llm.protocol import LLM, Completion, Payer, Sampling, charging, payers
from viper.models.llm.scripted import ScriptedLLM
from viper.models.llm.transformers_llm import TransformersLLM
from viper.models.llm.wrapped import (
    DeferredLLM,
    GatheredLLM,
    GeneratesEach,
    all_answered,
    generate_each,
)
from viper.testing.conformance import check_llm
from viper.tools.models import ModelSet

TOO_LONG = UsageError("the prompt is too long")


def test_a_model_that_cannot_tell_prompts_apart_answers_all_or_none() -> None:
    llm = ScriptedLLM(lambda prompt: prompt if prompt != "b" else None)
    assert not isinstance(llm, GeneratesEach)
    found = all_answered(generate_each(llm, ["a", "c"], Sampling()))
    assert [item[0].text for item in found] == ["a", "c"]
    errors = generate_each(llm, ["a", "b", "c"], Sampling())
    assert [type(error) for error in errors] == [ScriptExhaustedError] * 3


def test_the_first_error_in_the_order_of_prompts_is_raised() -> None:
    answer = [Completion("a", 1, 1)]
    assert all_answered([answer, answer]) == [answer, answer]
    with pytest.raises(ModelError, match="one"):
        all_answered([answer, ModelError("one"), ModelError("two")])


def test_nothing_is_loaded_before_it_is_asked_and_then_once() -> None:
    loads = []

    def load() -> LLM:
        loads.append(1)
        return ScriptedLLM(lambda prompt: prompt.upper(), scores={"b": -1.0})

    llm = DeferredLLM(load)
    assert not llm.loaded and not loads
    threads = [threading.Thread(target=lambda: llm.generate(["a"], Sampling())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert llm.loaded and loads == [1]
    assert llm.generate(["a"], Sampling())[0][0].text == "A"
    assert llm.score("a", ["b"]) == [-1.0]
    assert (llm.model_id, llm.count_tokens("a b"), llm.can_score) == ("scripted", 2, True)
    assert llm.max_context == 1_000_000 and llm.usage is None


def test_it_never_loads_while_another_model_does() -> None:
    inside: list[str] = []
    most: list[int] = []

    def load(name: str) -> ScriptedLLM:
        inside.append(name)
        most.append(len(inside))
        threading.Event().wait(0.05)
        inside.remove(name)
        return ScriptedLLM([])

    llm = DeferredLLM(lambda: load("llm"))
    models = ModelSet(
        {"depth": lambda: load("depth"), "text": lambda: (llm.model_id, load("text"))}
    )
    threads = [models.load_in_background(), threading.Thread(target=lambda: llm.model_id)]
    threads[1].start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert set(models.loaded()) == {"depth", "text"} and llm.loaded
    assert most == [1, 1, 1]


class Held(ScriptedLLM):
    """Answers with the prompt and the sampling; its first call lasts until others wait."""

    def __init__(self) -> None:
        super().__init__(lambda prompt: f"said {prompt}")
        self.started, self.ready = threading.Event(), threading.Event()
        self.batches: list[tuple[list[str], Sampling]] = []

    def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[list[Completion]]:
        self.batches.append((list(prompts), sampling))
        if not self.started.is_set():
            self.started.set()
            assert self.ready.wait(20)
        if any("long" in prompt for prompt in prompts):
            raise TOO_LONG
        return super().generate(prompts, sampling)


def together(model: Held, asked: Sequence[tuple[str, Sampling]], most: int = 16) -> list[Any]:
    """What many threads get while another one is being served: completions or their error."""
    llm = GatheredLLM(model, most)

    def ask(pair: tuple[str, Sampling]) -> Any:
        try:
            return llm.generate([pair[0]], pair[1])[0]
        except UsageError as error:
            return error

    with ThreadPoolExecutor(len(asked) + 1) as pool:
        first = pool.submit(ask, ("first", Sampling()))
        assert model.started.wait(20)
        rest = [pool.submit(ask, pair) for pair in asked]
        while len(llm._gatherer._waiting) < len(asked):
            threading.Event().wait(0.001)
        model.ready.set()
        assert first.result()[0].text == "said first"
        return [each.result() for each in rest]


def test_waiting_prompts_share_a_call_and_equal_ones_are_asked_once() -> None:
    model = Held()
    found = together(model, [(name, Sampling()) for name in "abacab"])
    assert [each[0].text for each in found] == [f"said {name}" for name in "abacab"]
    assert [sorted(prompts) for prompts, _ in model.batches] == [["first"], ["a", "b", "c"]]


def test_a_batch_knows_all_queries_behind_it() -> None:
    known: list[tuple[Payer, ...]] = []

    class Noting(ScriptedLLM):
        def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[list[Completion]]:
            known.append(payers())
            return super().generate(prompts, sampling)

    llm, queries = GatheredLLM(Noting(["a", "b"])), [Payer(), Payer()]
    with charging([queries[0]]):
        own = "a", payers()
    llm._serve(Sampling(), [own, ("b", (queries[1],))])
    assert known == [tuple(queries)]


def test_a_batch_is_bounded() -> None:
    model = Held()
    together(model, [(str(number), Sampling()) for number in range(7)], most=3)
    assert [len(prompts) for prompts, _ in model.batches] == [1, 3, 3, 1]


def test_samplings_are_never_mixed_but_for_the_seed_of_greedy_ones() -> None:
    model = Held()
    warm = [Sampling(temperature=0.5, seed=seed) for seed in (1, 2)]
    kinds = [Sampling(seed=1), Sampling(seed=2), *warm, Sampling(n=2), Sampling(stop=("x",))]
    found = together(model, [(f"{i}{j}", kind) for i in "ab" for j, kind in enumerate(kinds)])
    assert [len(each) for each in found] == [kind.n for kind in kinds] * 2
    calls = {tuple(sorted(prompts)): sampling for prompts, sampling in model.batches[1:]}
    assert calls == {
        ("a0", "a1", "b0", "b1"): Sampling(),
        ("a2", "b2"): warm[0],
        ("a3", "b3"): warm[1],
        ("a4", "b4"): kinds[4],
        ("a5", "b5"): kinds[5],
    }


def test_a_prompt_that_is_too_long_fails_alone_each_thread_with_its_own_error() -> None:
    model = Held()
    asked = ["a", "long", "b", "c", "longer", "long"]
    found = together(model, [(name, Sampling()) for name in asked])
    good = [each[0].text for each in found if isinstance(each, list)]
    assert good == ["said a", "said b", "said c"]
    errors = [each for each in found if isinstance(each, UsageError)]
    assert len({id(error) for error in errors}) == 3
    assert {str(error) for error in errors} == {str(TOO_LONG)}
    assert all(error.__context__ is None for error in errors)


def test_several_prompts_of_one_caller_and_concurrent_models_are_passed_on() -> None:
    model = ScriptedLLM(lambda prompt: prompt.upper())
    llm = GatheredLLM(model)
    assert [each[0].text for each in llm.generate(["a", "b"], Sampling(seed=4))] == ["A", "B"]
    assert [call.sampling for call in model.calls] == [Sampling(seed=4)] * 2

    class Concurrent(ScriptedLLM):
        concurrent = True

    model = Concurrent(lambda prompt: prompt.upper())
    assert GatheredLLM(model).generate(["a"], Sampling(seed=4))[0][0].text == "A"
    assert model.calls[0].sampling == Sampling(seed=4)


def test_the_rest_is_the_model_s_own() -> None:
    class Counting(ScriptedLLM):
        usage = LLMUsage(requests=3)
        can_score = False

    model = Counting(scores={"yes": -1.0}, model_id="m", max_context=9)
    llm = GatheredLLM(model)
    assert isinstance(llm, LLM)
    assert (llm.model_id, llm.max_context, llm.can_score) == ("m", 9, False)
    assert llm.usage is model.usage
    assert llm.score("p", ["yes"]) == [-1.0] and llm.count_tokens("a b") == 2
    plain = GatheredLLM(ScriptedLLM())
    assert plain.can_score and plain.usage is None


@pytest.mark.parametrize("prompts", [["long"], ["a", "long"]])
def test_errors_are_told_prompt_by_prompt(prompts: list[str]) -> None:
    model = Held()
    model.ready.set()
    attempts = GatheredLLM(model).generate_each(prompts, Sampling())
    assert attempts[-1] is TOO_LONG


def test_it_keeps_the_rules_of_a_language_model(llm: TransformersLLM) -> None:
    check_llm(GatheredLLM(llm))


def test_a_plug_in_that_knows_no_messages_gets_texts() -> None:
    class Plain:
        model_id, max_context = "plain", 100

        def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[list[Completion]]:
            return [[Completion(prompt.upper(), 1, 1)] for prompt in prompts]

    llm = GatheredLLM(Plain())  # type: ignore[arg-type]
    prompt = (system("be brief"), user("hi"))
    assert llm.generate([prompt], Sampling())[0][0].text == "BE BRIEF\n\nHI"
    both = llm.generate_each([prompt, "x"], Sampling())
    assert [each[0].text for each in both] == ["BE BRIEF\n\nHI", "X"]  # type: ignore[index]
