"""A tiny language model with random weights, and servers of one on this machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from openai_bench import KEY, Connect, Serve
from openai_server import OpenAIServer
from transformers import LlamaConfig, LlamaForCausalLM

from viper.models.llm.openai_llm import OpenAILLM
from viper.models.llm.transformers_llm import TransformersLLM
from viper_lab.recipes.writer import save_writer
from viper_lab.recipes.writer_tokenizer import build_tokenizer

TEXTS = ["# query: the red cube\ndef execute_command(image):\n    return image.find('cube')\n"] * 9


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llm") / "tiny"
    tokenizer = build_tokenizer(TEXTS, ["blicket", "dax", "wug"] * 20, merges=20)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=256,
        initializer_range=0.5,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    save_writer(LlamaForCausalLM(config), tokenizer, folder)
    return folder


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Models this small are fastest so, above all where cores are busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def llm(model_folder: Path) -> TransformersLLM:
    return TransformersLLM(model_folder, local_only=True)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key, and nothing else that would lead a client elsewhere."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.fixture
def serve(environment: None) -> Iterator[Serve]:
    started: list[OpenAIServer] = []

    def start(*arguments: Any, **options: Any) -> OpenAIServer:
        started.append(OpenAIServer(*arguments, **options))
        return started[-1]

    yield start
    for server in started:
        server.close()


@pytest.fixture
def slept() -> list[float]:
    """The waits before retries, which nobody sits through."""
    return []


@pytest.fixture
def connect(slept: list[float]) -> Iterator[Connect]:
    made: list[OpenAILLM] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    def build(server: OpenAIServer, **options: Any) -> OpenAILLM:
        options = {"api": "completions", "max_retries": 3, "jitter_seed": 0, **options}
        made.append(OpenAILLM("writer", base_url=server.url, sleep=sleep, **options))
        return made[-1]

    yield build
    for llm in made:
        llm.close()
