"""Tests against vLLM: ``make test-vllm`` runs them, anywhere else they are skipped."""

from __future__ import annotations

import importlib.util
import os

import pytest
from serve import SETTINGS, URL_VARIABLE, WRITER

from viper.models.llm.protocol import LLM
from viper.models.llm.transformers_llm import TransformersLLM


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
    from viper.models.llm.vllm_llm import VllmLLM

    os.environ.update(SETTINGS, VLLM_ENABLE_V1_MULTIPROCESSING="0")
    return VllmLLM(WRITER, template="plain", dtype="float32", enforce_eager=True)


@pytest.fixture(scope="session")
def reference() -> TransformersLLM:
    """The embedded writer in the transformers backend, also in float32."""
    return TransformersLLM(WRITER, template="plain", local_only=True, dtype="float32", device="cpu")
