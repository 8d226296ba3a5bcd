"""``viper lab seek``: graphs, records and runs from the command line."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests import forked
from tests.commands.test_bad_input import refused
from tests.lab.study.test_records import studied
from viper.cli import cli
from viper.errors import UnknownNameError, UsageError
from viper.strategies.seek.graph import load_route
from viper_lab.study.records import session_line


def viper(*args):
    done = CliRunner().invoke(cli, ["lab", "seek", *map(str, args)], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    assert done.return_value == 0
    return done


@pytest.fixture
def records(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text("".join(map(session_line, studied(load_route("avis")))))
    return path


def test_a_graph_is_shown_and_checked(tmp_path):
    assert viper("graph").stdout.startswith("START: caption, vqa, detect\n")
    assert json.loads(viper("graph", "every", "--json").stdout)["name"] == "every"
    with pytest.raises(UnknownNameError):
        viper("graph", "nowhere")
    (tmp_path / "bad.toml").write_text("[states]\nSTART = ['fly']")
    with pytest.raises(UsageError, match="unknown action 'fly'"):
        viper("graph", tmp_path / "bad.toml")


def test_from_records_to_a_graph_that_can_be_used(records, tmp_path):
    out, examples = tmp_path / "sub" / "mine.toml", tmp_path / "examples.jsonl"
    done = viper("induce", records, "--out", out, "--examples", examples, "--name", "mine")
    assert done.stdout == f"{out}: 12 states, 41 transitions\n"
    found = load_route(str(out))
    expected = load_route("avis")
    assert {k: set(v) for k, v in found.states.items()} == {
        k: set(v) for k, v in expected.states.items()
    }
    lines = [json.loads(line) for line in examples.read_text().splitlines()]
    assert f"{len(lines)} decisions" in done.stderr and {"query", "action"} <= set(lines[0])


def test_statistics_of_records(records, tmp_path):
    shown = viper("stats", records).stdout
    assert "600 questions" in shown and "action 1: " in shown and "    START: " in shown
    assert json.loads(viper("stats", records, "--json").stdout)["sessions"] == 600
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(UsageError, match="no records"):
        viper("stats", tmp_path / "empty.jsonl")


def test_a_study_tells_its_address_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    line = ["lab", "seek", "record", "world-knowledge", "--limit", "1", "--no-open"]
    with subprocess.Popen(
        forked.viper(*line, "--out", tmp_path / "records.jsonl"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None and running.stdout.readline().startswith("http://127")
        time.sleep(1)  # until it serves
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
    assert running.returncode == 130 and "Traceback" not in said
    assert "0 questions recorded" in said


def test_a_study_of_another_task_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "lab", "seek", "record", "world-tag", "--no-open")
    assert "a study asks questions about one picture" in said
