"""Keeps the process of a program for its next run: a run of ten thousand pictures forks few.

A process runs one program alone, and one that imports no module with a state of its own
(:func:`keeps_nothing`). Each run has fresh names; the child forgets its variables before it replies
(``viper.sandbox.child``). A run that fails ends its process. So what a program of one picture could
leave for the next is what it could leave in the memory of the interpreter after it had broken out
of the language, and it would leave that to itself: ``docs/design/sandbox.md``.
"""

from __future__ import annotations

import ast
import threading
from collections import OrderedDict, deque

from viper.errors import PARSE_ERRORS
from viper.sandbox.interface import Limits
from viper.sandbox.modules import MODULES
from viper.sandbox.pool import Child

# Modules with a state of their own: random numbers go on from where they are, and ``time`` and
# ``sys`` are those of the process. The functions of all others keep nothing between two calls.
_STATEFUL = frozenset(["random", "numpy", "numpy.linalg", "numpy.random", "time", "sys"])
_STATELESS = MODULES - _STATEFUL

# Runs of one process, each of which may leave a little memory behind.
_MOST_RUNS = 64

# Processes that wait for their program: one for each thread of a run of many pictures.
_MOST_KEPT = 32

# Programs that are known to run again.
_MOST_KNOWN = 256


def keeps_nothing(code: str) -> bool:
    """Return whether a program imports only modules that keep no state between two runs."""
    try:
        nodes = [*ast.walk(ast.parse(code))]
    except PARSE_ERRORS:
        return False
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return _STATELESS.issuperset(names)


class Kept:
    """Children that wait for a further run of the program that they ran. Safe for threads."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._seen: OrderedDict[str, bool] = OrderedDict()  # whether it keeps nothing
        self._waiting: deque[tuple[str, Child]] = deque()

    def allows(self, code: str) -> bool:
        """Return whether a program ran before and keeps nothing; the first run is remembered."""
        with self._lock:
            known = self._seen.get(code)
            if known is None:
                self._seen[code] = keeps_nothing(code)
                if len(self._seen) > _MOST_KNOWN:
                    self._seen.popitem(last=False)
            return bool(known)

    def take(self, code: str) -> Child | None:
        """Return a child that ran the program and still lives."""
        while True:
            with self._lock:
                found = next((one for one in self._waiting if one[0] == code), None)
                if found is None:
                    return None
                self._waiting.remove(found)
            if not found[1].channel.wait(0):
                return found[1]
            found[1].kill()  # it was ended from outside, or says something unasked

    def has_room(self, child: Child, seconds: float) -> bool:
        """Count a run of so many seconds; return whether the child may run another.

        All its runs together take no longer than one may: the kernel ends a child that computed ten
        times as long.
        """
        child.runs, child.seconds = child.runs + 1, child.seconds + seconds
        return child.runs < _MOST_RUNS and child.seconds < self._limits.time_s

    def put(self, code: str, child: Child) -> None:
        """Keep a child for the program; the one that waited longest goes if there are too many."""
        with self._lock:
            self._waiting.append((code, child))
            old = self._waiting.popleft()[1] if len(self._waiting) > _MOST_KEPT else None
        if old is not None:
            old.kill()

    def close(self) -> None:
        """End all of them."""
        with self._lock:
            while self._waiting:
                self._waiting.popleft()[1].kill()
