"""A language model behind a server, and the command line that asks it about a picture."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commands.test_bad_input import viper
from tests.endpoint.model import KEY, written
from tests.models.llm.openai_server import Answer

PROFILE = """
name = "writer"
[llm]
backend = "openai"
model = "gpt-4.1-mini"
options = { max_retries = 2, price_per_million = { prompt = 0.4, completion = 1.6 } MORE }
[roles]
text = { backend = "llm", options = { select_by = "choice" } }
[run]
api = "abstract"
trials = 2
temperature = 0.0
prompt_style = "chat"
max_tokens = 512
"""


def chat(content: Any, finish: str = "stop", **message: Any) -> Answer:
    """An answer of a chat model; other fields of the message by keyword."""
    choice = {"index": 0, "finish_reason": finish, "message": {"content": content, **message}}
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    return Answer(json.dumps({"choices": [choice], "usage": usage}))


class Place:
    """A server, a picture, and the command line that asks about it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], server: Any) -> None:
        self.folder, self._capsys, self.server = folder, capsys, server
        self.picture = written(folder / "small.png", (40, 60))
        self.write_profile()

    def write_profile(self, more: str = "") -> None:
        (self.folder / "writer.toml").write_text(
            PROFILE.replace("MORE", f", {more}" if more else "")
        )

    def run(self, *more: str, query: str = "what is it?") -> tuple[int, str, str]:
        profile = str(self.folder / "writer.toml")
        given = ["run", str(self.picture), query, "--profile", profile, *more]
        code, out, err = viper(self._capsys, *given)
        assert "Traceback" not in err and KEY not in out + err
        return code, out, err

    def record(self, *more: str, query: str = "what is it?") -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("--json", *more, query=query)[1])
        return found


Begin = Callable[[Any], Place]
"""Starts a server that gives one answer, or what a function makes of each request."""
