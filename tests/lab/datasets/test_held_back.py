"""The pictures that are held back for judging."""

from __future__ import annotations

from viper_lab.datasets.held_back import is_held_back


def test_a_third_is_held_back_by_the_id_alone_and_always_the_same() -> None:
    held = [number for number in range(3_000) if is_held_back(number)]
    assert held[:5] == [0, 1, 2, 4, 11] and 900 < len(held) < 1_100
    assert [number for number in range(3_000) if is_held_back(str(number))] == held
