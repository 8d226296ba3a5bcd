"""``reproduce trust``: each claim is borne out by good figures, and fails on figures against it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.strategies.bench import Bench
from viper.evaluate.intervals import proportion
from viper.evaluate.sample_result import Prediction, SampleResult
from viper_lab.papers import trust
from viper_lab.papers.cell_runner import Cell
from viper_lab.papers.result import Claim
from viper_lab.papers.trust import VOTED, VOTED_CHECKED, Programs, TrustPart
from viper_lab.world.queries.generate import generate
from viper_lab.world.queries.programs import gold_program
from viper_lab.world.queries.sample import WorldSample


def row(right: bool, confidence: float | None, *marks: str, answered: bool = True) -> SampleResult:
    prediction = Prediction("x", confidence=confidence) if answered else None
    return SampleResult("s", 0, float(right), prediction=prediction, marks=marks)


def told(rows: list[SampleResult], limit: float | None = 0.8) -> dict[str, Claim]:
    _, claims = trust._confidence("cell", rows, limit)
    return {claim.claim: claim for claim in claims}


GOOD = [row(True, 0.97)] * 970 + [row(False, 0.97)] * 30 + [row(False, 0.1)] * 90


def test_good_figures_bear_the_claims_out() -> None:
    assert {claim.holds for claim in told(GOOD).values()} == {True}


@pytest.mark.parametrize(
    ("rows", "failing"),
    [
        ([row(True, 0.97)] * 970 + [row(False, 0.97)] * 120, "60 % of wrong answers"),
        ([*GOOD, *[row(True, 0.97, "warning:guessed")] * 200], "of right answers at most 8 %"),
        ([row(True, 0.6)] * 970 + [row(False, 0.1)] * 90, "calibration error"),
        ([*GOOD, *[row(True, 0.7)] * 900], "70 % are answered"),
        ([*GOOD, *[row(False, 0.97)] * 200], "the risk of these"),
    ],
)
def test_figures_against_a_claim_fail_it(rows: list[SampleResult], failing: str) -> None:
    (claim,) = [claim for words, claim in told(rows).items() if words.startswith(failing)]
    assert claim.holds is False


def test_a_warning_or_no_answer_counts_as_told() -> None:
    claim = "60 % of wrong answers have a warning or doubt, or are none"
    marked = [row(False, 0.9, "warning:guessed"), row(False, 0.9), row(False, None, answered=False)]
    assert told([*marked, row(True, 0.9)])[claim].reason.startswith("66.7 %")


def test_without_calibration_nothing_is_judged_of_it() -> None:
    rows = [row(True, None)] * 40 + [row(False, None)] * 20
    assert told(rows)["calibration"].holds is None
    assert told(GOOD, None)["abstention"].holds is None


@pytest.mark.parametrize(
    ("before", "after", "holds"), [(40, 20, True), (40, 21, False), (9, 0, None)]
)
def test_halving_is_judged_on_enough_wrong_programs(
    before: int, after: int, holds: bool | None
) -> None:
    assert trust._halved(proportion(before, 400), proportion(after, 400)).holds is holds


# programs against canonical ones, on the oracle and in the real sandbox

PART = TrustPart("question", "val", cast(Any, None))


def of(program: Callable[[Cell, WorldSample], str], components: Any) -> Programs:
    samples = generate("question", "val", 0, 3)

    def results(cell: Cell, part: TrustPart, seed: int) -> list[SampleResult]:
        return [
            SampleResult(sample.sample_id, 0, 1.0, program=program(cell, sample))
            for sample in samples
        ]

    scale = SimpleNamespace(samples=3, seeds=(0,))
    runner = SimpleNamespace(writers={"main": components}, scale=scale, results=results)
    return Programs(cast(Any, runner))


def test_a_right_answer_of_a_constant_program_is_counted() -> None:
    def program(cell: Cell, sample: WorldSample) -> str:
        if cell is VOTED_CHECKED:
            return gold_program(sample.meaning, "abstract", sample.task)
        return f"def execute_command(image):\n    return {sample.answer!r}\n"

    with Bench([]) as bench:
        cells, _ = of(program, bench.reasoner.components).spurious([PART])
    shares = {cell.name: cell.figure.mean for cell in cells if cell.family == "all"}
    assert shares == {VOTED.name: 1.0, VOTED_CHECKED.name: 0.0}


def test_a_program_is_told_from_the_verified_one_by_its_behaviour() -> None:
    (sample,) = generate("question", "val", 0, 1)
    gold = gold_program(sample.meaning, "abstract", sample.task)
    constant = f"def execute_command(image):\n    return {sample.answer!r}\n"
    with Bench([]) as bench:
        programs = of(lambda cell, sample: gold, bench.reasoner.components)
        assert programs._differ(sample, constant, gold)
        assert not programs._differ(sample, f"# the same\n{gold}", gold)
