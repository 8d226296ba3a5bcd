"""One error for each prompt that fails, by models that tell prompts apart and by others."""

import pytest

from viper.errors import ModelError, ScriptExhaustedError
from viper.llm.each import GeneratesEach, all_answered, generate_each
from viper.llm.protocol import Completion, Sampling
from viper.llm.scripted import ScriptedLLM


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
