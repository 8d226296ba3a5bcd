"""The parent's side of the zygote: a warm pool of locked children, each used once.

:meth:`Pool.take` starts the zygote (a bare Python with the paths of six packages) where there is
none, hands out a child that waits and asks for the next one. Children with shared arrays are forked
on demand. A zygote that was killed from outside is started again once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import itertools
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import msgpack

from viper.errors import SandboxHostError, UsageError
from viper.sandbox import wire
from viper.sandbox.arrays import Arrays, header_of, sealed
from viper.sandbox.interface import Layer, Limits, Prelude

# Children that wait: one to take while the other is being forked. Each takes memory.
POOL_SIZE = 2

# A zygote imports the API and numpy first; a minute covers a machine that swaps.
_BOOT_S = 60.0

# 0 where the system lacks the flag.
_CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
# What a zygote imports; it finds the folders of these packages and no others.
_PACKAGES = ("viper", "RestrictedPython", "msgpack", "numpy", "pyseccomp", "landlockpy")
_BOOTSTRAP = (
    "import sys, json; sys.path.extend(json.loads(sys.argv[1])); "
    "from viper.sandbox.zygote import main; main(int(sys.argv[2]))"
)
# The first frame of the program in the stack that faulthandler writes.
_FRAME = re.compile(rb'File "<program[^"]*", line (\d{1,9}) in ([^\s<]\S*|<\w+>)')


class Child:
    """One locked process, seen from the parent.

    Attributes:
        channel: the connection to it.
        layers: the protection layers that it reported before it received any program.
        runs, seconds: how often, and how long, it ran a program, if it is kept for further ones.
    """

    def __init__(self, pid: int, descriptors: Sequence[int], max_meta: int, max_raw: int) -> None:
        sock, self._trace_fd, *pidfd = descriptors
        self.pid, self._pidfd = pid, pidfd[0] if pidfd else None
        self.channel = wire.Channel(socket.socket(fileno=sock), max_meta, max_raw)
        self.layers: tuple[Layer, ...] = ()
        self.runs, self.seconds = 0, 0.0
        self._closed = False

    def signal(self, number: int) -> None:
        """Send a signal; do nothing if the process is gone."""
        with contextlib.suppress(ProcessLookupError):
            if self._pidfd is not None:
                signal.pidfd_send_signal(self._pidfd, number)
            else:
                os.kill(self.pid, number)

    def where(self, timeout_s: float = 0.01, attempts: int = 4) -> tuple[int | None, str | None]:
        """Return the (line, function) that the program is at, or Nones if it does not reply.

        The process is asked by a signal. Between two calls it may have no frame to show, so it is
        asked again. It is about to be killed, and 40 ms more do not matter.
        """
        text = b""
        for _ in range(attempts):
            self.signal(signal.SIGUSR1)
            deadline = time.monotonic() + timeout_s
            while (left := deadline - time.monotonic()) > 0:
                if not select.select([self._trace_fd], [], [], left)[0]:
                    break
                part = os.read(self._trace_fd, 65536)
                text += part
                frame = _FRAME.search(text)
                if frame:
                    return int(frame[1]), frame[2].decode("ascii", "replace")
                # a stack of a hundred frames is far shorter: the child writes something else
                if not part or len(text) > 65536:
                    return None, None
        return None, None

    def kill(self) -> None:
        """End the process and release its descriptors; calling it again is safe."""
        if self._closed:
            return
        self._closed = True
        self.signal(signal.SIGKILL)
        self.channel.sock.close()
        os.close(self._trace_fd)
        if self._pidfd is not None:
            os.close(self._pidfd)


class Pool:
    """Hands out children of one zygote; safe to use from several threads.

    Args:
        skip: layers to leave out, for tests that remove one.
    """

    def __init__(
        self, limits: Limits, prelude: Prelude, skip: frozenset[str] = frozenset()
    ) -> None:
        self._limits, self._prelude, self._skip = limits, prelude, skip
        # A result, printed text (four bytes a character at most), and what a frame says besides.
        self._max_meta = int(limits.result_kb * 1024) + int(limits.output_kb * 4096) + 65536
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._spare: deque[Child] = deque()
        self._sharing: deque[Child] = deque()

    def start(self) -> None:
        """Start the zygote and request the first children, without waiting for them."""
        with self._lock:
            self._ensure_started()

    def take(self, arrays: Arrays | None = None, *, again: bool = True) -> Child:
        """Return a fresh child that is locked and ready.

        Args:
            arrays: arrays that the child maps read-only; None for a child without.
            again: try once more if the child has been ended from outside.

        Raises:
            SandboxHostError: no child could be started.
            SandboxUnavailableError: arrays cannot be shared on this system.
            UsageError: the arrays are too many or too large.
        """
        with self._lock:
            try:
                child = self._next_child(arrays)
            except (OSError, SandboxHostError):
                self._stop()  # the zygote may have been killed from outside: try once more
                try:
                    child = self._next_child(arrays)
                except (OSError, SandboxHostError) as error:
                    self._stop()
                    if isinstance(error, SandboxHostError):
                        raise
                    text = f"no sandbox process could be started: {error}"
                    raise SandboxHostError(text) from None
        try:  # the child reports when it has locked itself
            meta, _ = child.channel.receive(time.monotonic() + _BOOT_S)
            child.layers = tuple(Layer(*layer) for layer in meta["layers"])
            if not child.channel.wait(0):
                return child
            problem = "it was ended from outside"
        except (wire.WireError, KeyError, TypeError) as error:
            problem = str(error)
        child.kill()
        if again:  # a process that was ended while it waited is no fault of the program
            return self.take(arrays, again=False)
        raise SandboxHostError(f"a sandbox process did not start: {problem}")

    @property
    def zygote_pid(self) -> int | None:
        """Return the pid of the process that children are forked from, or None if it is not
        running.
        """
        process = self._process
        return None if process is None else process.pid

    def status(self, child: Child) -> int | None:
        """Return the wait status of a child that has ended or is about to; None if unknown."""
        with self._lock:
            try:
                self._send(wire.STATUS, child.pid)
                while True:
                    kind, pid, number = self._receive()
                    if kind == wire.STATUS and pid == child.pid:
                        return number if number >= 0 else None
            except (OSError, SandboxHostError):
                return None

    def close(self) -> None:
        """End the zygote and every child."""
        with self._lock:
            self._stop()

    def _next_child(self, arrays: Arrays | None) -> Child:
        self._ensure_started()
        if arrays is None:
            while not self._spare:
                self._receive()
            self._send(wire.FORK, 0)
            return self._spare.popleft()
        assert self._control is not None
        header, descriptors = header_of(arrays), list[int]()
        try:
            descriptors += map(sealed, arrays.values())
            with contextlib.suppress(BrokenPipeError):
                self._control.sendall(wire.MESSAGE.pack(wire.SHARE, len(header), len(descriptors)))
                socket.send_fds(self._control, [header], descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        while not self._sharing:
            self._receive()
        return self._sharing.popleft()

    def _ensure_started(self) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                return
            self._stop()  # killed from outside; its children died with it
        boot = {
            "limits": dataclasses.asdict(self._limits),
            "prelude": self._prelude.module,
            "config": dict(self._prelude.config),
            "sources": [dataclasses.astuple(source) for source in self._prelude.sources],
            "skip": sorted(self._skip),
        }
        try:
            packed = msgpack.packb(boot)
        except TypeError as error:
            raise UsageError(f"a prelude's config must hold plain values: {error}") from None
        ours, theirs = socket.socketpair()
        with theirs:
            arguments = [sys.executable, "-P", "-s", "-S", "-c", _BOOTSTRAP]
            arguments += [json.dumps(_import_paths(self._prelude)), str(theirs.fileno())]
            try:
                self._process = subprocess.Popen(
                    arguments,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    env=_ENVIRONMENT,
                    cwd="/",
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                raise SandboxHostError(f"the sandbox process cannot be started: {error}") from None
        self._control = ours
        ours.settimeout(_BOOT_S)
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as stdin:
            stdin.write(packed)
        for _ in range(POOL_SIZE):
            self._send(wire.FORK, 0)

    def _send(self, kind: bytes, pid: int) -> None:
        if self._control is None:
            raise SandboxHostError("the sandbox is closed")
        with contextlib.suppress(BrokenPipeError):  # the reply, or its absence, gives the reason
            self._control.sendall(wire.MESSAGE.pack(kind, pid, 0))

    def _receive(self) -> tuple[bytes, int, int]:
        """Return the next message, after :meth:`_send`; a new child joins the spare ones."""
        assert self._control is not None
        data, descriptors, _, _ = socket.recv_fds(
            self._control, wire.MESSAGE.size, 3, _CLOSE_ON_EXEC
        )
        if len(data) < wire.MESSAGE.size:
            raise SandboxHostError("the sandbox process ended unexpectedly")
        kind, pid, number = wire.MESSAGE.unpack(data)
        if kind == wire.FAILED:
            text = self._control.recv(pid, socket.MSG_WAITALL).decode("utf-8", "replace")
            raise SandboxHostError(f"the sandbox process cannot work: {text}")
        if kind in (wire.CHILD, wire.SHARING):
            child = Child(pid, descriptors, self._max_meta, int(self._limits.result_kb * 1024))
            (self._spare if kind == wire.CHILD else self._sharing).append(child)
        return kind, pid, number

    def _stop(self) -> None:
        for waiting in (self._spare, self._sharing):
            while waiting:
                waiting.popleft().kill()
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            if self._process.poll() is None:
                # Its children are in its process group, so they end even if no layer ends them.
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


# The whole environment of a zygote: no keys, no paths. With ``-P -s -S`` it equals ``-I`` with a
# fixed hash seed, which makes runs repeatable and which ``-I`` would ignore.
_ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "LC_ALL": "C.UTF-8",
}


def _import_paths(prelude: Prelude) -> list[str]:
    """Return the folders that the zygote must import from, and no others."""
    packages = (*_PACKAGES, prelude.module.partition(".")[0])
    specs = [spec for spec in map(importlib.util.find_spec, packages) if spec is not None]
    places = [spec.submodule_search_locations or filter(None, [spec.origin]) for spec in specs]
    folders = (str(Path(place).resolve().parent) for place in itertools.chain(*places))
    return list(dict.fromkeys(folders))
