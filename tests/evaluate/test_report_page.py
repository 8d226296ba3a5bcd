"""The HTML page of a report: self-contained, escaped, labelled; and the tables beside it."""

from __future__ import annotations

import csv
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from run_samples import Hits, a_manifest, a_row, failed_row

from viper.evaluate.reports.page import report_page
from viper.evaluate.reports.report import report
from viper.evaluate.reports.tables import NamedReport, rendered
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import Prediction, SampleResult

ATTACKS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</pre></details></table><iframe src=javascript:alert(1)>",
    "</style><style>*{display:none}",
    "</title></svg><svg onload=alert(1)>",
    "$\\frac{$ --> <!-- &lt;script&gt; ]]>",
    "=cmd|' /C calc'!A0",
)
ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "div", "br"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "details", "summary", "pre"),
    *("span", "svg", "g", "defs", "path", "use", "rect", "text", "clippath", "pattern"),
}
VOID = {"meta", "br", "path", "use", "rect"}


class Page(HTMLParser):
    """What a browser would see: elements, attributes, and whether they close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def page_of(folder: Path, rows: list[SampleResult], **changes: object) -> str:
    with RunStore.create(folder, a_manifest(**changes)) as store:
        for position, row in enumerate(rows):
            store.add(position, row)
        return report_page(store, report(store, Hits()))


def hostile(number: int, attack: str) -> SampleResult:
    return failed_row(
        number,
        f"kind {attack}",
        sample_id=f"{number} {attack}",
        text=attack,
        message=attack,
        target=[attack],
        prediction=Prediction({attack: attack}),
        program=attack,
        groups={f"group {attack}": attack},
        marks=(f"fallback:{attack}",),
        cluster=attack,
        files=(attack,),
    )


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_that_was_written_by_others_becomes_markup(tmp_path: Path, attack: str) -> None:
    hurt = {
        "strategy": attack,
        "api": attack,
        "settings": {attack: attack},
        "models": {"llm": attack},
    }
    text = page_of(tmp_path, [hostile(0, attack), a_row(1)], **hurt)
    page = Page(text)
    assert set(page.names) <= ALLOWED and page.open == []
    names = {name for name, _ in page.attributes}
    assert not {name for name in names if name.startswith("on")} and "src" not in names
    links = {value for name, value in page.attributes if name in ("href", "xlink:href")}
    assert all(re.fullmatch(r"#m[0-9a-f]+", str(link)) for link in links)
    assert text.count("<style") == 1 + text.count("<svg")


def test_the_page_asks_for_nothing_and_forbids_scripts(tmp_path: Path) -> None:
    text = page_of(tmp_path, [a_row(n) if n % 5 else failed_row(n) for n in range(40)])
    addresses = set(re.findall(r"https?://[^\"'\s<)]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "default-src 'none'" in text and "<script" not in text
    assert "prefers-color-scheme: dark" in text and 'name="viewport"' in text


def test_tables_and_plots_are_labelled(tmp_path: Path) -> None:
    text = page_of(tmp_path, [a_row(n) if n % 5 else failed_row(n) for n in range(40)])
    page = Page(text)
    assert page.names.count("table") == page.names.count("caption")
    assert 'scope="col"' in text and 'scope="row"' in text
    assert text.count('tabindex="0"') == page.names.count("table") + page.names.count("svg")
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids)), "ids are unique in a page"
    labels = [value for name, value in page.attributes if name == "aria-labelledby"]
    assert len(labels) == 3 and set(labels) <= set(ids)
    assert text.count("<pattern") >= 1, "bars differ by hatch"


def test_the_worst_samples_are_listed_and_no_more_than_two_hundred(tmp_path: Path) -> None:
    rows = [a_row(n, score=1.0) for n in range(300)]
    rows[250] = failed_row(250, "timeout", message="line 3 took 10 s")
    text = page_of(tmp_path, rows)
    listed = re.findall(r'<th scope="row">(s\d+)</th>', text)
    assert listed[0] == "s00250" and len(listed) == 200
    assert "timeout: line 3 took 10 s" in text
    assert '<details><summary>program</summary><pre><span class="py-k">def</span>' in text


def test_fallbacks_and_unfinished_runs_are_said_on_the_page(tmp_path: Path) -> None:
    text = page_of(tmp_path, [a_row(n, marks=("fallback:average_box",)) for n in range(10)])
    assert "not the strategy&#39;s own" in text and "without fallbacks" in text
    assert "not finished: 10 of 40" in text


def test_an_empty_run_has_a_page(tmp_path: Path) -> None:
    assert Page(page_of(tmp_path, [])).open == []


def test_equal_rows_give_an_equal_page(tmp_path: Path) -> None:
    rows = [a_row(n) if n % 5 else failed_row(n) for n in range(40)]
    one, two = (re.sub(r"(?s)<h2>Usage.*?<h2>", "", page_of(tmp_path / n, rows)) for n in "ab")
    assert one == two


def named(folder: Path, rows: list[SampleResult], **changes: object) -> NamedReport:
    with RunStore.create(folder, a_manifest(**changes)) as store:
        for position, row in enumerate(rows):
            store.add(position, row)
        return NamedReport(folder.name, report(store, Hits()))


def test_csv_cells_are_no_formulas_and_numbers_stay_numbers(tmp_path: Path) -> None:
    rows = [hostile(0, "=cmd|' /C calc'!A0"), a_row(1)]
    found = named(tmp_path / "=run", rows, strategy="@SUM(A1)", api="+a", profile="-p")
    lines = list(csv.reader(io.StringIO(rendered([found], "csv"))))
    header, *cells = lines
    assert all(not cell.startswith(("=", "+", "-", "@")) or cell == "-" for line in lines
               for cell in line)  # fmt: skip
    assert cells[0][:4] == ["'=run", "world", "test", "'@SUM(A1)"]
    overall = dict(zip(header, cells[0], strict=True))
    assert overall["kind"] == "overall" and float(overall["value"]) == 0.0


def test_runs_stand_side_by_side(tmp_path: Path) -> None:
    good = named(tmp_path / "good", [a_row(n, score=1.0) for n in range(40)])
    bad = named(tmp_path / "bad", [failed_row(n) for n in range(20)], strategy="a|b")
    table = rendered([good, bad], "table").splitlines()
    assert table[0].split()[:2] == ["run", "set"]
    assert "1.000 [0.912, 1.000]" in table[1] and "0 (0.0%)" in table[1]
    assert "20 of 40" in table[2] and "20 (100.0%)" in table[2]
    assert any("bad: This run is not finished" in line for line in table)
    markdown = rendered([good, bad], "markdown").splitlines()
    assert markdown[1].startswith("| --- |") and "a\\|b" in markdown[3]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in markdown[:4]}) == 1


def test_a_single_run_is_shown_with_groups_and_failures(tmp_path: Path) -> None:
    rows = [a_row(n) if n % 5 else failed_row(n, "timeout") for n in range(40)]
    text = rendered([named(tmp_path / "run", rows)], "table")
    assert "by family" in text and "timeout" in text and "s00000, s00005, s00010" in text
    assert "tokens read" in text


def test_axes_end_at_the_best_score_and_name_what_they_show(tmp_path: Path) -> None:
    html = page_of(tmp_path, [a_row(n) for n in range(40)])
    ticks = re.findall(r">(\d\.\d)</text>", html)
    assert "1.0" in ticks and max(map(float, ticks)) == 1.0


def test_throughput_and_latency_are_told_apart(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "run", a_manifest()) as store:
        store.add(0, a_row(0))
        before = rendered([NamedReport("run", report(store, Hits()))], "table")
        store.add_pace(10, 4.0)
        after = rendered([NamedReport("run", report(store, Hits()))], "table")
    latency = r"latency of an answer, waiting for shared models included +0\.25 s \(95%"
    assert re.search(latency, before) and "throughput" not in before
    assert re.search(r"throughput +2\.50 answers a second \(10 in 4 s\)", after)
