"""A vLLM server of the embedded writer, through the endpoint backend."""

import agreement
import pytest
from serve import NAME, WRITER

from viper.errors import ModelError, UsageError
from viper.models.llm.openai_llm import OpenAILLM
from viper.models.llm.protocol import LLM, Sampling
from viper.testing.conformance import check_llm

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def served(url: str) -> OpenAILLM:
    return OpenAILLM(
        NAME,
        base_url=url,
        api="completions",
        key_env="VIPER_NO_SUCH_KEY",
        concurrency=16,
        max_context=2048,
        tokenizer=WRITER,
    )


def test_it_writes_the_programs_that_transformers_writes(served: OpenAILLM, reference: LLM) -> None:
    agreement.check_programs(served, reference)
    assert served.usage.retries == 0


def test_it_counts_as_transformers_does(served: OpenAILLM, reference: LLM) -> None:
    agreement.check_counts(served, reference)
    text = agreement.prompts(1)[0]
    assert served.count_tokens(text) == reference.count_tokens(text)


def test_it_scores_as_transformers_does(served: OpenAILLM, reference: LLM) -> None:
    assert served.can_score
    agreement.check_scores(served, reference)


def test_samples_repeat_with_their_seed(served: OpenAILLM) -> None:
    agreement.check_samples(served)


def test_a_stop_string_ends_a_text(served: OpenAILLM) -> None:
    agreement.check_stop(served)


def test_it_keeps_the_rules_of_a_language_model(served: OpenAILLM) -> None:
    check_llm(served, agreement.prompts(3))


def test_a_prompt_that_fills_the_context_is_refused_here_and_there(
    served: OpenAILLM, url: str
) -> None:
    unaware = OpenAILLM(NAME, base_url=url, api="completions", key_env="VIPER_NO_SUCH_KEY")
    for llm in (served, unaware):
        with pytest.raises(UsageError, match="fills the whole context"):
            llm.generate(["cube " * 3000], Sampling(max_tokens=5))


def test_an_unknown_model_and_a_missing_chat_template_are_said_in_the_server_s_words(
    url: str,
) -> None:
    unknown = OpenAILLM("nobody", base_url=url, api="completions", key_env="VIPER_NO_SUCH_KEY")
    with pytest.raises(ModelError, match="status 404.*nobody"):
        unknown.generate(["p"], Sampling(max_tokens=5))
    chat = OpenAILLM(NAME, base_url=url, api="chat", key_env="VIPER_NO_SUCH_KEY")
    with pytest.raises(ModelError, match="status 400.*chat template"):
        chat.generate(["p"], Sampling(max_tokens=5))
