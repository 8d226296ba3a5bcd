"""Processes that share a reproduction: who takes what."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from tests.lab.papers.fake_runner import FAMILIES, QUESTION, REFERRING
from tests.lab.papers.fake_study import Questions
from viper_lab.papers.cell_runner import Cell, CellRunner, StoredRun
from viper_lab.papers.parts import Part
from viper_lab.papers.tables import cells_of
from viper_lab.papers.workers import Claims, Group, groups_of, share
from viper_lab.papers.zero_shot import Ablation

PAPER = Ablation()


class Noting:
    """A runner that only notes what it is asked; a cell's ``times`` are its answers."""

    def __init__(self, seeds: tuple[int, ...] = (0, 1)) -> None:
        self.scale = type("Scale", (), {"seeds": seeds})
        self.asked: list[tuple[str, str, int]] = []

    def step(self, cell: Cell, part: Part, seed: int) -> StoredRun:
        return StoredRun(cell.name, part.name, seed, cell.times, Path(cell.name))

    def results(self, cell: Cell, part: Part, seed: int) -> list[object]:
        self.asked.append((cell.name, part.name, seed))
        return []


def groups(runner: Noting) -> list[Group]:
    tables = [PAPER.table_2, PAPER.self_tuning(["referring"])]
    return groups_of(cast(CellRunner, runner), cells_of(tables, FAMILIES))


def test_a_group_is_a_part_under_a_seed_and_the_longest_come_first() -> None:
    found = groups(Noting())
    assert len(found) == len(FAMILIES) * 2
    assert [(one.part, one.seed) for one in found[:2]] == [(REFERRING, 0), (REFERRING, 1)]
    assert [len(one.cells) for one in found] == [7, 7, 5, 5, 5, 5]


def test_each_group_is_answered_by_one(tmp_path: Path) -> None:
    first, second = Noting(), Noting()
    folder = tmp_path / "locks"
    with closing(Claims(folder)) as mine, closing(Claims(folder)) as yours:
        assert mine.take(groups(first)[0])
        share(cast(CellRunner, second), groups(second), yours)
        share(cast(CellRunner, first), groups(first), mine)
    assert first.asked == []
    assert len(second.asked) == 7 + 4 * 5
    assert not [one for one in second.asked if one[1:] == (REFERRING.name, 0)]


def test_what_somebody_left_can_be_taken(tmp_path: Path) -> None:
    group = Group(QUESTION, 0, ())
    with closing(Claims(tmp_path)) as gone:
        assert gone.take(group)
        with closing(Claims(tmp_path)) as other:
            assert not other.take(group)
            gone.close()
            assert other.take(group)


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_shared_answers_are_those_of_one_alone(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    alone, shared = Questions(tmp_path / "alone"), Questions(tmp_path / "shared")
    rows = []
    for questions in (alone, shared):
        cells = list(cells_of([PAPER.table_2], [questions.part]))
        with questions.runner(seeds=seeds) as runner:
            if questions is shared:
                with closing(Claims(tmp_path)) as claims:
                    share(runner, groups_of(runner, cells), claims)
        with questions.runner(seeds=seeds) as runner:
            rows.append([
                (row.sample_id, row.seed, row.score)
                for cell, part in cells
                for row in runner.all_results(cell, part)
            ])  # fmt: skip
    assert rows[0] == rows[1] and len(rows[0]) == 5 * 3 * len(seeds)
