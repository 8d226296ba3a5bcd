"""The tables' rows and gains, on answers that are made up."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from tests.lab.papers.fake_runner import FAMILIES, QUESTION, REFERRING, FakeRunner, share
from viper.errors import DataError, UsageError
from viper.evaluate.sample_result import SampleResult
from viper_lab.papers import tables, zero_shot
from viper_lab.papers.cell_runner import Cell, CellRunner, slug
from viper_lab.papers.parts import Part
from viper_lab.papers.tables import Table, cells_of, gain_of, gains
from viper_lab.papers.zero_shot import TRIALS, Ablation, TrialBench, entries

PAPER = Ablation()
STEPS = PAPER.steps


def all_tables(cells: Ablation = PAPER) -> list[Table[Cell]]:
    return [
        cells.table_2,
        cells.kept,
        cells.vague,
        cells.self_tuning(["referring"]),
        cells.self_tuning_from("detector.threshold", 0.5, ["referring"]),
        cells.baselines({"referring": ["detector"], "question": ["vqa", "llm"]}),
        cells.figure_2,
        cells.figure_3,
        cells.mined,
        cells.figure_4,
        cells.shots,
        cells.temperatures(0.4),
        cells.voting,
        cells.thresholds("detector.threshold", [0.2, 0.4], ["referring"]),
        cells.second,
    ]


def test_a_cells_name_and_folder_are_its_own() -> None:
    cells = {cell.name: cell for table in all_tables() for cell in table.cells.values()}
    for table in all_tables():
        for cell in table.cells.values():
            assert cells[cell.name] == cell, cell.name
    assert len({slug(name) for name in cells}) == len(cells)
    assert len({table.name for table in all_tables()}) == len(all_tables())


def test_the_steps_of_a_table_are_its_rows() -> None:
    for table in all_tables():
        assert {name for step in table.steps for name in step} <= set(table.cells)


def test_each_row_of_table_2_changes_one_thing() -> None:
    assert [cell.options.api for cell in STEPS] == ["vipergpt"] + ["abstract"] * 4
    assert [cell.mining is not None for cell in STEPS] == [False, False, True, True, True]
    assert [cell.options.trials for cell in STEPS] == [1, 1, 1, TRIALS, TRIALS]
    assert [cell.options.self_tune for cell in STEPS] == [False] * 4 + [True]


def test_self_tuning_may_start_where_nobody_calibrated() -> None:
    table = PAPER.self_tuning_from("detector.threshold", 0.5, ["referring"])
    untuned, tuned = table.cells.values()
    assert untuned.thresholds == tuned.thresholds == {"detector.threshold": 0.5}
    assert [cell.options.self_tune for cell in (untuned, tuned)] == [False, True]
    assert "from detector.threshold 0.5" in untuned.name


def test_rows_are_about_the_families_of_their_table() -> None:
    baselines = PAPER.baselines({"referring": ["detector"], "question": ["vqa"]})
    assert baselines.parts_of("vqa (question)", FAMILIES) == [QUESTION]
    assert baselines.parts_of("zero-shot", FAMILIES) == list(FAMILIES)
    thresholds = PAPER.thresholds("detector.threshold", [0.2], ["referring"])
    assert thresholds.parts_of(next(iter(thresholds.cells)), FAMILIES) == [REFERRING]


def test_a_cell_of_several_tables_is_asked_once() -> None:
    tables = [PAPER.table_2, PAPER.kept, PAPER.figure_2]
    found = [(cell.name, part.name) for cell, part in cells_of(tables, FAMILIES)]
    # 5 steps, those kept at random, and the ViperGPT API with examples
    assert len(found) == len(set(found)) == (5 + 1 + 1) * 3


def test_entries_have_mean_and_deviation_over_seeds() -> None:
    score = share({})
    runner = FakeRunner(
        lambda cell, part, seed, n: 1.0 if seed == 0 else score(cell, part, seed, n)
    )
    rows = list(entries(cast(CellRunner, runner), PAPER.table_2, FAMILIES))
    assert len(rows) == 15
    first = rows[0]
    assert (first.table, first.name, first.family, first.n) == (
        "table 2", "ViperGPT API", "referring", 80,
    )  # fmt: skip
    assert first.figure.mean == 0.75
    assert first.figure.deviation == pytest.approx(0.5**0.5 / 2)
    assert first.note == "" and rows[-1].note == "16 examples mined"


def test_examples_are_judged_on_vague_queries_alone_set_by_set() -> None:
    def score(cell: str, part: str, seed: int, number: int) -> float:
        return float(number % 2 and seed == 0 and cell == "+ ACE")  # vague ones of world-a alone

    def wording(number: int) -> dict[str, str]:
        return {"wording": "vague" if number % 2 else "explicit"}

    runner = FakeRunner(score, groups=wording)
    vague = zero_shot.vague_queries(FAMILIES, runner.scale.seeds)
    assert [each.name for each in vague][:4] == [
        "referring, world-a", "question, world-a", "video, world-a", "all, world-a",
    ]  # fmt: skip
    bench = zero_shot.VagueBench(cast(CellRunner, runner))
    found = {one.family: one.difference for one in gains(bench, PAPER.vague, vague)}
    assert len(found) == 8  # seeds 0 and 1 ask world-a and world-b
    assert found["all, world-a"].value == 1 and found["all, world-a"].n == 3 * 20
    assert found["video, world-b"].value == 0 and found["video, world-b"].n == 20
    shown = list(tables.entries(bench, PAPER.vague, vague))
    assert {row.n for row in shown} == {20, 60} and len(shown) == 2 * 8


def test_gains_are_given_by_family() -> None:
    runner = FakeRunner(share({"ViperGPT API": 0.25, "+ abstract API @ question": 0.75}))
    found = list(gains(cast(CellRunner, runner), PAPER.table_2, FAMILIES))
    by_name = {(one.name, one.family): one.difference for one in found}
    assert len(by_name) == 5 * 3
    assert by_name["ViperGPT API -> + abstract API", "question"].value == 0.5
    assert by_name["ViperGPT API -> + self-tuning", "video"].n == 80


def rows(scores: list[float], **changes: object) -> list[SampleResult]:
    return [
        replace(SampleResult(f"s{n}", 0, score), **changes)  # type: ignore[arg-type]
        for n, score in enumerate(scores)
    ]


def test_gains_are_paired_by_sample_in_whatever_order() -> None:
    old, new = rows([0, 0, 1, 1]), rows([1, 0, 1, 1])
    straight = gain_of(old, new, "t", "a -> b", "f")
    assert straight.difference.value == 0.25 and straight.difference.n == 4
    assert gain_of(old, new[::-1], "t", "a -> b", "f") == straight


@pytest.mark.parametrize(
    "other",
    [rows([1, 1]), rows([1, 1, 1, 1]), rows([1, 1, 1], seed=1), [*rows([1, 1]), *rows([1])]],
    ids=["fewer", "more", "another seed", "one twice"],
)
def test_other_samples_are_not_compared(other: list[SampleResult]) -> None:
    with pytest.raises(DataError, match="a -> b: 3 and . answers cannot be paired"):
        gain_of(rows([0, 0, 0]), other, "t", "a -> b", "f")


def test_a_sample_that_three_seeds_ask_is_one_observation_of_three() -> None:
    """Else three equal seeds would shrink the interval by the root of three."""
    once = rows([1, 0] * 20), rows([0, 1, 1, 1] * 10)
    thrice = [[replace(row, seed=seed) for seed in range(3) for row in some] for some in once]
    one = gain_of(*once, "t", "n", "f").difference
    three = gain_of(*thrice, "t", "n", "f").difference
    assert three.value == one.value and three.n == 3 * one.n
    assert three.high - three.low == pytest.approx(one.high - one.low, rel=0.1)


def scores_after(runner: FakeRunner, trials: int) -> list[float]:
    bench = TrialBench(cast(CellRunner, runner), trials)
    return [each.score for each in bench.results(PAPER.tune, cast(Part, REFERRING), 0)]


def test_a_trial_is_an_execution_and_a_threshold_step_counts_as_one() -> None:
    corrections = {
        0: ("first",),
        1: ("first", "self_tune", "self_tune"),
        2: ("first", "self_tune", "self_debug"),
        3: ("first", "self_debug", "self_debug", "self_debug", "self_debug"),
        4: (),
        5: ("first", "look_for_options"),
        6: ("first", "rerun", "self_debug_feedback", "fallback"),
        7: ("first", "self_tune", "self_tune", "self_debug", "self_tune", "self_tune"),
    }
    runner = FakeRunner(
        lambda *_: 0.5, samples=8, corrections=lambda _, number: corrections[number]
    )
    found = {count: scores_after(runner, count) for count in range(1, TRIALS + 1)}
    right_after = {1: (0, 4, 5), 2: (0, 4, 5, 6), 3: (0, 1, 2, 4, 5, 6), 5: (0, 1, 2, 3, 4, 5, 6)}
    for count, numbers in right_after.items():
        assert found[count] == [0.5 * (number in numbers) for number in range(8)], count


def test_figure_4_has_a_row_for_each_number_of_trials() -> None:
    runner = FakeRunner(
        lambda *_: 1.0, samples=4, corrections=lambda _, n: ("first", *["self_debug"] * n)
    )
    found = list(entries(cast(CellRunner, runner), PAPER.figure_4, [REFERRING]))
    means = {row.name: row.figure.mean for row in found}
    assert means["abstract API, from scratch, 1 trial"] == 0.25
    assert means["ViperGPT API, feedback, 3 trials"] == 0.75
    assert len(found) == 8 * TRIALS


def test_gains_of_figure_4_do_not_count_what_took_more_trials() -> None:
    """Steps of a threshold were free."""

    def corrections(cell: str, number: int) -> list[str]:
        steps = 6 if cell == PAPER.tune.name and number < 2 else 0
        return ["first", *["self_tune"] * steps]

    runner = FakeRunner(lambda *_: 1.0, samples=4, corrections=corrections)
    found = {
        one.name: one.difference.value
        for one in zero_shot.gains(cast(CellRunner, runner), PAPER.figure_4, [REFERRING])
    }
    scratch = "abstract API, from scratch"
    assert found[f"{scratch} -> {scratch}, dynamic threshold"] == -0.5
    assert found[f"{scratch} -> abstract API, feedback"] == 0.0


def without_api(cell: Cell) -> Cell:
    """The cell without its name and its API: what must be the same for both APIs."""
    mining = cell.mining and replace(cell.mining, api="")
    return replace(cell, name="", options=cell.options.changed(api=None), mining=mining)


@pytest.mark.parametrize(
    "table", [PAPER.figure_3, PAPER.figure_4, PAPER.shots, PAPER.temperatures(0.4)]
)
def test_both_apis_are_measured_with_the_same_examples(table: Table[Cell]) -> None:
    """Figure 4 had the examples on one API alone; figure 3 and tables 5 and 6 had one API."""
    rows = {row: cell for row, cell in table.cells.items() if "ViperGPT API" in row}
    assert 2 * len(rows) == len(table.cells)
    for row, cell in rows.items():
        other = table.cells[row.replace("ViperGPT API", "abstract API")]
        assert without_api(cell) == without_api(other)
        assert (cell.options.api, other.options.api) == ("vipergpt", "abstract")
        for each in (cell, other):
            assert each.mining is None or each.mining.api == each.options.api
    trials = table.name == "figure 4"
    assert not trials or all(cell.mining is not None for cell in table.cells.values())


def test_no_cell_but_those_of_table_3_changes_the_profiles_temperature() -> None:
    for table in all_tables():
        for row, cell in table.cells.items():
            assert cell.options.retry_temperature is None, row
            if table.name != "table 3":
                assert cell.options.temperature is None, (table.name, row)
    warm, greedy = PAPER.temperatures(0.4), PAPER.temperatures(0.0)
    own = [cell.options.temperature for cell in warm.cells.values()]
    assert own == [0.0, None, 0.8, 1.0] * 2  # the profile's own is not answered again
    assert [cell.options.temperature for cell in greedy.cells.values()] == [None, 0.4, 0.8, 1.0] * 2


def test_every_cell_but_the_baselines_writes_programs_by_the_papers_method() -> None:
    cells = [cell for table in all_tables() for cell in table.cells.values()]
    written = [cell for cell in cells if not cell.name.startswith("baseline")]
    assert {cell.options.strategy for cell in written} == {"program"}
    assert {cell.options.tune_on_evidence for cell in written} == {False}
    assert {cell.options.on_misfit for cell in written} == {"accept"}  # no check of the answer
    assert {cell.options.careful for cell in written} == {False}  # nothing written by hand
    without = [cell for cell in written if cell.mining is None]
    assert {cell.options.examples for cell in without} == {0}


def test_another_api_takes_the_place_of_the_abstract_one() -> None:
    for table in all_tables(Ablation("visprog")):
        for row, cell in table.cells.items():
            assert "abstract" not in f"{row} {cell}"
    with pytest.raises(UsageError, match="--api is vipergpt, which every table compares with"):
        Ablation("vipergpt")


def test_samples_of_one_picture_are_one_observation() -> None:
    before, later = rows([1, 0] * 20), rows([0, 1, 1, 1] * 10)
    alone = gain_of(before, later, "t", "n", "f").difference
    one_picture = [
        [replace(row, cluster=str(number // 4)) for number, row in enumerate(some)]
        for some in (before, later)
    ]
    together = gain_of(*one_picture, "t", "n", "f").difference
    assert together.value == alone.value
    assert together.high - together.low < 0.5 * (alone.high - alone.low)  # the pictures are alike
