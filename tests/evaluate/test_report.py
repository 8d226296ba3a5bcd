"""The report of a run: figures, failures, marks, seeds, and that it depends on rows alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from run_samples import Hits, a_manifest, a_row, failed_row

from viper.errors import UnknownNameError
from viper.evaluate.reports.report import report
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult
from viper.schema import Usage


def stored(folder: Path, rows: list[SampleResult], **changes: object) -> RunStore:
    store = RunStore.create(folder, a_manifest(**changes))
    for position, row in enumerate(rows):
        store.add(position, row)
    return store


def test_figures_groups_and_failures_count_every_sample(tmp_path: Path) -> None:
    rows = [a_row(n) for n in range(20)]
    rows += [failed_row(n, "timeout") for n in range(20, 28)]
    rows += [failed_row(n, "model") for n in range(28, 40)]
    made = report(stored(tmp_path, rows), Hits())
    assert made["n"] == made["expected"] == 40 and made["complete"]
    assert made["headline"] == "hits" and made["figures"]["hits"]["value"] == 0.25
    assert made["figures"]["hits"]["low"] < 0.25 < made["figures"]["hits"]["high"]
    assert set(made["groups"]["family"]) == {"spatial", "temporal"}
    assert list(made["failures"]) == ["model", "timeout"]
    assert made["failures"]["timeout"]["count"] == 8 and made["failures"]["timeout"]["share"] == 0.2
    assert made["failures"]["timeout"]["examples"] == ["s00020", "s00021", "s00022"]
    assert made["marks"] == {} and made["fallbacks"] is None and made["notes"] == []
    assert made["timing"]["usage"] == {
        "llm_calls": 40,
        "prompt_tokens": 4000,
        "completion_tokens": 800,
        "model_calls": 120,
        "cost_usd": 0.04,
        "samples_without_cost": 0,
    }


def test_fallback_answers_are_told_apart(tmp_path: Path) -> None:
    rows = [a_row(n, marks=("fallback:average_box",) if n < 10 else ()) for n in range(40)]
    made = report(stored(tmp_path, rows), Hits())
    assert made["marks"]["fallback:average_box"]["count"] == 10
    assert made["figures"]["hits"]["value"] == 0.5
    assert made["fallbacks"]["answers"] == 10
    assert made["fallbacks"]["figures_without"]["hits"]["value"] == 0.375
    assert made["notes"] == [
        "10 of 40 answers are a fallback's and not the strategy's own; hits is 0.500 with them "
        "and 0.375 where they count as failed."
    ]


def test_other_marks_are_counted_and_change_nothing(tmp_path: Path) -> None:
    made = report(stored(tmp_path, [a_row(n, marks=("retried",)) for n in range(40)]), Hits())
    assert made["marks"]["retried"]["count"] == 40 and made["fallbacks"] is None


def test_seeds_have_a_mean_and_a_deviation(tmp_path: Path) -> None:
    rows = [
        a_row(n, seed=seed, score=float(n % 4 <= seed)) for n in range(40) for seed in (0, 1, 2)
    ]
    made = report(stored(tmp_path, rows, seeds=(0, 1, 2)), Hits())
    assert made["seeds"] == {
        "values": {"0": 0.25, "1": 0.5, "2": 0.75},
        "mean": 0.5,
        "deviation": 0.25,
    }
    assert made["figures"]["hits"]["value"] == 0.5 and made["figures"]["hits"]["n"] == 40
    assert made["n"] == 120 and "means over 3 seeds" in made["notes"][0]


def test_an_unfinished_or_empty_run_says_so(tmp_path: Path) -> None:
    made = report(stored(tmp_path / "a", [a_row(n) for n in range(10)], seeds=(0, 1)), Hits())
    assert not made["complete"] and made["seeds"]["values"] == {"0": 0.5}
    assert "10 of 80 answers" in made["notes"][0]
    assert report(stored(tmp_path / "b", []), Hits())["n"] == 0


def test_cost_is_unknown_where_no_price_is(tmp_path: Path) -> None:
    free = [a_row(n, usage=Usage()) for n in range(2)]
    usage = report(stored(tmp_path / "a", free), Hits())["timing"]["usage"]
    assert usage["cost_usd"] is None and usage["samples_without_cost"] == 2
    usage = report(stored(tmp_path / "b", [*free, a_row(2)]), Hits())["timing"]["usage"]
    assert usage["cost_usd"] == 0.001 and usage["samples_without_cost"] == 2


def test_equal_rows_give_an_equal_report_whenever_they_were_written(tmp_path: Path) -> None:
    rows = [a_row(n) if n % 5 else failed_row(n) for n in range(40)]
    first = stored(tmp_path / "first", rows)
    first.write_report(report(first, Hits()))
    second = RunStore.create(
        tmp_path / "second", a_manifest(created="later", arguments=("x",), execution={"workers": 8})
    )
    for position in reversed(range(40)):
        slower = {"seconds": 99.0, "usage": Usage(1, 100, 20, 0, None)}
        row = rows[position]
        second.add(position, SampleResult(**{**row.__dict__, **slower}))
        if position == 20:
            second.close()
            second = RunStore.resume(tmp_path / "second", a_manifest())
    second.write_report(report(second, Hits()))
    texts = []
    for store in (first, second):
        made = json.loads((store.folder / "report.json").read_text())
        assert made.pop("timing")["sample_seconds"]["median"] in (0.25, 99.0)
        texts.append(json.dumps(made))
    assert texts[0] == texts[1]


def test_an_unknown_metric_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown metric 'hits'"):
        report(stored(tmp_path, []))


@pytest.mark.parametrize("name", ["grounding", "gqa", "nextqa", "nlvr", "okvqa", "world", "mixed"])
def test_the_metrics_of_this_package_make_reports(tmp_path: Path, name: str) -> None:
    made = report(stored(tmp_path, [a_row(n) for n in range(40)], metric=name))
    assert made["n"] == 40 and made["headline"] in made["figures"]
    json.dumps(made, allow_nan=False)
