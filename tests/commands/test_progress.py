"""The bar and the thumbnails of a terminal, on a pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest

from tests.evaluate.fake_backends import a_set

ROOT = Path(__file__).parents[2]

CODE = """
from pathlib import Path
from viper_lab.papers.cell_runner import StoredRun
from viper_lab.papers.plan import Plan, watching
step = StoredRun("+ ACE [red]x[/red]", "video", 0, 1, Path("none"))
with watching(Plan((step,), (0,))) as watcher:
    watcher.tell(step, None)
    watcher.tell(step, 0.5)
"""


def all_of(terminal: int) -> str:
    """Everything until the other end is closed, which Linux tells by an error."""
    parts = []
    with suppress(OSError):
        while part := os.read(terminal, 1 << 12):
            parts.append(part)
    os.close(terminal)
    return b"".join(parts).decode()


def test_a_line_stands_above_the_bar_and_names_are_no_markup() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", CODE]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    process = subprocess.Popen(
        command, stderr=theirs, stdout=subprocess.PIPE, env=environment, cwd=ROOT
    )
    os.close(theirs)
    shown = all_of(ours)
    assert process.communicate() == (b"", None) and process.returncode == 0, shown
    assert "answers + ACE [red]x[/red], video, seed 0" in shown
    line = "[1/1] + ACE [red]x[/red]: video, seed 0, mean 0.500; nothing left to answer"
    assert f"\x1b[2K{line}" in shown


THUMBNAIL = """
import numpy as np
from viper.commands.terminal import echo_thumbnail
echo_thumbnail(np.full((40, 60, 3), 200, np.uint8))
print("the end")
"""


@pytest.mark.parametrize(("size", "drawn"), [((40, 100, 1000, 800), True), ((0, 0, 0, 0), False)])
def test_a_thumbnail_on_a_terminal(size: tuple[int, int, int, int], drawn: bool) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *size))
    running = subprocess.Popen(
        [sys.executable, "-c", THUMBNAIL], stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    written = all_of(ours)
    assert running.wait(60) == 0 and "the end" in written and ("▀" in written) == drawn


def test_there_is_no_thumbnail_without_a_terminal() -> None:
    done = subprocess.run(
        [sys.executable, "-c", THUMBNAIL], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("the end\n", "")


def on_terminal(code: str, columns: int = 80) -> str:
    """What a program shows on a terminal of this width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    running = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**environment, "TERM": "xterm"},
        cwd=ROOT,
    )
    os.close(theirs)
    shown = all_of(ours)
    assert running.wait(60) == 0, shown
    return shown


STEPS = """
import time
from viper.commands.terminal import status
from viper.models.memory import MemoryBudget
from viper.steps import step
budget = MemoryBudget()
with status("answering"):
    with step("running the program"):
        budget.backend(budget.weights(), "detector", lambda: time.sleep(1.3) or object())
        time.sleep(0.3)
"""


def test_a_wait_names_the_model_that_loads_and_the_step_with_seconds() -> None:
    shown = on_terminal(STEPS)
    first, last = (shown.index(f"loading the detector … {seconds} s") for seconds in (0, 1))
    assert first < last < shown.rindex("running the program … ")


def test_a_wait_without_a_terminal_is_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STEPS], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stderr == "answering …\n"


def test_the_first_cold_run_on_a_terminal_points_to_warm_ones_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, profile = a_set(tmp_path / "set", 2)
    monkeypatch.setenv("VIPER_HOME", str(tmp_path / "state"))
    picture = tmp_path / "set" / "pictures" / "0.png"
    command = ["run", str(picture), "what color is thing 0?", "--profile", str(profile)]
    quiet, first, second = (
        on_terminal(f"from viper.cli import main; main({[*command, *more]})")
        for more in (["-q"], [], [])
    )
    hints = [shown.count("hint: ") for shown in (quiet, first, second)]
    assert hints == [0, 1, 0] and "-i " in first and "--server " in first
    assert "…" not in quiet and quiet.endswith("\nred\r\n")


WRAPPED = """
from viper.commands.terminal import note, wrapped
note(wrapped("    " + "find(patch(image0, 145.71, 31.96), 'cube') " * 4))
"""


@pytest.mark.parametrize("columns", [40, 57, 80])
def test_lines_break_between_words(columns: int) -> None:
    lines = on_terminal(WRAPPED, columns).splitlines()
    assert len(lines) > 2 and max(map(len, lines)) <= columns
    words = {word for line in lines for word in line.split()}
    assert words == {"find(patch(image0,", "145.71,", "31.96),", "'cube')"}
    assert lines[0].startswith("    find") and all(line.startswith(" " * 6) for line in lines[1:])
