"""Several processes at one reproduction, each with models of its own.

Python runs one thread at a time, so a process keeps little more than one core busy. What a process
works at alone is a group: everything of one part under one seed, whose cells share pictures and
programs. Who takes a group holds a lock on it to the end, so a group of a process that died can be
taken by another.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from viper_lab.papers.lab import Cell, Lab
from viper_lab.papers.parts import Part


@dataclass(frozen=True)
class Group:
    """Cells that are asked about one part under one seed."""

    part: Part
    seed: int
    cells: tuple[Cell, ...]


def groups_of(lab: Lab, cells: Iterable[tuple[Cell, Part]]) -> list[Group]:
    """The groups of some cells, those with most answers first, so that the last ones are short."""
    by_part: dict[str, tuple[Part, list[Cell]]] = {}
    for cell, part in cells:
        by_part.setdefault(part.name, (part, []))[1].append(cell)
    groups = [
        Group(part, seed, tuple(own)) for part, own in by_part.values() for seed in lab.scale.seeds
    ]

    def answers(group: Group) -> int:
        return sum(lab.step(cell, group.part, group.seed).answers for cell in group.cells)

    return sorted(groups, key=answers, reverse=True)


def share(lab: Lab, groups: Iterable[Group], claims: Claims) -> None:
    """Answers one group after another, as long as there is one that nobody else works at."""
    for group in groups:
        if claims.take(group):
            for cell in group.cells:
                lab.rows(cell, group.part, group.seed)


class Claims:
    """Which groups are taken, by locks on files in a folder that processes share; close it.

    Args:
        folder: is made if need be.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: list[int] = []

    def take(self, group: Group) -> bool:
        """Whether the group is this process's from now on."""
        self._folder.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^a-z0-9]+", "-", f"{group.part.name} {group.seed}".lower())
        lock = os.open(self._folder / f"{name}.lock", os.O_CREAT | os.O_RDWR, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        self._held.append(lock)
        return True

    def close(self) -> None:
        """Gives everything back."""
        while self._held:
            os.close(self._held.pop())
