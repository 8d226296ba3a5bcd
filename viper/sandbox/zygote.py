"""The small process that forks locked children. It imports once and runs no program itself.

:mod:`viper.sandbox.pool` starts it with its own environment. It is single-threaded, so a fork
copies a process that is at rest; a fork of the parent (threads, CUDA) would not. It ends when the
parent ends.

:func:`main` imports the prelude and warms one :class:`viper.sandbox.child.ChildRuntime` up; then
each request forks it (:meth:`Zygote._fork`), and the pipe and sockets of the fork go to the parent.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import resource
import select
import signal
import socket
import sys
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import msgpack

from viper.sandbox.arrays import mapped
from viper.sandbox.child import WARM_ROUNDS, ChildRuntime, load_late_libraries, run_child
from viper.sandbox.interface import Limits, Prelude, Source
from viper.sandbox.lockdown import MAX_DESCRIPTORS, PROGRAM_FD, TRACE_FD, Lockdown
from viper.sandbox.wire import CHILD, FAILED, FORK, MESSAGE, SHARE, SHARING, STATUS

# Statuses of ended children to keep: the parent asks for one as soon as its child is gone, so only
# those of a parent that gave up remain, and hundreds of numbers cost nothing.
_MAX_STATUSES = 256


def main(control_fd: int) -> None:
    """Serve fork requests on the control socket until the parent is gone.

    Args:
        control_fd: descriptor of a stream socket that carries ``zygote_protocol``.
    """
    # Children use low numbers for their own descriptors: leave those to them.
    control = socket.socket(fileno=fcntl.fcntl(control_fd, fcntl.F_DUPFD_CLOEXEC, 10))
    os.close(control_fd)
    blank = os.open(os.devnull, os.O_RDWR)
    for number in (PROGRAM_FD, TRACE_FD):
        if blank != number:
            os.dup2(blank, number)
    try:
        zygote = Zygote(control, msgpack.unpackb(sys.stdin.buffer.read(), strict_map_key=True))
    except Exception as error:  # noqa: BLE001 - reported to the parent, then the end
        text = f"{type(error).__name__}: {error}".encode()[:2000]
        control.sendall(MESSAGE.pack(FAILED, len(text), 0) + text)
        return
    zygote.serve()


class Zygote:
    """Forks a child for each request."""

    def __init__(self, control: socket.socket, boot: dict[str, Any]) -> None:
        self.control = control
        limits = Limits(**boot["limits"])
        sources = tuple(Source(*source) for source in boot["sources"])
        # The turns of a session add up; the parent ends each of them by wall time before.
        cpu_s = int(limits.time_s) * 10 + 10
        self.lockdown = Lockdown(limits.memory_mb, cpu_s, frozenset(boot["skip"]))
        self.child = ChildRuntime(Prelude(boot["prelude"], boot["config"], sources), limits)
        self.child.warm_up(WARM_ROUNDS)
        load_late_libraries()
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = MAX_DESCRIPTORS if most == resource.RLIM_INFINITY else min(MAX_DESCRIPTORS, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        self.statuses: OrderedDict[int, int] = OrderedDict()
        self.pid = os.getpid()
        self._parent = _open_pidfd(os.getppid())
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        gc.collect()
        gc.freeze()

    def serve(self) -> None:
        """Answer requests until the control socket closes or the parent dies."""
        watched = [self.control.fileno(), self._wake_read]
        if self._parent is not None:
            watched.append(self._parent)
        while True:
            ready = select.select(watched, [], [])[0]
            if self._parent in ready:
                return
            if self._wake_read in ready:
                os.read(self._wake_read, 4096)
                with contextlib.suppress(ChildProcessError):
                    while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                        self._remember(*ended)
            if self.control.fileno() in ready and not self._answer():
                return

    def _answer(self) -> bool:
        """Answer one request; False if the parent has closed the socket, at whichever step."""
        try:
            request = self.control.recv(MESSAGE.size, socket.MSG_WAITALL)
            if len(request) < MESSAGE.size:
                return False
            kind, pid, number = MESSAGE.unpack(request)
            if kind == FORK:
                self._fork()
            elif kind == SHARE:
                header, descriptors, _, _ = socket.recv_fds(self.control, pid, number)
                self._fork(header, descriptors)
                for descriptor in descriptors:
                    os.close(descriptor)
            else:
                if pid not in self.statuses:
                    with contextlib.suppress(ChildProcessError):
                        self._remember(*os.waitpid(pid, 0))
                self.control.sendall(MESSAGE.pack(STATUS, pid, self.statuses.get(pid, -1)))
        except ConnectionError:
            return False
        return True

    def _fork(self, header: bytes | None = None, descriptors: Sequence[int] = ()) -> None:
        """Fork a child; with a header, one that maps the arrays of these descriptors."""
        ours, theirs = socket.socketpair()
        # A whole frame of most programs fits, so that neither side waits for the other to read.
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        trace_read, trace_write = os.pipe()
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if header is not None:
                self.child.share(mapped(header, descriptors))
            run_child(self.child, theirs, trace_write, self.lockdown, self.pid)
        theirs.close()
        os.close(trace_write)
        pidfd = _open_pidfd(pid)
        sent = [ours.fileno(), trace_read] + ([pidfd] if pidfd is not None else [])
        kind = CHILD if header is None else SHARING
        socket.send_fds(self.control, [MESSAGE.pack(kind, pid, 0)], sent)
        ours.close()
        os.close(trace_read)
        if pidfd is not None:
            os.close(pidfd)

    def _remember(self, pid: int, status: int) -> None:
        self.statuses[pid] = status
        while len(self.statuses) > _MAX_STATUSES:
            self.statuses.popitem(last=False)


def _open_pidfd(pid: int) -> int | None:
    return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
