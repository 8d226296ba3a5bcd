"""What needs no vLLM; the engine itself is tested in ``tests/vllm``."""

import os
import sys

import pytest

from viper.errors import MissingExtraError
from viper.models.llm.vllm_llm import VllmLLM


def test_without_the_package_the_pip_line_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    # The engine sets these where they are not set; a test leaves no trace of it.
    for name in ("VLLM_LOGGING_STREAM", "VLLM_NO_USAGE_STATS"):
        monkeypatch.setenv(name, os.environ.get(name, "1"))
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(MissingExtraError, match=r'pip install "viper-reasoner\[vllm\]"'):
        VllmLLM("anywhere")
