"""Removes every right from a child before it runs a program.

The zygote builds the rules once, and each child applies them after the fork. The order matters:
file descriptors, resource limits, user id, death signal (changing the user id clears it), not
dumpable, no new privileges, Landlock, seccomp.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

# The child's end of the wire: the first number after the standard streams.
PROGRAM_FD = 3

# Descriptor to which the child writes its current line when a signal asks for it. Fixed, as
# everything above is closed at the start of a child.
TRACE_FD = 4

# Address space that a child releases before it reports that memory ran out: describing the failure
# needs memory itself.
BALLAST_BYTES = 32 << 20

# Upper bound of a zygote's descriptor numbers: it needs few, and 16 for shared arrays.
# A child closes every number below, so a small bound keeps its start short.
MAX_DESCRIPTORS = 128

# The user that owns nothing, by the same number on every Linux.
NOBODY = 65534

# Numbers of the kernel (prctl.h, mman.h, errno.h), which Python does not name.
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_PROT_EXEC = 4
_EPERM = 1

# Calls that Python, libc or BLAS may try by themselves, such as opening the source file that a
# SyntaxError names. These calls fail; every other call that is not allowed ends the process.
_FAILING_CALLS = (
    "madvise", "futex", "getrandom", "sched_yield", "getpid", "mprotect", "rt_sigprocmask",
    "open", "openat", "stat", "lstat", "newfstatat", "readlink", "access", "close",
)  # fmt: skip

Applied = list[tuple[str, bool, str]]


class Lockdown:
    """The protection layers of the children of one zygote.

    Args:
        memory_mb: memory that a program may add, in MiB.
        cpu_s: processor seconds after which the kernel ends a child; a backstop behind
            the parent's deadline.
        skip: layers to leave out, for tests that remove one.
    """

    def __init__(self, memory_mb: int, cpu_s: int, skip: frozenset[str] = frozenset()) -> None:
        self.memory_mb, self.cpu_s, self.skip = memory_mb, cpu_s, skip
        self._libc = ctypes.CDLL(None, use_errno=True)
        out: tuple[Any, str] = (None, "left out")
        self._filter, self._seccomp_note = out if "seccomp" in skip else _build_filter()
        self._ruleset, self._landlock_note = out if "landlock" in skip else _build_ruleset()

    def apply(self, zygote_pid: int) -> Applied:
        """Lock this process for good and return ``(layer, holds, detail)`` for each layer.

        Args:
            zygote_pid: the process whose death ends this one.
        """
        done: Applied = []
        steps: tuple[tuple[str, Callable[[], str]], ...] = (
            ("descriptors", self._close_descriptors),
            ("rlimits", self._limit_resources),
            ("uid", self._drop_user),
            ("pdeathsig", lambda: self._die_with(zygote_pid)),
            ("dumpable", lambda: self._prctl(_PR_SET_DUMPABLE, 0, "no debugger, no core file")),
            (
                "no_new_privs",
                lambda: self._prctl(_PR_SET_NO_NEW_PRIVS, 1, "set-user-id programs gain nothing"),
            ),
            ("landlock", self._restrict_files),
            ("seccomp", self._filter_calls),
        )
        for name, step in steps:
            if name in self.skip:
                done.append((name, False, "left out"))
                continue
            try:
                done.append((name, True, step()))
            except (OSError, ValueError) as error:
                done.append((name, False, str(error)))
        return done

    def _close_descriptors(self) -> str:
        keep = {PROGRAM_FD, TRACE_FD} | ({self._ruleset.fileno()} if self._ruleset else set())
        low = 0
        for descriptor in sorted(keep):
            os.closerange(low, descriptor)
            low = descriptor + 1
        os.closerange(low, MAX_DESCRIPTORS)
        return "only the wire and the trace pipe are open"

    def _limit_resources(self) -> str:
        usage = Path("/proc/self/statm")
        pages = int(usage.read_text().split()[0]) if usage.exists() else 0
        resource.setrlimit(resource.RLIMIT_CPU, (self.cpu_s, self.cpu_s))
        for name in ("FSIZE", "NOFILE", "NPROC", "CORE", "MEMLOCK"):
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (0, 0))
        budget = f"{self.cpu_s} s processor time, no files, no processes"
        if not pages:
            raise OSError(f"memory is not bounded without /proc; {budget}")
        space = pages * resource.getpagesize() + (self.memory_mb << 20)
        resource.setrlimit(resource.RLIMIT_AS, (space, space))
        return f"memory + {self.memory_mb} MiB, {budget}"

    def _drop_user(self) -> str:
        if os.geteuid() != 0:
            return "not root to begin with"
        if not hasattr(os, "setresuid"):
            raise OSError("runs as root, since this system cannot give the rights up for good")
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        return f"runs as uid {NOBODY}"

    def _die_with(self, zygote_pid: int) -> str:
        self._prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, "")
        if os.getppid() != zygote_pid:
            os._exit(1)
        return "ends when its zygote ends"

    def _prctl(self, option: int, value: int, detail: str) -> str:
        if platform.system() != "Linux":
            raise OSError("needs Linux")
        if self._libc.prctl(option, value, 0, 0, 0) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return detail

    def _restrict_files(self) -> str:
        if self._ruleset is None:
            raise OSError(self._landlock_note)
        self._ruleset.restrict()
        self._ruleset.close()
        return self._landlock_note

    def _filter_calls(self) -> str:
        if self._filter is None:
            raise OSError(self._seccomp_note)
        self._filter.load()
        return self._seccomp_note


def _build_filter() -> tuple[Any, str]:
    """Return the system-call filter, or None with the reason why it is missing."""
    if platform.system() != "Linux":
        return None, "needs Linux"
    try:
        import pyseccomp as seccomp
    except ImportError:
        return None, "the package pyseccomp is missing; run: pip install pyseccomp"
    except RuntimeError:
        return None, "the system library libseccomp is missing; run: apt-get install libseccomp2"
    program = seccomp.Arg(0, seccomp.EQ, PROGRAM_FD)
    trace = seccomp.Arg(0, seccomp.EQ, TRACE_FD)
    try:
        rules = seccomp.SyscallFilter(seccomp.KILL_PROCESS)
        rules.add_rule(seccomp.ALLOW, "sendto", program, seccomp.Arg(4, seccomp.EQ, 0))
        rules.add_rule(seccomp.ALLOW, "recvfrom", program)
        rules.add_rule(seccomp.ALLOW, "write", trace)
        # memory that is not executable
        rules.add_rule(seccomp.ALLOW, "mmap", seccomp.Arg(2, seccomp.MASKED_EQ, _PROT_EXEC, 0))
        for name in ("munmap", "mremap", "brk", "rt_sigreturn", "exit_group", "clock_gettime"):
            rules.add_rule(seccomp.ALLOW, name)
        for name in _FAILING_CALLS:
            rules.add_rule(seccomp.ERRNO(_EPERM), name)
    except OSError as error:
        return None, f"this kernel refuses the filter: {error}"
    return rules, "messages and memory only; any other system call ends the process"


def _build_ruleset() -> tuple[Any, str]:
    """Return a Landlock ruleset that grants nothing, or None with the reason why it is missing."""
    if platform.system() != "Linux":
        return None, "needs Linux"
    try:
        import landlockpy
    except ImportError:
        return None, "the package landlockpy is missing; run: pip install landlockpy"
    version = landlockpy.abi_version()
    if not version:
        return None, "this kernel has no Landlock"
    scope = landlockpy.Scope.ABSTRACT_UNIX_SOCKET | landlockpy.Scope.SIGNAL
    return landlockpy.Ruleset(scoped=scope), f"no file, socket or signal (ABI {version})"
