"""Tests against vLLM: ``make test-vllm`` runs them, anywhere else they are skipped."""

from __future__ import annotations

import importlib.util
import os

import pytest
from serve import SETTINGS, URL_VARIABLE, WRITER

from viper.models.llm.protocol import LLM
from viper.models.llm.transformers_llm import TransformersLLM
from viper.models.llm.vllm_llm import VllmLLM


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "vllm: needs vLLM, see make test-vllm")


@pytest.fixture(scope="session")
def url() -> str:
    """The base URL of the server that serve.py runs."""
    found = os.environ.get(URL_VARIABLE)
    if not found:
        pytest.skip(f"no vLLM server: {URL_VARIABLE} is not set; run: make test-vllm")
    return found


@pytest.fixture(scope="session")
def in_process() -> LLM:
    """The embedded writer in a vLLM engine of this process."""
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vLLM is not installed in this environment; run: make test-vllm")

    os.environ.update(SETTINGS)
    return VllmLLM(WRITER, template="plain", dtype="float32", enforce_eager=True)


@pytest.fixture(scope="session")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> VllmLLM:
    """A tiny random Qwen3-VL in a vLLM engine of this process."""
    for package in ("vllm", "torchvision"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed in this environment; run: make test-vllm")
    from tests.models.vision import tiny_chat

    folder = tiny_chat.qwen3_vl(tmp_path_factory.mktemp("qwen3_vl"), head_dim=32)
    # Unlike the tiny models' own template, this one names who speaks.
    template = tiny_chat.QWEN_TEMPLATE.replace("user :", "{{ message['role'] }} :")
    (folder / "chat_template.jinja").write_text(template)
    os.environ.update(SETTINGS)
    return VllmLLM(folder, dtype="float32", enforce_eager=True, max_model_len=1024)


@pytest.fixture(scope="session")
def reference() -> TransformersLLM:
    """The embedded writer in the transformers backend, also in float32."""
    return TransformersLLM(WRITER, template="plain", local_only=True, dtype="float32", device="cpu")
