"""Processes that somebody else ends, and machines with few descriptors or little memory."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.processes import descendants, state
from viper.embedded import MEDIA
from viper.sandbox import Sandbox

ROOT = Path(__file__).parents[2]


def test_a_child_that_was_killed_while_it_waited_is_replaced() -> None:
    with Sandbox() as sandbox:
        assert sandbox.run("answer = 1").value == 1
        assert sandbox.zygote_pid is not None
        time.sleep(0.5)  # until the next children wait
        waiting = descendants(sandbox.zygote_pid)
        assert waiting
        os.kill(waiting[0], signal.SIGKILL)
        while state(waiting[0]) != "Z":
            time.sleep(0.01)
        assert [sandbox.run("answer = 1").value for _ in range(4)] == [1] * 4


def bound(number: int, most: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(number, (most, most))


def viper(limit: Callable[[], None], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "viper", *arguments],
        input="answer = 1", capture_output=True, text=True, cwd=ROOT, preexec_fn=limit,
        check=False,
    )  # fmt: skip


def test_few_descriptors_are_enough() -> None:
    done = viper(bound(resource.RLIMIT_NOFILE, 40), "exec", "-", str(MEDIA / "table.png"))
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_too_little_address_space_is_one_line() -> None:
    limit = bound(resource.RLIMIT_AS, 1_500 << 20)
    done = viper(limit, "run", str(MEDIA / "table.png"), "how many balls are there?")
    last = done.stderr.splitlines()[-1]
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr
    assert last.startswith("viper: ") and "memory" in last
