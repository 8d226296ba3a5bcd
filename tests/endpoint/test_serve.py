"""``viper serve`` with the profile ``endpoint``, in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import pytest
from PIL import Image

from tests.endpoint.conftest import Start
from tests.endpoint.model import KEY, Model, digests, sent
from tests.models.llm.openai_server import refusal

WAIT_S = 20


class Served(NamedTuple):
    """A client of the server, the model that the server asks, and the lines of its log."""

    client: httpx.Client
    model: Model
    log: Iterator[str]


@pytest.fixture
def served(start: Start) -> Iterator[Served]:
    model = start()
    command = [sys.executable, "-m", "viper", "serve", "--port", "0", "--log-queries"]
    command += ["--profile", "endpoint"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        lines = iter(process.stderr.readline, "")
        url = next(line for line in lines if line.startswith("serving on ")).split()[-1]
        with httpx.Client(base_url=url, timeout=WAIT_S) as client:
            yield Served(client, model, lines)
    finally:
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, log
    assert KEY not in log and "Traceback" not in log


def ask(client: httpx.Client, path: Path, query: str, **fields: str) -> httpx.Response:
    with path.open("rb") as stream:
        files = {"media": (path.name, stream)}
        return client.post("/v1/run", files=files, data={"query": query, **fields})


def test_queries_over_http(served: Served, small: Path, wide: Path) -> None:
    client, model, _ = served
    with ThreadPoolExecutor(2) as pool:
        answers = list(
            pool.map(lambda each: ask(client, *each), [(small, "what is it?"), (wide, "the cube")])
        )
    assert [answer.status_code for answer in answers] == [200, 200], answers[0].text
    question, box = (answer.json() for answer in answers)
    assert (question["answer"], box["box"]) == ("a cube", [0.0, 0.0, 1024.0, 900.0])
    usages = [question["usage"], box["usage"]]
    assert sum(each["llm_calls"] for each in usages) == len(model.asked) == 7
    assert sum(each["prompt_tokens"] for each in usages) == model.prompt_tokens
    assert sum(each["completion_tokens"] for each in usages) == model.completion_tokens
    assert sum(each["cost_usd"] for each in usages) == pytest.approx(model.cost_usd(), abs=1e-9)
    shown = [np.array(Image.open(path)) for path in (small, wide)]
    expected = digests(map(sent, shown[:2]))
    assert sorted(digests(each.pictures[0] for each in model.of("program"))) == sorted(expected)


def test_the_log_says_why_an_endpoint_refused_and_the_server_goes_on(
    served: Served, small: Path
) -> None:
    client, model, log = served
    good: Any = model.replies["program"]
    model.replies["program"] = refusal(413, f"image too large for {KEY}")
    refused = ask(client, small, "what is it?")
    assert refused.status_code == 500 and KEY not in refused.text
    number = refused.json()["error"]["message"].split()[-1]
    line = next(line for line in log if number in line)
    assert "image too large" in line and "lower max_side" in line and KEY not in line
    model.replies["program"] = good
    assert ask(client, small, "what is it?").json()["answer"] == "a cube"
