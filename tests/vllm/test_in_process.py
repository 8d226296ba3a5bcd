"""vLLM in this process; runs in the environment that has vLLM."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import agreement
import numpy as np
import pytest
from serve import SETTINGS

from viper.errors import ModelError, PromptTooLongError, UsageError
from viper.models.llm.messages import Conversation, Picture, Prompt, assistant, system, user
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


def test_of_sixteen_at_once_none_waits_for_the_slowest(in_process: VllmLLM) -> None:
    lengths = [20 * number for number in range(16, 0, -1)]
    finished: list[tuple[int, float]] = []
    start = time.monotonic()

    def ask(length: int) -> None:
        # Hot enough that the writer does not find an end.
        sampling = Sampling(temperature=2.0, max_tokens=length)
        ((written,),) = in_process.generate([f"cube {length}"], sampling)
        finished.append((written.completion_tokens, time.monotonic() - start))

    # The longest come first.
    threads = [threading.Thread(target=ask, args=(length,)) for length in lengths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("\ntokens and seconds:", *(f"{tokens} {seconds:.2f}," for tokens, seconds in finished))
    order = [tokens for tokens, _ in finished]
    assert order[-1] > 5 * order[0]
    # Neighbours may come a few steps apart.
    assert all(later > earlier - 20 for earlier, later in zip(order, order[1:], strict=False))


def test_an_error_of_one_prompt_does_not_lose_the_others(in_process: VllmLLM) -> None:
    picture = (user(Picture(np.zeros((8, 8, 3), np.uint8)), "what ?"),)
    asked: list[Prompt] = ["cube", "cube " * 3000, picture, "ball"]
    first, long, seen, last = in_process.generate_each(asked, Sampling(max_tokens=4))
    assert isinstance(long, PromptTooLongError)
    assert isinstance(seen, UsageError)
    assert "takes no pictures" in str(seen)
    with pytest.raises(ModelError, match="temperature must be in"):
        in_process.generate(["cube"], Sampling(temperature=5.0))
    assert [first, last] == in_process.generate(["cube", "ball"], Sampling(max_tokens=4))


def test_ctrl_c_aborts_what_is_running_and_leaves_the_engine() -> None:
    pytest.importorskip("vllm", reason="run: make test-vllm")
    script = Path(__file__).parent / "interrupted.py"
    # A group of its own, because a terminal sends the signal to the whole group.
    command = [sys.executable, str(script)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **SETTINGS},
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.read().split("\n") == ["interrupted", "0 running", "4", ""]
    assert process.returncode == 0


def _pictures(count: int) -> list[Picture]:
    rng = np.random.default_rng(0)
    return [Picture(rng.integers(0, 256, (20, 24, 3)).astype(np.uint8)) for _ in range(count)]


def test_a_model_with_eyes_sees(seeing: VllmLLM) -> None:
    assert seeing.sees_pictures
    check_llm(seeing, ["what is this ?", "a red cube , yes or no ?"])
    one, other = _pictures(2)
    warm = Sampling(temperature=1.0, max_tokens=12, n=2)

    def texts(*parts: str | Picture) -> list[str]:
        return [each.text for each in seeing.generate([(user(*parts),)], warm)[0]]

    assert texts(one, "what ?") == texts(one, "what ?") != texts(other, "what ?")
    assert texts(one, other, "what ?") != texts(other, one, "what ?")
    ((completion,),) = seeing.generate([(user(one, "red ?"),)], Sampling(max_tokens=2))
    assert len(completion.first_logprobs or {}) >= 20


def test_too_many_pictures_are_an_error_of_their_prompt(seeing: VllmLLM) -> None:
    asked: list[Prompt] = [(user(*_pictures(1) * 300, "what ?"),), "what ?"]
    many, one = seeing.generate_each(asked, Sampling(max_tokens=4))
    assert isinstance(many, ModelError)
    assert "longer than the maximum model length of 1024" in str(many)
    assert isinstance(one, list)


def test_each_turn_begins_with_the_tokens_of_the_last(
    seeing: VllmLLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[Any] = []
    answer = seeing._answer

    async def recorded(*arguments: Any, **keywords: Any) -> Any:
        results.append(await answer(*arguments, **keywords))
        return results[-1]

    monkeypatch.setattr(seeing, "_answer", recorded)
    pictures = _pictures(11)
    talk: Conversation = (system("a cube " * 60), user(pictures[0], "what ?"))
    for turn in range(10):
        ((completion,),) = seeing.generate([talk], Sampling(max_tokens=5))
        talk = (*talk, assistant(completion.text), user("the ball " * 9, pictures[turn + 1]))
    read = [result.prompt_token_ids for result in results]
    for earlier, later in zip(read, read[1:], strict=False):
        assert later[: len(earlier)] == earlier
        assert len(later) > len(earlier)
    cached = [result.num_cached_tokens for result in results]
    print("\ntokens read, and of these kept from the turns before:")
    print(*(f"{len(ids)} {kept}," for ids, kept in zip(read, cached, strict=True)))
    # The engine keeps whole blocks of tokens.
    assert cached[0] == 0
    assert cached[-1] > len(read[0])
