"""The process layers one by one, and how a child ends.

What a broken-out program may try is in ``tests/sandbox/abuse/system_calls.py`` and
``wire_frames.py``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from viper.errors import SandboxHostError, SandboxUnavailableError, UsageError
from viper.sandbox import Limits, Prelude, Sandbox

HOSTILE = Prelude("tests.sandbox.hostile_prelude")


@pytest.fixture(scope="module")
def hostile() -> Iterator[Sandbox]:
    with Sandbox(prelude=HOSTILE) as made:
        yield made


@pytest.mark.parametrize("kept", ["rlimits", "landlock", "seccomp"])
def test_one_layer_alone_keeps_files_closed(kept: str) -> None:
    everything = {"descriptors", "rlimits", "uid", "landlock", "seccomp"}
    with Sandbox(prelude=HOSTILE, mode="weak", without=tuple(everything - {kept})) as sandbox:
        held = {layer.name: layer for layer in sandbox.layers()}
        if not held[kept].holds:
            pytest.skip(f"not here: {held[kept].detail}")
        assert not sandbox.run("answer = repr(read_file('/etc/passwd'))").ok


def test_every_layer_is_reported(sandbox: Sandbox) -> None:
    names = [layer.name for layer in sandbox.layers()]
    assert names == [
        "policy", "process", "descriptors", "rlimits", "uid", "pdeathsig", "dumpable",
        "no_new_privs", "landlock", "seccomp",
    ]  # fmt: skip
    assert all(layer.detail and layer.without != "one layer fewer" for layer in sandbox.layers())


def test_strict_refuses_without_seccomp() -> None:
    strict = Sandbox(without=("seccomp",))
    with strict, pytest.raises(SandboxUnavailableError, match="--sandbox=weak"):
        strict.run("answer = 1")
    with Sandbox(without=("seccomp",), mode="weak") as sandbox:
        assert sandbox.run("answer = 1").value == 1


def test_unknown_mode() -> None:
    with pytest.raises(UsageError, match="strict, weak"):
        Sandbox(mode="lax")  # type: ignore[arg-type]


def test_a_prelude_that_cannot_be_imported_is_named() -> None:
    sandbox = Sandbox(prelude=Prelude("viper.no_such_prelude"))
    with sandbox, pytest.raises(SandboxHostError, match="no_such_prelude"):
        sandbox.run("answer = 1")


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        ("exit(0)", "ended with status 0, no answer"),
        ("crash()", "SIGSEGV"),
        ("fork()", "forbidden system call"),
    ],
)
def test_an_end_without_an_answer_is_a_crash(attempt: str, message: str, hostile: Sandbox) -> None:
    failure = hostile.run(f"{attempt}").failure
    assert failure is not None
    assert failure.kind == "crash" and message in failure.message


def test_a_killed_zygote_is_replaced() -> None:
    with Sandbox(limits=Limits(time_s=5)) as sandbox:
        sandbox.run("answer = 1")
        process = sandbox._pool._process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert sandbox.run("answer = 2").value == 2


def test_closing_ends_children_that_nothing_else_would_end() -> None:
    layers = ("descriptors", "rlimits", "uid", "pdeathsig", "landlock", "seccomp")
    sandbox = Sandbox(mode="weak", without=layers)
    sandbox.run("answer = 1")
    child = sandbox._pool.take()
    spare = sandbox._pool.take()
    sandbox.close()
    for pid in (child.pid, spare.pid):
        _await_end(pid)


ORPHAN = """
import os, sys
from viper.sandbox import Sandbox
sandbox = Sandbox()
sandbox.run("answer = 1")
child = sandbox._pool.take()
print(sandbox._pool._process.pid, child.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_all_processes_end_with_the_parent() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ORPHAN], capture_output=True, text=True, check=False
    )
    zygote, child = (int(word) for word in done.stdout.split())
    for pid in (zygote, child):
        _await_end(pid)


def _await_end(pid: int) -> None:
    """Waits (pytest's timeout bounds it) until a process is gone or a zombie."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    import select

    select.select([descriptor], [], [])
    os.close(descriptor)
