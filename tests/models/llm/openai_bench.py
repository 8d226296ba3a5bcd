"""Names that the tests of the endpoint backend share; its fixtures stand in ``conftest.py``."""

from __future__ import annotations

from collections.abc import Callable

from openai_server import OpenAIServer

from viper.models.llm.openai_llm import OpenAILLM

KEY = "sk-very-secret-0123456789"

Serve = Callable[..., OpenAIServer]
"""Starts a server with the arguments of OpenAIServer; it is closed after the test."""

Connect = Callable[..., OpenAILLM]
"""Makes a model of a server, with options of OpenAILLM; it is closed after the test."""
