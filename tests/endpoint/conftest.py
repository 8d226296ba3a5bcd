"""Servers with a model by rote, and pictures to send them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.endpoint.model import KEY, Model, Reply, written
from tests.endpoint.place import Begin, Place
from tests.models.llm.openai_server import OpenAIServer

Start = Callable[..., Model]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Start]:
    """Starts a server and lets the profile ``endpoint`` ask it; a state folder of its own."""
    servers: list[OpenAIServer] = []

    def begin(**replies: Reply) -> Model:
        model = Model(**replies)
        servers.append(OpenAIServer(otherwise=model))
        monkeypatch.setenv("OPENAI_BASE_URL", servers[-1].url)
        return model

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("VIPER_HOME", str(tmp_path / "home"))
    yield begin
    for server in servers:
        server.close()


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A picture of 60 x 40 pixels, sent as it is."""
    return written(tmp_path / "small.png", (40, 60))


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """A picture of 2048 x 900 pixels, sent at half its size."""
    return written(tmp_path / "wide.png", (900, 2048))


@pytest.fixture
def begin(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Begin]:
    """Starts a server that gives one answer, or what a function makes of each request."""
    servers: list[OpenAIServer] = []

    def start(answer: Any) -> Place:
        behave = answer if callable(answer) else lambda request: answer
        servers.append(OpenAIServer(otherwise=behave))
        monkeypatch.setenv("OPENAI_BASE_URL", servers[-1].url)
        return Place(tmp_path, capsys, servers[-1])

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("VIPER_HOME", str(tmp_path / "home"))
    yield start
    for server in servers:
        server.close()
