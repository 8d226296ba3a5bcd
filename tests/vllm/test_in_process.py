"""vLLM in this process; runs in the environment that has vLLM."""

from pathlib import Path

import agreement
import pytest

from viper.errors import ModelError, UsageError
from viper.models.llm.protocol import LLM, Sampling
from viper.models.llm.vllm_llm import VllmLLM
from viper.testing.conformance import check_llm

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]


def test_it_writes_the_programs_that_transformers_writes(in_process: LLM, reference: LLM) -> None:
    agreement.check_programs(in_process, reference)


def test_it_counts_as_transformers_does(in_process: LLM, reference: LLM) -> None:
    agreement.check_counts(in_process, reference)
    text = agreement.prompts(1)[0]
    assert in_process.count_tokens(text) == reference.count_tokens(text)
    assert in_process.max_context == reference.max_context
    assert in_process.model_id == f"{reference.model_id}#vllm"


def test_it_scores_as_transformers_does(in_process: LLM, reference: LLM) -> None:
    agreement.check_scores(in_process, reference)


def test_samples_repeat_with_their_seed(in_process: LLM) -> None:
    agreement.check_samples(in_process)


def test_a_stop_string_ends_a_text(in_process: LLM) -> None:
    agreement.check_stop(in_process)


def test_it_keeps_the_rules_of_a_language_model(in_process: LLM) -> None:
    check_llm(in_process, agreement.prompts(3))


def test_a_prompt_that_fills_the_context_is_refused(in_process: LLM) -> None:
    with pytest.raises(UsageError, match="holds 2048"):
        in_process.generate(["cube " * 3000], Sampling(max_tokens=5))


def test_a_text_ends_where_the_context_ends(in_process: LLM) -> None:
    prompt = "cube " * 2000
    found = in_process.generate([prompt], Sampling(max_tokens=5000))[0][0]
    assert found.prompt_tokens + found.completion_tokens <= 2048
    assert found.completion_tokens > 0


def test_a_folder_without_a_model_is_a_model_error(in_process: LLM, tmp_path: Path) -> None:
    assert in_process.model_id
    with pytest.raises(ModelError, match="cannot be loaded by vLLM"):
        VllmLLM(tmp_path)
