"""A model that is loaded when it is first asked."""

from __future__ import annotations

import threading

from viper.llm.deferred import DeferredLLM
from viper.llm.protocol import LLM, Sampling
from viper.llm.scripted import ScriptedLLM
from viper.tools.models import ModelSet


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
