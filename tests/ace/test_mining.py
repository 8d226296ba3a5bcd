"""Which samples are tried, and what a row becomes as an example."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.evaluate.engine_doubles import a_sample
from tests.evaluate.fake_backends import a_set
from viper.ace.mining import ExampleSource, Shots, candidates, of_each_kind, work_folder
from viper.api.library import Library
from viper.api.spec import api_hash
from viper.data.sample import DatasetSpec, Sample, kind_of
from viper.errors import DataError, UsageError
from viper.evaluate.sample_result import Prediction, SampleResult
from viper.strategies.settings import RunSettings

PROGRAM = "def execute_command(image):\n    # said: find\n    return 'red'"


def source() -> ExampleSource:
    evaluation = Shots("world", count=1).evaluation()
    return ExampleSource(evaluation, "abstract", Library(), "writer@1")


def a_row(sample: Sample, **changes: object) -> SampleResult:
    given = {"prediction": Prediction("red"), "program": PROGRAM, **changes}
    return SampleResult.of(sample, 4, 0.75, **given)  # type: ignore[arg-type]


def test_shots_are_of_each_family_of_the_world() -> None:
    shots = Shots("world", DatasetSpec(seed=5), 2)
    assert [s.sample_id for s in shots.samples()] == [
        f"train-5-{family}-{n}" for family in ("referring", "question", "video") for n in (0, 1)
    ]
    assert len(Shots("world", DatasetSpec(None, "train:video"), 2).samples()) == 2
    assert len(Shots("world-b", count=1).samples()) == 3


def test_random_shots_go_by_the_seed_and_more_contain_fewer(tmp_path: Path) -> None:
    file, _ = a_set(tmp_path, 40)

    def ids(count: int, seed: int) -> set[str]:
        return {s.sample_id for s in Shots(str(file), DatasetSpec(seed=seed), count).samples()}

    assert len(ids(16, 0)) == 16 and ids(16, 0) < ids(30, 0) and ids(16, 0) != ids(16, 1)


def test_chosen_shots(tmp_path: Path) -> None:
    file, _ = a_set(tmp_path, 8)
    assert [s.sample_id for s in Shots(str(file), ids=("q5", "q1")).samples()] == ["q5", "q1"]
    with pytest.raises(DataError, match="all has no sample q8, q9, x and 1 more; see viper data"):
        Shots(str(file), ids=("q1", "q8", "q9", "x", "y")).samples()
    with pytest.raises(DataError, match="world train has no sample val-0-question-0"):
        Shots("world", ids=("val-0-question-0",)).samples()


def test_spread_shots_take_each_kind_in_turn() -> None:
    spread = Shots("world-a", count=4, spread=True).samples()
    tasks = {one.task for one in spread}
    kinds = {t: [kind_of(one.groups) for one in spread if one.task == t] for t in tasks}
    assert len(kinds) == 3
    assert all(len(its) == len(set(its)) == 4 for its in kinds.values())
    within = Shots("world-a", DatasetSpec(None, "train:question"), 4, spread=True).samples()
    assert len({kind_of(one.groups) for one in within}) == len(within) == 4
    few = [a_sample(n) for n in range(5)]
    assert of_each_kind(few, 3) == few[:3] and of_each_kind(few, 9) == few
    kinds = [replace(one, groups={"type": kind}) for one, kind in zip(few, "aaabb", strict=True)]
    assert of_each_kind(kinds, 4) == [kinds[n] for n in (0, 3, 1, 4)]


def test_a_set_without_a_training_split_asks_for_one() -> None:
    said = "okvqa has no split train; choose one of val2014, train2014 with --split"
    with pytest.raises(UsageError, match=said):
        Shots("okvqa").evaluation()


def test_mining_is_zero_shot_with_one_program_a_seed() -> None:
    profile = RunSettings(trials=5, votes=3, feedback=True, fallback="vipergpt", temperature=0.9)
    evaluation = Shots("world", DatasetSpec(seed=7)).evaluation()
    settings = evaluation.options.settings(profile)
    assert (settings.trials, settings.votes, settings.examples) == (1, 1, 0)
    assert (settings.self_tune, settings.feedback, settings.fallback) == (False, False, "none")
    assert (settings.temperature, evaluation.seeds) == (0.0, (7,))
    several = Shots("world", DatasetSpec(seed=7), programs=3).evaluation()
    assert (several.options.temperature, several.seeds) == (0.4, (7, 8, 9))
    with pytest.raises(UsageError, match="3 times the same one; give --temperature 0.4"):
        Shots("world", programs=3, temperature=0.0).evaluation()


def test_an_example_says_where_it_is_from() -> None:
    sample = a_sample(3, groups={"family": "question", "query_type": "count"})
    example = candidates([a_row(sample)], [sample], source())[0].example
    assert (example.query, example.program, example.score) == ("question 3?", PROGRAM, 0.75)
    assert (example.set, example.split, example.kind) == ("world", "train", "count")
    assert (example.sample_id, example.seed, example.llm) == ("s3", 4, "writer@1")
    assert example.api_hash == api_hash(Library().api_set("abstract").entries("question"))


def test_an_example_has_the_task_that_the_writer_was_asked() -> None:
    choice = a_sample(1, task="choice", options=("a", "b"), target=0)
    clip = replace(choice, media="video")
    asked = [candidates([a_row(s)], [s], source())[0].example for s in (choice, clip)]
    assert [(e.task, e.options) for e in asked] == [("question", ()), ("choice", ("a", "b"))]


def test_rows_without_a_program_make_nothing_and_failed_ones_have_no_answer() -> None:
    sample = a_sample(0)
    rows = [
        a_row(sample, program=None),
        a_row(sample, failure="runtime", prediction=None),
        a_row(sample, prediction=Prediction(box=(1.0, 2.0, 3.0, 4.0))),
        a_row(sample, prediction=Prediction("x", choice_index=1)),
        a_row(sample, prediction=Prediction(True)),
    ]
    found = candidates(rows, [sample], source())
    assert [one.answer for one in found] == [None, (1.0, 2.0, 3.0, 4.0), "1", "True"]


def test_each_api_has_a_folder_within_that_of_the_bank() -> None:
    bank = Path("banks/one.jsonl")
    assert work_folder(bank, "abstract+../my.py") == Path(
        "banks/one.jsonl.mining/abstract+..-my.py"
    )
    assert work_folder(bank, "abstract", Path("w")) == Path("w/abstract")


def test_a_program_that_failed_has_no_answer_to_agree_with() -> None:
    rows = [a_row(a_sample(3)), a_row(a_sample(3), failure="timeout")]
    answers = [one.answer for one in candidates(rows, [a_sample(3)], source())]
    assert answers == ["red", None]
