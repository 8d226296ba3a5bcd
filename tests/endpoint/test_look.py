"""Episodes of strategy look through a server: what is sent is what the trace shows."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.endpoint.model import KEY
from tests.endpoint.place import PROFILE, chat
from tests.models.llm.openai_server import OpenAIServer
from viper.profiles.wiring import load_profile
from viper.reasoner import Reasoner
from viper.web.trace_view import shown_pictures
from viper_lab.world.fine.kinds import FineSample, fine_sample

SAMPLES = [fine_sample("train", 3, index) for index in range(10)]

Begin = Callable[[tuple[str, ...]], tuple[Reasoner, OpenAIServer]]


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Begin]:
    """Starts a server that gives these replies, and a reasoner that asks it and sees."""
    opened: list[Any] = []

    def start(replies: tuple[str, ...]) -> tuple[Reasoner, OpenAIServer]:
        left = list(replies)
        server = OpenAIServer(otherwise=lambda request: chat(left.pop(0)))
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        file = tmp_path / "writer.toml"
        text = PROFILE.replace(" MORE", "").replace("[llm]\n", "[llm]\nsees = true\n")
        file.write_text(
            text.replace("max_retries = 2", "max_retries = 0, max_side = 4096, min_side = 1")
        )
        reasoner = Reasoner(load_profile(str(file)))
        opened.extend((server, reasoner))
        return reasoner, server

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("VIPER_HOME", str(tmp_path / "home"))
    yield start
    for each in opened:
        each.close()


def sent_pictures(body: Any) -> list[np.ndarray[Any, Any]]:
    """The pictures of a request's messages in their order."""
    parts = (part for message in body["messages"] if isinstance(message["content"], list)
             for part in message["content"])  # fmt: skip
    addresses = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    files = [io.BytesIO(base64.b64decode(address.partition(",")[2])) for address in addresses]
    return [np.asarray(Image.open(file).convert("RGB")) for file in files]


@pytest.mark.parametrize("sample", SAMPLES, ids=[f"{n}-{s.kind}" for n, s in enumerate(SAMPLES)])
def test_an_episode_is_solved(sample: FineSample, begin: Begin) -> None:
    reasoner, server = begin(sample.plan)
    result = reasoner.run(list(sample.pictures), sample.question, strategy="look", task="question")
    assert result.answer is not None and str(result.answer.value) == str(sample.answer)
    assert len(server.received) == len(sample.plan)
    sent = sent_pictures(server.received[-1].body)
    names = shown_pictures(result.trace)
    expected = [*sample.pictures, *(result.media.pixels(name) for name in names)]
    assert [each.shape for each in sent] == [each.shape for each in expected]
    for own, other in zip(sent, expected, strict=True):
        assert np.abs(own.astype(int) - other).mean() < 6, "JPEG at most"
    assert KEY not in json.dumps(server.received[-1].body)
