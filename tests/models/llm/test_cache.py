from pathlib import Path
from typing import Any

import pytest

from viper.errors import ScriptExhaustedError
from viper.models.llm.endpoint import LLMUsage
from viper.models.llm.protocol import Sampling
from viper.models.llm.scripted import ScriptedLLM
from viper.models.llm.wrapped import CachedLLM
from viper.storage.sqlite import SqliteStore


def test_a_repeated_prompt_is_answered_without_the_model() -> None:
    inner = ScriptedLLM(["one"])
    llm = CachedLLM(inner)
    first = llm.generate(["p"], Sampling())
    assert llm.generate(["p"], Sampling(seed=9)) == first
    assert (llm.hits, llm.misses, len(inner.calls)) == (1, 1, 1)


@pytest.mark.parametrize(
    "other",
    [
        Sampling(temperature=0.7, seed=1),
        Sampling(temperature=0.5),
        Sampling(max_tokens=3, temperature=0.7),
        Sampling(stop=("x",), temperature=0.7),
        Sampling(n=2, temperature=0.7),
    ],
)
def test_everything_that_changes_the_output_is_in_the_key(other: Sampling) -> None:
    inner = ScriptedLLM(lambda prompt: prompt)
    llm = CachedLLM(inner)
    llm.generate(["p"], Sampling(temperature=0.7))
    llm.generate(["p"], other)
    assert llm.misses == 2


@pytest.mark.parametrize(
    "other",
    [{"chat_template_kwargs": {"enable_thinking": False}}, {"max_side": 512}, {"detail": "low"}],
)
def test_options_that_change_replies_are_in_the_key(other: dict[str, Any]) -> None:
    inner, store = ScriptedLLM(["one", "two"]), SqliteStore()
    first = CachedLLM(inner, store, {"timeout_s": 3.0}).generate(["p"], Sampling())
    assert CachedLLM(inner, store).generate(["p"], Sampling()) == first
    assert CachedLLM(inner, store, other).generate(["p"], Sampling())[0][0].text == "two"


def test_only_missing_prompts_reach_the_model_and_order_is_kept() -> None:
    inner = ScriptedLLM(["a", "b"])
    llm = CachedLLM(inner)
    llm.generate(["p"], Sampling())
    texts = [c[0].text for c in llm.generate(["q", "p", "q"], Sampling())]
    assert texts == ["b", "a", "b"]
    assert [call.prompt for call in inner.calls] == ["p", "q"]


def test_failures_are_not_stored() -> None:
    inner = ScriptedLLM([])
    llm = CachedLLM(inner)
    for _ in range(2):
        with pytest.raises(ScriptExhaustedError):
            llm.generate(["p"], Sampling())
    assert len(inner.calls) == 2


def test_scores_are_cached_by_prompt_and_continuations() -> None:
    inner = ScriptedLLM(scores={"a": -1.0})
    llm = CachedLLM(inner)
    assert llm.score("p", ["a"]) == llm.score("p", ["a"]) == [-1.0]
    llm.score("p", ["a", "b"])
    assert len(inner.calls) == 2


def test_a_file_store_outlives_the_process(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "responses.db"
    store = SqliteStore(path)
    CachedLLM(ScriptedLLM(["one"]), store).generate(["p"], Sampling())
    store.close()
    again = CachedLLM(ScriptedLLM([]), SqliteStore(path))
    assert again.generate(["p"], Sampling())[0][0].text == "one"


class _Remote(ScriptedLLM):
    """As a model behind an endpoint: may be unable to score, counts its requests."""

    can_score = False

    @property
    def usage(self) -> LLMUsage:
        return LLMUsage(requests=len(self.calls))


def test_what_the_model_can_do_and_has_used_shows_through() -> None:
    llm = CachedLLM(_Remote(["one"]))
    assert not llm.can_score
    assert llm.usage == LLMUsage(requests=0)
    for _ in range(3):
        llm.generate(["p"], Sampling())
    assert llm.usage == LLMUsage(requests=1)


def test_a_model_that_says_nothing_about_scoring_can_and_has_no_usage() -> None:
    llm = CachedLLM(ScriptedLLM())
    assert llm.can_score
    assert llm.usage is None
