"""Processes that a process has started."""

from __future__ import annotations

from pathlib import Path


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that they have started."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for file in files for child in file.read_text().split()]
    return children + [each for child in children for each in descendants(child)]


def state(pid: int) -> str:
    """Return the state of a process as a letter, such as R for one that computes; Z if it ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"
