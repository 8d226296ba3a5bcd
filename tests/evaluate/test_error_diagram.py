"""Error diagrams: into which part a row falls, the shares, their table and their drawing."""

from __future__ import annotations

import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from engine_doubles import a_sample
from run_samples import Hits, a_manifest, a_row, failed_row

from viper.evaluate.intervals import proportion
from viper.evaluate.metrics import metric
from viper.evaluate.reports import report as reports
from viper.evaluate.reports.error_diagram import (
    BOXES,
    ERRORS,
    FALLBACK,
    PARTS,
    error_diagram,
    part_of,
)
from viper.evaluate.reports.page import errors_page
from viper.evaluate.reports.plots import COLORS, HATCHES, error_plot
from viper.evaluate.reports.tables import NamedReport, rendered, rendered_errors
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import Prediction, SampleResult

STYLE = Path(reports.__file__).with_name("templates").joinpath("parts.css").read_text("utf-8")


def boxed(number: int, iou: float, **changes: Any) -> SampleResult:
    return a_row(number, **{"score": iou, "details": {"iou": iou}, "task": "ground", **changes})


def worded(number: int, score: float, **changes: Any) -> SampleResult:
    return a_row(number, score=score, details={}, **changes)


def diagram(*rows: SampleResult) -> dict[str, Any]:
    return error_diagram(rows).to_json()


def counts(*rows: SampleResult) -> dict[str, int]:
    return {part: one["count"] for part, one in diagram(*rows)["parts"].items()}


@pytest.mark.parametrize(
    ("iou", "part"),
    [
        (0.0, "IoU 0"),
        (1e-9, "IoU up to 0.3"),
        (0.3, "IoU up to 0.3"),
        (0.3001, "IoU up to 0.5"),
        (0.5, "IoU up to 0.5"),
        (0.5001, "IoU up to 0.7"),
        (0.7, "IoU up to 0.7"),
        (0.7001, "IoU above 0.7"),
        (1.0, "IoU above 0.7"),
    ],
)
def test_ranges_hold_their_upper_end(iou: float, part: str) -> None:
    assert part_of(boxed(0, iou)) == part


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("below_threshold", "error: below threshold"),
        ("return_type", "error: wrong type"),
        *((kind, "error: other") for kind in ("runtime", "syntax", "deadline", "odd")),
    ],
)
def test_failures_by_kind(kind: str, part: str) -> None:
    assert part_of(failed_row(0, kind)) == part
    assert part_of(failed_row(0, kind, details={"iou": 0.0}, task="ground")) == part


def test_words_are_right_or_wrong() -> None:
    assert counts(worded(0, 1.0), worded(1, 0.5), worded(2, 0.3)) == {
        "right": 2, "wrong": 1, **dict.fromkeys(ERRORS, 0),
    }  # fmt: skip


def test_a_fallback_is_no_success_of_the_program() -> None:
    found = counts(boxed(0, 0.9), boxed(1, 0.9, marks=("fallback:average_box",)))
    assert found[FALLBACK] == 1 and found["IoU above 0.7"] == 1
    assert FALLBACK not in counts(boxed(0, 0.9))


def test_shares_add_up_and_have_wilson_intervals() -> None:
    rows = [boxed(n, n / 20) for n in range(20)] + [failed_row(n, "runtime") for n in range(20, 30)]
    rows += [failed_row(30, "below_threshold"), failed_row(31, "return_type")]
    found = diagram(*rows)
    assert list(found["parts"]) == [*BOXES, *ERRORS] and found["n"] == 32
    assert sum(one["count"] for one in found["parts"].values()) == 32
    assert sum(one["share"] for one in found["parts"].values()) == pytest.approx(1.0)
    expected = proportion(10, 32)
    other = found["parts"]["error: other"]
    assert (other["share"], other["low"], other["high"]) == (
        expected.value, expected.low, expected.high,
    )  # fmt: skip
    together = proportion(12, 32)
    assert found["failed"] == {
        "count": 12, "share": together.value, "low": together.low, "high": together.high,
    }  # fmt: skip


def test_more_seeds_do_not_narrow_the_interval() -> None:
    once = [boxed(n, 0.9 if n % 2 else 0.0) for n in range(20)]
    twice = [*once, *(boxed(n, 0.9 if n % 4 else 0.0, seed=1) for n in range(20))]
    one, two = (error_diagram(rows).shares["IoU above 0.7"] for rows in (once, twice))
    assert (one.value, two.value) == (0.5, pytest.approx((0.5 + 0.75) / 2))
    assert two.high - two.low == pytest.approx(
        (one.high - one.low + proportion(15, 20).high - proportion(15, 20).low) / 2
    )
    assert error_diagram(twice).n == 40


def test_no_rows_at_all() -> None:
    found = diagram()
    assert found["n"] == 0 and found["failed"]["share"] == 0.0
    assert error_plot([NamedReport("empty", {"errors": found})]) == ""
    assert "0" in rendered_errors([NamedReport("empty", {"errors": found})], "table")


def test_the_order_of_rows_does_not_matter() -> None:
    rows = [boxed(1, 0.2), worded(2, 1.0), failed_row(3), boxed(4, 0.9)]
    assert diagram(*rows) == diagram(*reversed(rows))


def runs() -> list[NamedReport]:
    before = [boxed(n, n / 30) for n in range(30)] + [failed_row(n) for n in range(30, 40)]
    after = [boxed(n, 0.9) for n in range(38)] + [worded(n, 0.0) for n in range(38, 40)]
    return [
        NamedReport(name, {"errors": diagram(*rows)})
        for name, rows in (("=a", before), ("b|<i>", after))
    ]


def test_runs_stand_side_by_side() -> None:
    lines = rendered_errors(runs(), "table").splitlines()
    assert lines[0].split("  ")[0] == "share of answers [95% interval]"
    assert [re.split(r" {2,}", line)[0] for line in lines[1:]] == [
        *BOXES, "right", "wrong", *ERRORS, "errors together", "n",
    ]  # fmt: skip
    assert re.search(r"IoU above 0.7 +0.200 \[\d.*\] +0.950 \[", lines[1])
    assert re.search(r"wrong +- +0.050 \[", lines[7])
    assert re.search(r"errors together +0.250 \[0.142, 0.402\] +0.000 \[", lines[-2])


def test_the_other_formats() -> None:
    markdown = rendered_errors(runs(), "markdown").splitlines()
    assert markdown[1] == "| --- | --- | --- |" and "b\\|&lt;i&gt;" in markdown[0]
    cells = list(csv.DictReader(io.StringIO(rendered_errors(runs(), "csv"))))
    assert cells[0]["run"] == "'=a" and cells[0]["part"] == BOXES[0]
    assert {cell["n"] for cell in cells} == {"40"}
    found = json.loads(rendered_errors(runs(), "json"))
    assert [run["run"] for run in found["runs"]] == ["=a", "b|<i>"]
    assert found["runs"][0]["failed"]["count"] == 10


def test_bars_are_told_without_colour() -> None:
    assert len(HATCHES) == len(COLORS) == len(PARTS)
    assert len(set(HATCHES)) == len(HATCHES)
    svg = error_plot(runs())
    assert "b|&lt;i&gt;" in svg and "<i>" not in svg
    for part in (*BOXES, "right", "wrong", *ERRORS):
        assert part in svg, "every part is in the legend"
    assert not re.search(r"#0[0-9a-f]0[0-9a-f]{3}\b", svg), "the page's colours alone are left"
    used = {int(number) for number in re.findall(r"var\(--part-(\d+)\)", svg)}
    assert used == {PARTS.index(part) for part in (*BOXES, "right", "wrong", *ERRORS)}


def test_a_drawing_has_the_shares_as_lengths() -> None:
    rows = [boxed(n, 0.9) for n in range(6)] + [failed_row(n) for n in range(6, 8)]
    svg = error_plot([NamedReport("a", {"errors": diagram(*rows)})])
    assert re.findall(r">(\d+)</text>", svg) == ["75", "25"]


@pytest.mark.parametrize("theme", [0, 1])
def test_neighbours_differ_in_lightness(theme: int) -> None:
    found = colors(theme)
    paths = [[*range(5), 8], [5, 6, 8], [8, 9, 10], [4, 7, 8]]
    for path in paths:
        tones = [lightness(found[number]) for number in path]
        for one, other in zip(tones, tones[1:], strict=False):
            assert abs(one - other) > 4, (path, tones)


@pytest.mark.parametrize(("theme", "paper"), [(0, 100.0), (1, 8.0)])
def test_wrong_answers_stand_out_from_the_page_more_than_right_ones(
    theme: int, paper: float
) -> None:
    best, *_, worst, right, wrong = [abs(lightness(each) - paper) for each in colors(theme)[:7]]
    assert min(worst, wrong) > 4 * max(best, right)


def colors(theme: int) -> list[str]:
    """Return the colors of the parts in the light (0) or the dark theme (1)."""
    pairs = re.findall(r"light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", STYLE)
    return [pair[theme] for pair in pairs]


def lightness(color: str) -> float:
    """CIE lightness, 0 to 100."""
    sides = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in sides]
    light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return 116 * light ** (1 / 3) - 16


class _Balanced(HTMLParser):
    void = frozenset({"meta", "br", "path", "use", "rect"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.void:
            assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        pass


def test_a_page_of_several_runs() -> None:
    page = errors_page(runs())
    assert _Balanced(page).open == [] and "<i>" not in page and "<script" not in page
    assert page.count("<svg") == 1 and "errors together" in page and "default-src" in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_a_report_holds_it(tmp_path: Path) -> None:
    rows = [boxed(n, 0.9) for n in range(30)] + [
        failed_row(n, "return_type") for n in range(30, 40)
    ]
    with RunStore.create(tmp_path / "run", a_manifest()) as store:
        for position, row in enumerate(rows):
            store.add(position, row)
        made = reports.report(store, Hits())
    assert made["errors"] == diagram(*rows)
    text = rendered([NamedReport("run", made)], "table")
    assert re.search(r"error: wrong type +10 +0.250 \[", text)


def test_boxes_of_the_world_tell_how_far_they_overlap() -> None:
    judge = metric("world")
    sample = a_sample(0, task="ground", target=(0.0, 0.0, 10.0, 10.0))
    assert judge.score(sample, Prediction(box=(0.0, 0.0, 10.0, 8.0))).details == {"iou": 0.8}
    assert judge.score(sample, None).details == {}
    words = a_sample(0, task="question", target="red")
    assert judge.score(words, Prediction("red")).details == {}
