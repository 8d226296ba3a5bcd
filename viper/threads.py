"""How many threads numerical libraries compute with, and how those threads wait for one another.

``main`` calls :func:`wait_passively` before a library loads; the wiring of a profile then calls
:func:`compute_with` with the number that suits its models (``threads`` of the table ``[load]``).
Neither changes what the user's environment says. ``benchmarks/threads.py`` measures the effect.
"""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path

# A team of OpenMP threads meets at the end of every parallel loop. As libraries come, those that
# are early spin there: beside other work they keep the late one from its core, and three warm
# queries took 17 times as long. These values let them sleep: GNU's two names, then Intel's and
# LLVM's. The last is of NumPy's OpenBLAS: two to this power are the clock ticks before its threads
# sleep, and 4 is its least.
PASSIVE = {
    "OMP_WAIT_POLICY": "PASSIVE",
    "GOMP_SPINCOUNT": "0",
    "KMP_BLOCKTIME": "0",
    "OPENBLAS_THREAD_TIMEOUT": "4",
}

# Read by OpenMP and, where their own variables are absent, by OpenBLAS and MKL.
COUNT = "OMP_NUM_THREADS"

# Holds the count that viper has set, so that a later profile, or a child, can tell it from a
# user's.
_OWN = "VIPER_THREADS"


def wait_passively(environment: MutableMapping[str, str] = os.environ) -> None:
    """Let waiting threads sleep, unless the environment says how they wait.

    Call it before a numerical library loads, because they read this once.
    """
    if PASSIVE.keys().isdisjoint(environment):
        environment.update(PASSIVE)


def compute_with(count: int, environment: MutableMapping[str, str] = os.environ) -> None:
    """Let numerical libraries compute with this many threads; 0 means one for each core.

    Does nothing if the user's environment holds a count.
    """
    if environment.get(COUNT) != environment.get(_OWN):
        return
    environment[COUNT] = environment[_OWN] = str(count or available_cores())
    if (torch := sys.modules.get("torch")) is not None:  # it has read the variable already
        torch.set_num_threads(int(environment[COUNT]))


def thread_count(otherwise: int | None = None) -> int:
    """Return the number of threads that a library without OpenMP should compute with.

    Args:
        otherwise: number where the environment has none; by default one for each core.
    """
    count = os.environ.get(COUNT, "").partition(",")[0]
    return int(count) if count.isdigit() and int(count) else otherwise or available_cores()


def available_cores() -> int:
    """Return the number of cores that this process may use, at least 1.

    A container's quota counts: libraries that see the whole machine start a thread for each of its
    cores, and these then wait for a share of the quota.
    """
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError):  # no cgroups of version 2, or "max"
        return cores
