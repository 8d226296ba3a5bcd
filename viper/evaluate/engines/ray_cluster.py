"""Connection to Ray, started here or joined, and the share of it that each actor gets.

`connected` joins a cluster or starts a Ray of its own, with settings for sockets, priority and
logs, and yields the nodes. `share_of` divides their processors and GPUs among the actors.
"""

from __future__ import annotations

import math
import os
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viper.errors import ModelError, UsageError
from viper.plugins import need_packages
from viper.threads import available_cores

# A little more than Ray's least. Rows are small, and a container's shared memory often is, too.
_OBJECT_STORE_BYTES = 128 << 20

# Unix sockets lie below the folder, and their whole path may have 107 characters.
_SOCKET_FOLDER_CHARACTERS = 40

# A node of the cluster answers within milliseconds; five seconds cover a lost packet or two.
_CONNECT_S = 5.0

# Ray would print on stdout that a worker died; what its deduplicator skips is not printed.
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "1", "RAY_DEDUP_LOGS_SKIP_REGEX": ".*"}


@dataclass(frozen=True)
class Share:
    """Processors and GPUs of one actor. A part of a GPU is shared with other actors."""

    cpus: float
    gpus: float


@dataclass(frozen=True)
class Node:
    """Machine with the resources that its Ray offers."""

    cpus: float
    gpus: float

    def holds(self, share: Share) -> int:
        """Return how many actors of this share fit. A share of up to 1 GPU lies on one GPU."""
        fits = [2.0**20]
        if share.cpus:
            fits.append(self.cpus / share.cpus)
        if share.gpus > 1:
            fits.append(self.gpus / share.gpus)
        elif share.gpus:
            fits.append(self.gpus // 1 * (1 / share.gpus // 1))
        return int(min(fits))


@contextmanager
def connected(address: str | None, cpus: float) -> Iterator[list[Node]]:
    """Connect to Ray for the duration of the block, and yield its nodes.

    A Ray that this process uses already is left as it is.

    Args:
        address: of a cluster, or ``auto`` for the one that this machine belongs to; None
            starts one here that ends with the block.
        cpus: least number of processors of a Ray started here.

    Raises:
        MissingExtraError: the package ``ray`` is not installed.
        UsageError: no cluster answers at the address.
        ModelError: no Ray can be started here.
    """
    os.environ.update(_QUIET)
    # by default, Ray's workers get the lowest priority of all processes
    os.environ.setdefault("RAY_worker_niceness", "0")
    need_packages(("ray",), "--engine ray")
    import ray

    if ray.is_initialized():
        yield _nodes(ray)
        return
    _check_address(address)
    is_long = len(tempfile.gettempdir()) > _SOCKET_FOLDER_CHARACTERS
    parent = "/tmp" if is_long and Path("/tmp").is_dir() else None
    with tempfile.TemporaryDirectory(
        prefix="viper-ray-", dir=parent, ignore_cleanup_errors=True
    ) as folder:
        settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if address is None:
            settings |= {
                "address": "local",
                "num_cpus": math.ceil(cpus),
                "include_dashboard": False,
                "object_store_memory": _OBJECT_STORE_BYTES,
                "_temp_dir": folder,
            }
        try:
            ray.init(**{"address": address} | settings)
        except Exception as error:  # noqa: BLE001 (boundary: Ray raises many kinds)
            raise _unreachable(address, error) from None
        try:
            yield _nodes(ray)
        finally:
            ray.shutdown()


def share_of(nodes: Sequence[Node], actors: int, cpus: float | None, gpus: float | None) -> Share:
    """Return each actor's share.

    Values that are None are divided evenly, at most one GPU per actor.

    Raises:
        UsageError: not a single actor of that share fits on a node.
    """
    if gpus is None:
        count = int(sum(node.gpus // 1 for node in nodes))
        gpus = _part(1.0, math.ceil(actors / count)) if count else 0.0
    hosts = [node for node in nodes if gpus and node.gpus >= min(gpus, 1)] or list(nodes)
    if cpus is None:
        least = min((node.cpus for node in hosts), default=1.0)
        cpus = _part(least, math.ceil(actors / max(1, len(hosts))))
    share = Share(cpus, gpus)
    if not any(node.holds(share) for node in nodes):
        largest = ", ".join(sorted({f"{node.cpus:g} and {node.gpus:g}" for node in nodes}))
        raise UsageError(
            f"no node can hold an actor of {cpus:g} processors and {gpus:g} GPUs (they have "
            f"{largest or 'none'}); give a smaller --cpus-per-actor or --gpus-per-actor"
        )
    return share


def local_cpus(actors: int, per_actor: float | None) -> float:
    """Return the processors for a Ray started here: those of this process, or more on request."""
    here = float(available_cores())
    return max(here, math.ceil(actors * per_actor)) if per_actor else here


def _part(whole: float, parts: int) -> float:
    """Return one of equal parts: whole units if it reaches 1, else as exact as Ray counts."""
    part = whole / parts
    return float(math.floor(part)) if part >= 1 else math.floor(part * 1e4) / 1e4


def _nodes(ray: Any) -> list[Node]:
    return [
        Node(node["Resources"].get("CPU", 0.0), node["Resources"].get("GPU", 0.0))
        for node in ray.nodes()
        if node["Alive"]
    ]


def _check_address(address: str | None) -> None:
    if address is not None and address.startswith("ray://"):
        raise UsageError(
            f"--ray-address {address}: run viper on a node of the cluster and give auto "
            "(Ray's client protocol is not supported)"
        )
    host, _, port = (address or "").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), _CONNECT_S).close()
    except (OSError, OverflowError) as error:  # Ray itself would try for two minutes
        raise _unreachable(address, error) from None


def _unreachable(address: str | None, error: Exception) -> UsageError | ModelError:
    says = " ".join(str(error).split())[:300]
    if address is None:
        return ModelError(f"Ray cannot be started here: {says}")
    return UsageError(
        f"no Ray answers at {address}: {says}; start one with: ray start --head, and if it asks "
        "for a token, export RAY_AUTH_MODE=token here, too"
    )
