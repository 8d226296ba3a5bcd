"""Two runs pair by pair."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from run_samples import a_manifest, a_row, failed_row

from viper.errors import UsageError
from viper.evaluate.reports.comparison import compare
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult


def stored(folder: Path, rows: list[SampleResult]) -> RunStore:
    store = RunStore.create(folder, a_manifest())
    for position, row in enumerate(rows):
        store.add(position, row)
    return store


def test_flips_programs_and_failures_by_hand(tmp_path: Path) -> None:
    before = [a_row(0, score=0.49), a_row(1, score=0.5), failed_row(2), a_row(3), a_row(4)]
    after = [
        replace(before[0], score=0.5),
        replace(before[1], score=0.49, failure="timeout"),
        replace(before[2], failure="model"),
        replace(before[3], program="other()"),
        before[4],
    ]
    found = compare(stored(tmp_path / "a", before), stored(tmp_path / "b", after))
    assert [one.sample_id for one in found.to_right] == ["s00000"]
    assert [(one.sample_id, one.before, one.after) for one in found.to_wrong] == [
        ("s00001", 0.5, 0.49)
    ]
    assert [one.sample_id for one in found.changed_program] == ["s00003"]
    assert [(one.before, one.after) for one in found.changed_failure] == [
        (None, "timeout"),
        ("runtime", "model"),
    ]
    assert found.n == 5 and found.gain.better == 1 and found.gain.worse == 1
    assert found.score_after - found.score_before == pytest.approx(found.gain.difference.value)
    assert json.loads(json.dumps(found.to_json()))["to_right"][0]["text"].startswith("what color")


def test_a_run_against_itself_gains_nothing(tmp_path: Path) -> None:
    store = stored(tmp_path, [a_row(n) for n in range(30)])
    found = compare(store, store)
    assert found.gain.difference.value == 0 and found.gain.p_value == 1
    assert not found.to_right and not found.changed_program


def test_a_clear_gain_is_significant(tmp_path: Path) -> None:
    worse = [a_row(n, score=0.0, cluster="") for n in range(40)]
    better = [replace(row, score=float(n < 30)) for n, row in enumerate(worse)]
    found = compare(stored(tmp_path / "a", worse), stored(tmp_path / "b", better))
    assert found.gain.p_value < 1e-6 and found.gain.difference.low > 0.5
    assert len(found.to_right) == 30


def test_different_samples_are_refused_unless_the_common_are_wanted(tmp_path: Path) -> None:
    one = stored(tmp_path / "a", [a_row(n) for n in range(10)])
    two = stored(tmp_path / "b", [a_row(n) for n in range(4, 12)])
    with pytest.raises(UsageError, match="4 only in .*a, 2 only in .*b; --common compares the 6"):
        compare(one, two)
    found = compare(one, two, common=True)
    assert (found.n, found.only_before, found.only_after) == (6, 4, 2)
    with pytest.raises(UsageError, match="share no sample"):
        compare(one, stored(tmp_path / "c", [a_row(99)]), common=True)


def test_the_same_ids_of_other_questions_are_refused(tmp_path: Path) -> None:
    one = stored(tmp_path / "a", [a_row(n) for n in range(10)])
    two = stored(tmp_path / "b", [a_row(n, text="something else") for n in range(10)])
    with pytest.raises(UsageError, match="10 samples .*ask for something else .'s00000'"):
        compare(one, two, common=True)
