"""A prelude that is on the attacker's side: plain Python inside the locked child.

It stands for a program that has broken out of the language rules, so that the
tests show what the process layers stop.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
from collections.abc import Callable, Mapping
from typing import Any

from viper.sandbox.wire import Ref

READABLE: Mapping[type, frozenset[str]] = {}


def _attempts(call: Any) -> dict[str, Callable[..., Any]]:
    libc = ctypes.CDLL(None, use_errno=True)
    return {
        "read_file": lambda path: os.read(os.open(path, os.O_RDONLY), 10),
        "write_file": lambda path: os.open(path, os.O_WRONLY | os.O_CREAT),
        "list_folder": lambda path: next(os.scandir(path)).name,
        "fork": lambda: os.fork(),
        "execute": lambda path: os.execv(path, [path]),
        "connect": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM),
        "unix_socket": lambda: socket.socketpair(),
        "kill_parent": lambda pid: os.kill(pid, signal.SIGKILL),
        "become_root": lambda: os.setuid(0),
        "trace": lambda pid: libc.ptrace(16, pid, 0, 0),
        "executable_memory": lambda: libc.mmap(None, 4096, 7, 0x22, -1, 0),
        "open_more": lambda: os.dup(3),
        "raise_limit": lambda: libc.setrlimit(9, (ctypes.c_ulong * 2)(1 << 40, 1 << 40)),
        "write_stdout": lambda: os.write(1, b"x"),
        "new_namespace": lambda: libc.unshare(0x10000000),
        "send_elsewhere": lambda: os.write(5, b"x"),
        "exit": lambda code: os._exit(code),
        "crash": lambda: ctypes.string_at(0),
        "send_raw": lambda data: call._channel.sock.sendall(data),
    }


def names(call: Callable[..., Any], config: Mapping[str, Any]) -> dict[str, object]:
    return _attempts(call)


def encode(obj: object) -> Ref | None:
    return None


def decode(ref: Ref, call: Callable[..., Any]) -> object:
    return ref
