"""What ``viper lab reproduce zero-shot`` measures, by its options, the data set and the profile."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.lab.papers.fake_runner import FAMILIES
from tests.lab.papers.fake_study import Questions
from viper.commands.options import ProfileChoice
from viper.data.sample import DatasetSpec, Sample
from viper.errors import UnknownNameError, UsageError
from viper.evaluate.evaluation import Evaluation
from viper.profiles import load_profile
from viper.schema import to_json
from viper.strategies.base import Components
from viper_lab.papers.cell_runner import Cell, CellRunner, Scale
from viper_lab.papers.options import Options
from viper_lab.papers.parts import SetPart
from viper_lab.papers.report import as_text
from viper_lab.papers.zero_shot import BASE, Ablation
from viper_lab.papers.zero_shot_run import Choices, ZeroShotJob, ZeroShotStudy, study_of


def a_job(set_name: str, shots: str | None = None, split: str | None = None) -> ZeroShotJob:
    out = Path("unused")
    options = Options(False, 3, 2, out, set_name, out, split, True, ProfileChoice())
    return ZeroShotJob(options, 100, shots, None)


@pytest.mark.parametrize(
    ("set_name", "asked", "mined"),
    [
        ("gqa", "testdev_balanced", "train_balanced"),
        ("okvqa", "val2014", "train2014"),
        ("refcoco", "val", "train"),
        ("nextqa", "val:hard", "train"),  # the split of the paper
        ("world-a", "val", "train"),
    ],
)
def test_each_set_is_asked_its_split_and_mined_from_its_training_split(
    set_name: str, asked: str, mined: str
) -> None:
    (part,) = a_job(set_name).parts()
    assert isinstance(part, SetPart) and (part.split, part.shots_split) == (asked, mined)
    (named,) = a_job(set_name, "val", "test").parts()
    assert isinstance(named, SetPart) and (named.split, named.shots_split) == ("test", "val")


def test_a_set_without_a_training_split_names_its_splits() -> None:
    with pytest.raises(UsageError, match="choose one of val, testA, testB.* with --shots-split"):
        a_job("hub:lmms-lab/RefCOCO").parts()


def test_only_a_set_that_draws_its_samples_draws_them_by_seed() -> None:
    (drawn,), (fixed,) = a_job("world-a").parts(), a_job("gqa").parts()
    assert [drawn.evaluation(seed, 9).spec.seed for seed in (0, 4)] == [0, 4]
    assert [fixed.evaluation(seed, 9).spec.seed for seed in (0, 4)] == [0, 0]
    for part in (drawn, fixed):
        assert [part.evaluation(seed, 9).seeds for seed in (0, 4)] == [(0,), (4,)]
        assert [part.shots(seed, 9).spec.seed for seed in (0, 4)] == [0, 4]


def a_study(task: str, media: str, choices: Choices | None = None) -> ZeroShotStudy:
    """What is measured on samples of this task and media."""
    sample = Sample("s", "what?", task, media, "x", lambda: None)
    settings = SimpleNamespace(temperature=0.4)
    toolbox = SimpleNamespace(settings=SimpleNamespace(sensitivities={}))
    runner: Any = SimpleNamespace(
        scale=SimpleNamespace(seeds=(0,)),
        test_samples=lambda part, seed: SimpleNamespace(samples=[sample]),
        writers={"main": SimpleNamespace(settings=settings, toolbox=toolbox)},
    )
    return study_of(cast(CellRunner, runner), FAMILIES[:1], quick=False, choices=choices)


@dataclass(frozen=True)
class OneDraw:
    """Asks the same 40 questions of the world under every seed."""

    name: str = "question"

    def evaluation(self, seed: int, limit: int) -> Evaluation:
        return Evaluation("world-a", DatasetSpec(None, "val:question", 0), limit, (seed,))

    shots = evaluation

    def equipped(self, components: Components, seed: int) -> Components:
        return components


@pytest.mark.models
@pytest.mark.timeout(300)
def test_two_seeds_write_different_programs_at_the_papers_temperature(tmp_path: Path) -> None:
    part, profile = OneDraw(), load_profile("embedded").without_examples()
    programs = {}
    runner = CellRunner(
        {"main": profile.components()}, to_json(profile.document), tmp_path, Scale(40, (0, 1))
    )
    with closing(runner):
        for temperature in (0.0, 0.4):
            options = BASE.changed(temperature=temperature)
            cell = Cell(f"at {temperature}", options)
            programs[temperature] = [
                [row.program for row in runner.results(cell, part, seed)] for seed in (0, 1)
            ]
        runner.check_seeds([(Cell("at 0.4", options), part)])
        with pytest.raises(UsageError, match="2 seeds ask the same samples"):
            runner.check_seeds([(Cell("at the profile's temperature of 0", BASE), part)])
    first, second = programs[0.4]
    assert len(first) == 40 and first != second
    assert programs[0.0][0] == programs[0.0][1]  # so the refusal is right


def tables_of(task: str, media: str, choices: Choices | None = None) -> dict[str, list[str]]:
    """The rows of every table."""
    return {table.name: list(table.cells) for table in a_study(task, media, choices).tables}


def test_table_1_has_the_papers_baselines_of_the_task() -> None:
    ours = ["zero-shot", "everything on"]
    assert tables_of("ground", "image")["table 1"] == ["detector (referring)", *ours]
    assert tables_of("choice", "video")["table 1"] == [
        "captions (referring)", "llm (referring)", *ours,
    ]  # fmt: skip


def test_strategies_that_are_named_are_the_baselines_of_what_they_answer() -> None:
    choices = Choices(baselines=("description", "vqa", "detector"))
    ours = ["zero-shot", "everything on"]
    assert tables_of("question", "image", choices)["table 1"] == ["vqa (referring)", *ours]
    assert tables_of("choice", "video", choices)["table 1"] == [
        "description (referring)", "vqa (referring)", *ours,
    ]  # fmt: skip
    for name in ("program", "seek"):
        with pytest.raises(UsageError, match=f"--strategy {name}: table 1 compares with"):
            Choices(baselines=(name,))
    with pytest.raises(UnknownNameError, match="nope"):
        Choices(baselines=("nope",))


def test_every_table_is_measured_and_printed(tmp_path: Path) -> None:
    questions = Questions(tmp_path)
    with questions.runner(samples=2, pool=2) as runner:
        study = study_of(runner, [questions.part], quick=False)
        told = study.reproduce(runner)
    rows = {(row.table, row.name): row for row in told.rows}
    assert {row.n for row in told.rows} == {2}
    assert {table for table, _ in rows} == {table.name for table in study.tables}
    for table in study.tables:
        assert {gain.name for gain in told.gains if gain.table == table.name} == {
            " -> ".join(step) for step in table.steps
        }
    figure_4 = [rows["figure 4", f"abstract API, feedback, {n} trial{'s' * (n > 1)}"].figure.mean
                for n in range(1, 6)]  # fmt: skip
    assert figure_4 == sorted(figure_4)
    assert told.facts["api"] == "abstract" and "table 3" in as_text(told)


def test_another_api_has_no_renamed_routines() -> None:
    paper, other = a_study("ground", "image"), a_study("ground", "image", Choices(Ablation("dwim")))
    assert paper.renamed is FAMILIES[0] and other.renamed is None
    rows = tables_of("ground", "image", Choices(Ablation("dwim")))
    assert "+ dwim API" in rows["table 2"] and "+ abstract API" not in rows["table 2"]
