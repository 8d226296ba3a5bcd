"""Output that nobody can take: one line, and the documented exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TextIO

import pytest

from tests.evaluate.fake_backends import a_set
from viper.cli import main

COMMANDS = (
    "run {picture} what --profile {profile}",
    "run {picture} what --profile {profile} --json",
    "run {picture} what --profile {profile} --show-prompt",
    "exec {program} {picture} --profile {profile}",
    "eval {set} --profile {profile} --out {run} --json",
    "report {run}",
    "data list",
    "data show {set}",
    "run --help",
    "--help",
)
REASONS = {"full": "No space left on device", "closed": "Broken pipe"}


def lost_output(kind: str) -> TextIO:
    """A stream to a full disk, or to a pipe that nobody reads."""
    if kind == "full":
        return Path("/dev/full").open("w")
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "w")


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("lost")
    questions, profile = a_set(folder, 2)
    program = folder / "program.py"
    program.write_text("answer = 'red'")
    run = folder / "run"
    with pytest.raises(SystemExit) as ended:
        main(["eval", str(questions), "--profile", str(profile), "--out", str(run), "--no-html"])
    assert ended.value.code == 0
    picture = folder / "pictures" / "0.png"
    return {
        "picture": picture, "profile": profile, "program": program, "set": questions, "run": run
    }  # fmt: skip


@pytest.mark.parametrize("kind", REASONS)
@pytest.mark.parametrize("command", COMMANDS)
def test_one_line_says_that_the_output_is_lost(
    command: str,
    kind: str,
    places: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = command.format_map(places).split()
    if arguments[0] == "eval":
        arguments[-2] = f"{arguments[-2]}-{kind}"
    with monkeypatch.context() as patched, lost_output(kind) as stream:
        patched.setattr(sys, "stdout", stream)
        with pytest.raises(SystemExit) as ended:
            main(arguments)
    said = capsys.readouterr().err
    assert ended.value.code == 1, said
    last = said.splitlines()[-1]
    assert last == f"viper: the output could not be written ({REASONS[kind]})"
    assert "Traceback" not in said


@pytest.mark.parametrize("kind", REASONS)
def test_nothing_more_is_printed_when_the_process_ends(kind: str) -> None:
    with lost_output(kind) as stream:
        ended = subprocess.run(
            [sys.executable, "-m", "viper", "data", "list"],
            stdout=stream, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert ended.returncode == 1 and ended.stderr.count("\n") == 1


def test_a_command_without_an_output_ends_well() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "viper", "data", "list"],
        stderr=subprocess.PIPE, text=True, check=False, preexec_fn=lambda: os.close(1),
    )  # fmt: skip
    assert ended.returncode == 0 and ended.stderr == ""
