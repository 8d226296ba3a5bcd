"""The bar of a terminal, on a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

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
