"""The product works with the laboratory removed: every main command, on a table of one's own."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.forked import python
from viper.embedded import MEDIA

REMOVED = "import sys; sys.modules['viper_lab'] = None; from viper.__main__ import main; main()"
TABLE = MEDIA / "table.png"
WAIT_S = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a labelled table of two questions about one picture."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "table.png").write_bytes(TABLE.read_bytes())
    (folder / "own.csv").write_text(
        "media,query,answer,id\n"
        "table.png,what color is the ball closest to the cube?,red,one\n"
        "table.png,how many cubes are there?,1,two\n"
    )
    (folder / "count.py").write_text("answer = len(ImagePatch(image).find('cube'))\n")
    return folder


def command(folder: Path, *arguments: str) -> list[str]:
    return python("-c", REMOVED, *arguments, "--state", folder / "state")


def viper(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        command(folder, *arguments), cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[str]:
    """The address that a server prints; Ctrl-C ends it."""
    process = subprocess.Popen(
        [*command(folder, *arguments)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if address := re.search(r"http://\S+", line):
                yield address.group()
                break
        else:
            raise AssertionError("it printed no address")
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WAIT_S)


def test_a_picture_is_asked_about(folder: Path) -> None:
    record = json.loads(viper(folder, "run", "table.png", "the leftmost object", "--json"))
    assert len(record["box"]) == 4 and "execute_command" in record["program"]


def test_a_program_is_run(folder: Path) -> None:
    record = json.loads(viper(folder, "exec", "count.py", "table.png", "--json"))
    assert record["answer"] == 1


def test_a_table_is_evaluated_and_looked_at(folder: Path) -> None:
    viper(folder, "eval", "own.csv", "--out", "run")
    report = json.loads((folder / "run" / "report.json").read_text())
    assert report["n"] == 2
    process = python("-c", REMOVED, "view", "run", "--no-open", "--port", "0")
    with subprocess.Popen(process, cwd=folder, stdout=subprocess.PIPE, text=True) as viewing:
        assert viewing.stdout is not None
        address = viewing.stdout.readline().strip()
        try:
            page = httpx.get(address)
            assert page.status_code == 200 and "how many cubes are there?" in page.text
        finally:
            viewing.send_signal(signal.SIGINT)


def test_it_answers_over_http(folder: Path) -> None:
    with started(folder, "serve", "--port", "0") as address:
        reply = httpx.post(
            f"{address}/v1/run",
            files={"media": TABLE.read_bytes()},
            data={"query": "how many cubes are there?"},
            timeout=WAIT_S,
        )
        assert reply.status_code == 200 and reply.json()["answer"] == "1"


def test_a_bank_is_mined(folder: Path) -> None:
    viper(folder, "ace", "mine", "--data", "own.csv", "--shots", "2", "--out", "bank.jsonl")
    examples = [json.loads(line) for line in (folder / "bank.jsonl").read_text().splitlines()]
    assert examples and all("execute_command" in one["program"] for one in examples)


def test_what_the_laboratory_offers_is_not_there(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", REMOVED, "--help"], capture_output=True, text=True, check=True
    )
    assert "  eval " in done.stdout and "  lab " not in done.stdout
