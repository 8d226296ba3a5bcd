"""A model that is loaded when it is first asked."""

from __future__ import annotations

import threading

from viper.llm.deferred import DeferredLLM
from viper.llm.protocol import LLM, Sampling
from viper.llm.scripted import ScriptedLLM


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
    assert llm.max_context == 1_000_000
