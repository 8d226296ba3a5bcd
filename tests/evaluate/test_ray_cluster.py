"""What each actor gets of a cluster, and what is said where there is none."""

from __future__ import annotations

import socket
import sys

import pytest

from viper.errors import MissingExtraError, UsageError
from viper.evaluate.engines.ray_cluster import Node, Share, connected, local_cpus, share_of


@pytest.mark.parametrize(
    ("nodes", "actors", "share"),
    [
        ([Node(2, 0)], 2, Share(1, 0)),
        ([Node(2, 0)], 3, Share(0.6666, 0)),
        ([Node(32, 4)], 4, Share(8, 1)),
        ([Node(32, 1)], 3, Share(10, 0.3333)),
        ([Node(32, 4)], 6, Share(5, 0.5)),
        ([Node(32, 4)], 2, Share(16, 1)),
        ([Node(8, 0), Node(32, 2), Node(32, 2)], 4, Share(16, 1)),
    ],
)
def test_what_is_not_said_is_divided_evenly(nodes: list[Node], actors: int, share: Share) -> None:
    found = share_of(nodes, actors, None, None)
    assert found == share
    assert sum(node.holds(found) for node in nodes) >= actors


def test_what_is_said_is_kept() -> None:
    assert share_of([Node(8, 1)], 2, 3.0, 0.0) == Share(3, 0)


def test_a_part_of_a_gpu_lies_on_one_gpu() -> None:
    assert Node(100, 2).holds(Share(1, 0.6)) == 2
    assert Node(100, 3).holds(Share(1, 2)) == 1
    assert Node(100, 0).holds(Share(1, 0.5)) == 0


def test_a_share_that_fits_nowhere_is_refused() -> None:
    with pytest.raises(UsageError, match="1 processors and 1 GPUs .they have 2 and 0"):
        share_of([Node(2, 0)], 2, 1.0, 1.0)


def test_a_ray_started_here_gives_what_is_asked_for() -> None:
    assert local_cpus(3, 50.0) == 150
    assert local_cpus(2, None) >= 1


def test_without_the_package_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r'pip install "viper-reasoner\[ray\]"'):
        connected(None, 2).__enter__()


def test_an_address_where_nothing_answers() -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UsageError, match=f"no Ray answers at {address}.*ray start --head"):
            connected(address, 2).__enter__()


def test_the_client_protocol_is_refused() -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    with pytest.raises(UsageError, match="give auto"):
        connected("ray://head:10001", 2).__enter__()
