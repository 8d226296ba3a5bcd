"""A fork of the server of tests is like a new interpreter."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.forked import python
from tests.processes import state


def test_streams_arguments_folder_and_environment_are_those_of_the_caller(tmp_path: Path) -> None:
    code = (
        "import atexit, os, sys\n"
        "atexit.register(print, 'the end')\n"
        "print(sys.argv[1:], input(), os.getcwd(), os.environ['OWN'], 'torch' in sys.modules)\n"
        "sys.exit('no')"
    )
    done = subprocess.run(
        python("-c", code, "one"),
        input="text\n",
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "OWN": "mine"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "no\n")
    assert done.stdout == f"['one'] text {tmp_path} mine True\nthe end\n"


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, -2), (signal.SIGTERM, -15), (signal.SIGKILL, -9)]
)
def test_a_signal_ends_it(number: signal.Signals, status: int) -> None:
    code = "import os, sys, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)"
    with subprocess.Popen(
        python("-c", code), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        fork = int(running.stdout.readline())
        running.send_signal(number)
        _, said = running.communicate(timeout=60)  # to the end of both, who hold the streams
    assert running.returncode == status
    assert ("KeyboardInterrupt" in said) is (number == signal.SIGINT)
    while state(fork) != "Z":  # it has closed the streams, and is about to be gone
        time.sleep(0.01)
