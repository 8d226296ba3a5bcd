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
