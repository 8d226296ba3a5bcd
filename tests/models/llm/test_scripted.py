import pytest

from viper.errors import ScriptExhaustedError
from viper.models.llm.protocol import LLM, Sampling
from viper.models.llm.scripted import ScriptedLLM, cut_at_stop


def test_answers_come_in_order_and_calls_are_recorded() -> None:
    llm = ScriptedLLM(["one", "two", "three"])
    sampling = Sampling(n=2)
    assert [c.text for c in llm.generate(["p"], sampling)[0]] == ["one", "two"]
    assert llm.generate(["q"], Sampling())[0][0].text == "three"
    assert [call.prompt for call in llm.calls] == ["p", "q"]
    assert llm.calls[0].sampling == sampling
    assert llm.remaining == 0


def test_exhausted_script_raises_and_names_the_prompt() -> None:
    llm = ScriptedLLM(["only"])
    llm.generate(["p"], Sampling())
    with pytest.raises(ScriptExhaustedError, match="holds 1 answers.*where is it"):
        llm.generate(["where is it"], Sampling())


def test_matching_function_answers_by_prompt_and_may_refuse() -> None:
    llm = ScriptedLLM(lambda prompt: "yes" if "cube" in prompt else None)
    assert llm.generate(["a cube", "cube b"], Sampling())[1][0].text == "yes"
    with pytest.raises(ScriptExhaustedError):
        llm.generate(["a ball"], Sampling())


def test_stop_strings_end_the_text_and_are_not_part_of_it() -> None:
    llm = ScriptedLLM(["abc\n\nrest"])
    assert llm.generate(["p"], Sampling(stop=("\n\n",)))[0][0].text == "abc"
    assert cut_at_stop("a##b$$", ("$$", "##")) == "a"


def test_scores_come_from_the_longest_fragment() -> None:
    llm = ScriptedLLM(scores={"cube": -1.0, "red cube": -0.5})
    assert llm.score("p", ["red cube", "blue cube", "ball"]) == [-0.5, -1.0, -4.0]
    assert llm.calls[0].kind == "score"


def test_it_is_an_llm() -> None:
    assert isinstance(ScriptedLLM(), LLM)
