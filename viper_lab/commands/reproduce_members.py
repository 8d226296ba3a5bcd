"""Further processes of a reproduction: started with it, told of by it, ended with it.

A member runs the same command line with ``--member``. It prints a JSON object a line for whoever
started it, and ends when its standard input does.
"""

from __future__ import annotations

import _thread
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from viper.evaluate.reports.escape import for_terminal

if TYPE_CHECKING:
    from viper.evaluate.engines.runner import Running
    from viper.evaluate.row import Row
    from viper_lab.commands.reproduce_progress import Progress
    from viper_lab.papers.lab import Step

_TELL_S = 0.5
"""Between two lines that tell how much a member answered."""

_END_S = 20
"""How long a member may take to end when it is asked to."""


class Told:
    """A member's watcher: tells what is answered on standard output."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._untold, self._told_at = 0, 0.0
        self._news: set[Step] = set()

    def answered(self, step: Step, running: Running) -> None:
        """Counts an answer; tells of them now and then."""
        with self._lock:
            self._untold += 1
            self._news.add(step)
            if time.monotonic() - self._told_at >= _TELL_S:
                self._tell(step)

    def finished(self, step: Step, rows: Sequence[Row]) -> None:
        """Tells what a step came to, if anything of it was answered now."""
        with self._lock:
            self._tell(step)
            if step in self._news:
                mean = sum(row.score for row in rows) / max(1, len(rows))
                self._say({"step": [step.name, step.part, step.seed], "mean": mean})

    def _tell(self, step: Step) -> None:
        if self._untold:
            self._say({"step": [step.name, step.part, step.seed], "answered": self._untold})
        self._untold, self._told_at = 0, time.monotonic()

    def _say(self, event: dict[str, Any]) -> None:
        self._out.write(json.dumps(event) + "\n")
        self._out.flush()


def end_with_starter() -> None:
    """Interrupts this process's main thread once standard input ends."""

    def watch() -> None:
        # Not sys.stdin, whose lock the interpreter wants when it ends.
        while os.read(0, 1 << 12):
            pass
        _thread.interrupt_main()

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def members(count: int, arguments: Sequence[str], progress: Progress) -> Iterator[Members]:
    """That many further processes while the block runs; they end with it, whatever happens.

    Args:
        arguments: of the command line, without the name of the program.
        progress: is told what they answer.
    """
    found = Members(count, arguments, progress)
    try:
        yield found
    finally:
        found.end()


class Members:
    """Running members; see :func:`members`."""

    def __init__(self, count: int, arguments: Sequence[str], progress: Progress) -> None:
        line = [sys.executable, "-m", "viper", *arguments, "--member"]
        # In a session of their own: Ctrl-C is for this process, which then ends them.
        self._running = [
            subprocess.Popen(
                line,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            for _ in range(count)
        ]
        self._ears = [
            threading.Thread(target=_listen, args=(one.stdout, progress), daemon=True)
            for one in self._running
        ]
        for ear in self._ears:
            ear.start()

    def wait(self) -> None:
        """Until all have ended by themselves; one that failed has left its answers to others."""
        for ear, one in zip(self._ears, self._running, strict=True):
            ear.join()
            one.wait()

    def end(self) -> None:
        """Asks those that still run to end, and sees to it."""
        for one in self._running:
            assert one.stdin is not None
            one.stdin.close()
        deadline = time.monotonic() + _END_S
        for one in self._running:
            try:
                one.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()


def _listen(lines: IO[str], progress: Progress) -> None:
    for line in lines:
        try:
            event = json.loads(line)
            name, part, seed = event["step"]
        except (ValueError, LookupError, TypeError):  # a library's own words
            print(for_terminal(line.rstrip()), file=sys.stderr)
            continue
        if "answered" in event:
            progress.more(event["answered"], f"{name}, {part}, seed {seed}")
        else:
            progress.done(name, part, seed, event["mean"])


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
