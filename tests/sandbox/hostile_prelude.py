"""A prelude that is on the attacker's side: plain Python inside the locked child.

It stands for a program that has broken out of the language rules, so that the
tests show what the process layers and the parent stop. ``call`` and ``ref`` speak the
wire as it should be spoken, ``send_raw`` as it should not, and ``syscall`` makes system
calls by name.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import socket
from collections.abc import Callable, Mapping
from typing import Any

import pyseccomp

from viper.sandbox.wire import Ref

READABLE: Mapping[type, frozenset[str]] = {}

X32 = 0x40000000
"""Bit of a system call's number that selects the second table of x86-64."""


class Calls:
    """System calls by name; their numbers are looked up before the child is locked."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._kept: list[Any] = []

    def __call__(self, name: str, *args: Any) -> int:
        """The result; an error of the kernel is an OSError."""
        return self.number(pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name), *args)

    def number(self, number: int, *args: Any) -> int:
        self._libc.syscall.restype = ctypes.c_long
        result = int(self._libc.syscall(ctypes.c_long(number), *map(self._word, args)))
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result

    def room(self, size: int, *words: int) -> int:
        """The address of zeroed memory that begins with these 64-bit words."""
        memory = ctypes.create_string_buffer(max(size, 8 * len(words)))
        for place, word in enumerate(words):
            ctypes.c_uint64.from_buffer(memory, 8 * place).value = word & (2**64 - 1)
        self._kept.append(memory)
        return ctypes.addressof(memory)

    def _word(self, value: Any) -> Any:
        if isinstance(value, str | bytes):
            text = value.encode() if isinstance(value, str) else value
            self._kept.append(text)
            return ctypes.c_char_p(text)
        return ctypes.c_long(value)


def _attempts(call: Any) -> dict[str, Callable[..., Any]]:
    syscall = Calls()
    return {
        "syscall": syscall,
        "syscall_number": syscall.number,
        "room": syscall.room,
        "read_file": lambda path: os.read(os.open(path, os.O_RDONLY), 10),
        "write_file": lambda path: os.open(path, os.O_WRONLY | os.O_CREAT),
        "list_folder": lambda path: next(os.scandir(path)).name,
        "environment": lambda: os.environ["HOME"],
        "fork": lambda: os.fork(),
        "execute": lambda *command: os.execv(command[0], command),
        "connect": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM),
        "unix_socket": lambda: socket.socketpair(),
        "shared_memory": lambda size: mmap.mmap(-1, size),
        "kill": lambda pid, number: os.kill(pid, number),
        "become_root": lambda: os.setuid(0),
        "on_signal": lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN),
        "block_signals": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]),
        "raise_limit": lambda: syscall("setrlimit", 9, syscall.room(16, 1 << 40, 1 << 40)),
        "send_elsewhere": lambda: os.write(5, b"x"),
        "write_trace": lambda data: os.write(4, data),
        "exit": lambda code: os._exit(code),
        "crash": lambda: ctypes.string_at(0),
        "send_raw": lambda data: call.channel.sock.sendall(data),
        "receive": lambda: call.channel.receive(),
        "send_with_descriptor": lambda: socket.send_fds(call.channel.sock, [b"x"], [3]),
    }


def names(call: Callable[..., Any], config: Mapping[str, Any]) -> dict[str, object]:
    def ref(kind: Any, *fields: Any) -> Ref:
        return Ref(kind, fields)

    return {**_attempts(call), "call": call, "ref": ref}


def encode(obj: object) -> Ref | None:
    return None


def decode(ref: Ref, call: Callable[..., Any]) -> object:
    return ref
