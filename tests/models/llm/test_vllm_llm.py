"""The vLLM backend on a stand-in for the package; the engine itself is tested in ``tests/vllm``."""

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fake_vllm
import numpy as np
import pytest
from fake_vllm import Engine

from viper.errors import (
    MissingExtraError,
    ModelError,
    ProfileError,
    PromptTooLongError,
    ToolError,
    UsageError,
)
from viper.models.llm import vllm_llm
from viper.models.llm.messages import Picture, Prompt, assistant, system, user
from viper.models.llm.protocol import Sampling
from viper.models.llm.vllm_llm import VllmLLM
from viper.models.llm.wrapped import GatheredLLM, generate_each
from viper.models.vision.vlm import ChatRequest, EndpointVLM

SHORT = Sampling(max_tokens=300)
RED, BLUE = (Picture(np.full((4, 6, 3), shade, np.uint8)) for shade in (20, 200))
Build = Callable[..., VllmLLM]
COMMIT = "0123456789abcdef" * 2 + "01234567"


@pytest.fixture(autouse=True)
def snapshot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Fill a hub's cache with two models, and return the folder of the first."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    for name in ("models--some--model", "models--missing"):
        folder = tmp_path / name / "snapshots" / COMMIT
        folder.mkdir(parents=True)
        for file in ("config.json", "tokenizer.json", "model.safetensors"):
            (folder / file).write_text("{}")
        (tmp_path / name / "refs").mkdir()
        (tmp_path / name / "refs" / "main").write_text(COMMIT)
    return tmp_path / "models--some--model" / "snapshots" / COMMIT


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Iterator[Build]:
    """Return a function that loads a model by the stand-in, multi-modal or not."""
    # The engine sets these where they are not set; a test leaves no trace of it.
    for name in ("VLLM_LOGGING_STREAM", "VLLM_NO_USAGE_STATS"):
        monkeypatch.setenv(name, os.environ.get(name, "1"))
    made: list[VllmLLM] = []

    def built(*, processor: Any = None, **options: Any) -> VllmLLM:
        kind = type("Engine", (Engine,), {"multimodal": processor is not None})
        monkeypatch.setitem(sys.modules, "vllm", fake_vllm.package(kind))
        monkeypatch.setattr(vllm_llm, "load_processor", lambda kind, path, options: processor)
        made.append(VllmLLM("some/model", **options))
        return made[-1]

    yield built
    for llm in made:
        llm.close()


def _until(condition: Callable[[], bool]) -> None:
    assert any(condition() or threading.Event().wait(0.01) for _ in range(2_000))


def test_without_the_package_the_pip_line_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VLLM_LOGGING_STREAM", "VLLM_NO_USAGE_STATS"):
        monkeypatch.setenv(name, os.environ.get(name, "1"))
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(MissingExtraError, match=r'pip install "viper-reasoner\[vllm\]"'):
        VllmLLM("anywhere")


def test_a_model_that_cannot_be_loaded_is_one_line(build: Build) -> None:
    build()
    with pytest.raises(
        ModelError, match=r"^missing cannot be loaded by vLLM: no such model second line$"
    ):
        VllmLLM("missing")


def test_options_reach_the_engine(build: Build, snapshot: Path) -> None:
    llm = build(tensor_parallel_size=2, max_model_len=99, dtype="bfloat16")
    arguments = llm._engine.arguments
    assert arguments["model"] == str(snapshot) and arguments["trust_remote_code"] is False
    assert build(trust=["some/model"])._engine.arguments["trust_remote_code"] is True
    assert (arguments["tensor_parallel_size"], arguments["max_model_len"]) == (2, 99)
    assert arguments["enable_prefix_caching"] is True
    assert (llm.model_id, llm.max_context) == (f"some/model@{COMMIT[:12]}#vllm", 400)


def test_of_sixteen_threads_none_waits_for_the_slowest(build: Build) -> None:
    llm = build()
    engine = llm._engine
    engine.together = 16
    lengths = [3 + 17 * index for index in range(16)]
    # The longest come first. Gathering passes the calls on, because the model is concurrent.
    gathering = GatheredLLM(llm)
    with ThreadPoolExecutor(16) as pool:
        answers = list(
            pool.map(lambda n: gathering.generate([f"len:{n}"], SHORT)[0][0], reversed(lengths))
        )
    assert [answer.completion_tokens for answer in answers] == lengths[::-1]
    assert engine.most == 16
    by_name = {name: request["prompt_token_ids"] for name, request, _ in engine.requests}
    order = [engine.tokenizer.words[by_name[name][0]] for name in engine.finished]
    assert order == [f"len:{length}" for length in lengths]


def test_a_new_prompt_joins_while_another_is_written(build: Build) -> None:
    llm = build()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(llm.generate, [fake_vllm.HELD], SHORT)
        _until(lambda: bool(llm._engine.running))
        assert llm.generate(["a", "b"], SHORT)[1][0].completion_tokens == 3
        assert not slow.done()
        llm._loop.run(_released(llm))
        assert slow.result()[0][0].finish_reason == "stop"


def _released(llm: VllmLLM) -> Callable[[], Any]:
    async def release() -> None:
        llm._engine.released.set()

    return release


def test_an_interrupt_aborts_the_running_requests_and_the_engine_goes_on(build: Build) -> None:
    llm = build()

    def interrupt() -> None:
        _until(lambda: len(llm._engine.running) == 2)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        llm.generate([fake_vllm.HELD, f"{fake_vllm.HELD} too"], SHORT)
    thread.join()
    _until(lambda: not llm._engine.running)
    assert len(llm._engine.aborted) == 2
    assert llm.generate(["again"], SHORT)[0][0].finish_reason == "stop"


def test_an_error_of_one_prompt_does_not_lose_the_others(build: Build) -> None:
    llm = build()
    prompts: list[Prompt] = [
        "len:5",
        fake_vllm.BROKEN,
        "word " * 500,
        (user(RED, "what ?"),),
        fake_vllm.FAILING,
        "len:7",
    ]
    first, broken, long, picture, failing, last = generate_each(GatheredLLM(llm), prompts, SHORT)
    assert isinstance(first, list)
    assert isinstance(last, list)
    assert (first[0].completion_tokens, last[0].completion_tokens) == (5, 7)
    assert isinstance(broken, ModelError)
    assert str(broken).endswith("vLLM gave no answer: the engine rejects this second line")
    assert isinstance(long, PromptTooLongError)
    assert isinstance(picture, UsageError)
    assert "takes no pictures; set sees = false" in str(picture)
    assert isinstance(failing, ModelError)
    assert str(failing).endswith("out of blocks")


def test_a_failing_prompt_ends_a_call_and_its_other_requests(build: Build) -> None:
    llm = build()
    with pytest.raises(ModelError, match="rejects this"):
        llm.generate([fake_vllm.HELD, fake_vllm.BROKEN], SHORT)
    _until(lambda: not llm._engine.running)


def test_every_prompt_has_a_seed_of_its_own_that_repeats(build: Build) -> None:
    llm = build()
    warm = Sampling(temperature=1.0, seed=3, n=2, max_tokens=2)

    def texts(seed: int) -> list[list[str]]:
        sampling = Sampling(temperature=1.0, seed=seed, n=2, max_tokens=2)
        return [[each.text for each in found] for found in llm.generate(["a", "b"], sampling)]

    assert texts(3) == texts(3) != texts(4)
    assert texts(3)[0] != texts(3)[1]
    assert [each.finish_reason for each in llm.generate(["a"], warm)[0]] == ["length"] * 2
    # Greedy decoding has no seed, and one completion is repeated.
    greedy = llm.generate(["a"], Sampling(n=3, max_tokens=9))[0]
    assert len(greedy) == 3
    (_, _, parameters) = llm._engine.requests[-1]
    assert (parameters.n, parameters.seed, parameters.temperature) == (1, None, 0.0)


def test_thinking_gets_room_and_options_reach_the_template(build: Build) -> None:
    processor = fake_vllm.Template()
    options = {"enable_thinking": False}
    llm = build(processor=processor, thinking_tokens=50, chat_template_kwargs=options)
    llm.generate(["what ?"], Sampling(max_tokens=8, stop=("\n",)))
    (_, _, parameters) = llm._engine.requests[-1]
    assert (parameters.max_tokens, parameters.stop) == (58, ["\n"])
    assert processor.kwargs[-1]["enable_thinking"] is False


def test_a_model_with_eyes_gets_pictures_in_their_order(build: Build) -> None:
    llm = build(processor=fake_vllm.Template())
    assert llm.sees_pictures
    llm.generate([(system("rules"), user(RED, "and", BLUE, "what ?"))], SHORT)
    (_, request, parameters) = llm._engine.requests[-1]
    words = [llm._engine.tokenizer.words[each] for each in request["prompt_token_ids"]]
    assert " ".join(words) == "<system> rules <user> <image> and <image> what ? <assistant>"
    images = request["multi_modal_data"]["image"]
    assert [image.size for image in images] == [(6, 4), (6, 4)]
    assert [np.asarray(image)[0, 0, 0] for image in images] == [20, 200]
    assert parameters.logprobs == 20
    # Large pictures are scaled down.
    small = build(processor=fake_vllm.Template(), max_pixels=6)
    small.generate([(user(RED, "what ?"),)], SHORT)
    (image,) = small._engine.requests[-1][1]["multi_modal_data"]["image"]
    assert image.size == (3, 2) and EndpointVLM(small).max_pixels == 6
    with pytest.raises(ProfileError, match="max_pixels is 0"):
        build(max_pixels=0)
    # A prompt without pictures has no such data.
    llm.generate(["what ?"], SHORT)
    assert "multi_modal_data" not in llm._engine.requests[-1][1]


def test_a_model_with_eyes_answers_questions_about_pictures(build: Build) -> None:
    vlm = EndpointVLM(build(processor=fake_vllm.Template()))
    assert vlm.probability_of_yes([ChatRequest([RED.pixels], "red ?")]) == [1.0]
    # Of a model that thinks, the written answer counts: here it has none.
    thinking = EndpointVLM(build(processor=fake_vllm.Template(), thinking_tokens=9))
    with pytest.raises(ToolError, match="asked for yes or no"):
        thinking.probability_of_yes([ChatRequest([RED.pixels], "red ?")])


@pytest.mark.parametrize(
    ("processor", "template"),
    [(None, "auto"), (fake_vllm.Template(None), "auto"), (fake_vllm.Template(), "plain")],
)
def test_no_model_sees_without_a_template_for_pictures(
    build: Build, processor: Any, template: str
) -> None:
    llm = build(processor=processor, template=template)
    assert not llm.sees_pictures
    with pytest.raises(UsageError, match="takes no pictures; set sees = false"):
        llm.generate([(user(RED, "what ?"),)], SHORT)


def test_each_turn_of_a_conversation_begins_with_the_tokens_of_the_last(build: Build) -> None:
    llm = build(processor=fake_vllm.Template())
    talk = (system("rules"), user(RED, "what ?"))
    for turn in range(10):
        ((completion,),) = llm.generate([talk], Sampling(max_tokens=4))
        talk = (*talk, assistant(completion.text), user(f"turn {turn}", BLUE))
    read = [request["prompt_token_ids"] for _, request, _ in llm._engine.requests]
    assert len(read) == 10
    for earlier, later in zip(read, read[1:], strict=False):
        assert later[: len(earlier)] == earlier
        assert len(later) > len(earlier)


def test_scores_are_means_over_the_tokens_of_each_continuation(build: Build) -> None:
    llm = build()
    # Words are numbered as they come, and the likelihood of a token is minus its number.
    assert llm.score("a b", [" c", " c d e"]) == [-2.0, -3.0]
    assert llm.score("a b", []) == []
    (_, _, parameters) = llm._engine.requests[-1]
    assert (parameters.max_tokens, parameters.prompt_logprobs) == (1, 0)


def test_closing_ends_the_engine_and_what_is_under_way(build: Build) -> None:
    llm = build()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(llm.generate, [fake_vllm.HELD], SHORT)
        _until(lambda: bool(llm._engine.running))
        llm.close()
        with pytest.raises(RuntimeError, match="the vLLM engine is closed"):
            slow.result()
    assert llm._engine.ended
    assert llm._engine.aborted
    with pytest.raises(RuntimeError, match="load the model again"):
        llm.generate(["a"], SHORT)


def test_the_thread_ends_with_the_object(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    build()
    before = set(threading.enumerate())
    llm = VllmLLM("some/model")
    llm.generate(["a"], SHORT)
    (thread,) = (t for t in set(threading.enumerate()) - before if t.name == "viper-vllm")
    del llm
    gc.collect()
    thread.join(20)
    assert not thread.is_alive()
