"""What is planned is what is answered, each run once however many tables share it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.papers.fake_study import Noted, Questions
from viper_lab.papers.cell_runner import CellRunner, StoredRun
from viper_lab.papers.plan import Plan, plan_of
from viper_lab.papers.tables import cells_of
from viper_lab.papers.zero_shot import Ablation
from viper_lab.papers.zero_shot_run import study_of

PAPER = Ablation()


@pytest.fixture
def questions(tmp_path: Path) -> Questions:
    return Questions(tmp_path)


def test_cells_are_counted_once_each(questions: Questions) -> None:
    with questions.runner(samples=3, pool=4, seeds=(0, 1)) as runner:
        alone = plan_of(runner, cells_of([PAPER.table_2], [questions.part]))
        both = plan_of(runner, cells_of([PAPER.table_2, PAPER.figure_2], [questions.part]))
    mined = 4 * PAPER.mining.programs
    # five cells under two seeds, and one mining run a seed
    assert (alone.cells, len(alone.steps), alone.answers) == (10, 12, 10 * 3 + 2 * mined)
    # figure 2 adds the ViperGPT API with examples, and mining for it
    assert (both.cells, len(both.steps), both.answers) == (12, 16, 12 * 3 + 4 * mined)
    assert (alone.missing, len(alone.finished)) == (alone.answers, 0)
    assert alone.summary() == (
        "10 cells and 2 mining runs, 62 answers; stored already: 0 of these runs, 0 answers"
    )
    assert not (questions.folder / "out" / "runs").exists()


def test_what_is_stored_is_counted(questions: Questions) -> None:
    cells = list(PAPER.table_2.cells.values())
    with questions.runner() as runner:
        runner.results(cells[0], questions.part, 0)
        runner.results(cells[2], questions.part, 0)
        plan = plan_of(runner, cells_of([PAPER.table_2], [questions.part]))
    assert (len(plan.finished), plan.missing) == (
        3,
        plan.answers - 3 - 3 - 4 * PAPER.mining.programs,
    )


def study(
    runner: CellRunner, questions: Questions, *, quick: bool
) -> tuple[Plan, Noted, dict[str, object]]:
    found = study_of(runner, [questions.part], quick=quick)
    plan = plan_of(runner, found.cells())
    runner.tell = noted = Noted()
    return plan, noted, found.reproduce(runner).to_json()


@pytest.mark.parametrize("quick", [True, False])
def test_the_plan_is_what_is_answered(questions: Questions, quick: bool) -> None:
    with questions.runner(samples=2, pool=4) as runner:
        plan, noted, found = study(runner, questions, quick=quick)
        assert len(noted.steps) == len(set(noted.steps))
        assert set(noted.steps) == set(plan.steps)
        assert noted.answers == plan.missing == plan.answers == sum(noted.counts)
    written = questions.written()
    with questions.runner(samples=2, pool=4) as runner:
        plan, noted, again = study(runner, questions, quick=quick)
        assert plan.missing == noted.answers == 0 and len(plan.finished) == len(plan.steps)
    assert questions.written() == written
    for record in (found, again):
        facts = record["facts"]
        assert isinstance(facts, dict)
        facts["seconds"] = 0
    assert again == found
    claims = found["claims"]
    assert isinstance(claims, list)
    left_out = [claim for claim in claims if "--quick" in claim["reason"]]
    assert len(left_out) == (6 if quick else 0)


def test_a_run_that_was_never_begun_has_nothing_stored(tmp_path: Path) -> None:
    assert StoredRun("a", "b", 0, 3, tmp_path / "none").stored() == 0
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    assert StoredRun("a", "b", 0, 3, tmp_path / "broken").stored() == 0
