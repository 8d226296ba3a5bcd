"""The viewer as a person uses it, served as ``viper view`` serves it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.evaluate.fake_backends import a_set
from tests.web.test_viewer import write
from viper.data.registry import data_set
from viper.data.sample import DatasetSpec
from viper.evaluate.reports.page import errors_page, report_page
from viper.evaluate.reports.report import report
from viper.evaluate.reports.tables import NamedReport
from viper.evaluate.runs.feedback import read_feedback
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import Prediction, SampleResult

Tab = Callable[..., Any]
SAMPLES = 60


def judged(file: Path) -> list[SampleResult]:
    """Sixty answers: a third failed, the others right and wrong in turn."""
    rows = []
    for number, sample in enumerate(data_set(str(file)).samples(DatasetSpec())):
        program = f"def execute_command(image):\n    return {number}"
        failure = "runtime" if number % 3 == 0 else None
        answer = None if failure else Prediction("red")
        score = 0.0 if failure else float(number % 2)
        row = SampleResult.of(sample, 0, score, prediction=answer, program=program, failure=failure)
        marks = ("warning:weak_evidence",) if number == 1 else ()
        row = replace(row, groups={"kind": f"kind {number % 4}"}, marks=marks)
        rows.append(row)
    return rows


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("runs")
    file, _ = a_set(folder / "set", SAMPLES)
    before = judged(file)
    after = [replace(row, score=1.0, failure=None, prediction=Prediction("red"),
                     program=f"{row.program} + 1")
             if number < 6 else row for number, row in enumerate(before)]  # fmt: skip
    for name, rows in (("before", before), ("after", after)):
        write(folder / name, rows, str(file)).close()
    return folder / "before", folder / "after"


def served(*run: Path) -> Iterator[str]:
    """The address that ``viper view`` prints, while it runs."""
    command = [sys.executable, "-m", "viper", "view", *map(str, run), "--no-open"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="module")
def one(runs: tuple[Path, Path]) -> Iterator[str]:
    yield from served(runs[0])


@pytest.fixture(scope="module")
def both(runs: tuple[Path, Path]) -> Iterator[str]:
    yield from served(*runs)


def heading(found: Any) -> str:
    text: str = found.locator("#samples").inner_text()
    return text


def test_filtering(tab: Tab, one: str, shoot: Callable[[Any, str], None]) -> None:
    found = tab(one)
    assert heading(found) == "60 samples, page 1 of 3"
    expect(found.locator(".grid img").first).not_to_have_js_property("naturalWidth", 0)
    shoot(found, "viewer")
    found.get_by_label("Failure").select_option("runtime")
    found.wait_for_url("**failure=runtime**")
    assert heading(found) == "20 samples"
    found.get_by_label("Kind").select_option("kind=kind 1")
    found.wait_for_url("**kind=**")
    assert heading(found) == "5 samples" and "failure=runtime" in found.url
    found.get_by_label("Text").fill("thing 9?")
    found.keyboard.press("Enter")
    found.wait_for_url("**text=**")
    assert heading(found) == "1 sample"
    found.get_by_role("link", name="Clear").click()
    found.wait_for_url(one)
    assert heading(found) == "60 samples, page 1 of 3"


def test_it_opens_with_the_wrong_which_look_unlike_the_right(tab: Tab, one: str) -> None:
    found = tab(f"{one}?page=1")
    verdicts = found.locator(".grid .verdict")
    words = [text.split(":")[0] for text in verdicts.all_inner_texts()]
    assert words == ["✗ wrong"] * 16 + ["? doubtful"] + ["✓ right"] * 7
    looks = [
        found.locator(f".grid p.{name} .verdict").first.evaluate(
            "one => (({ color, backgroundColor, fontWeight }) =>"
            " [color, backgroundColor, +fontWeight])(getComputedStyle(one))"
        )
        for name in ("wrong", "doubtful", "right")
    ]
    clear = "rgba(0, 0, 0, 0)"
    assert len({color for color, _, _ in looks}) == 3
    assert [background == clear for _, background, _ in looks] == [False, True, True]
    assert [weight > 400 for _, _, weight in looks] == [True, False, False]


def test_the_error_diagram_filters(tab: Tab, one: str) -> None:
    found = tab(one)
    found.locator(".legend").get_by_role("link", name="wrong 20").click()
    found.wait_for_url("**part=wrong**")
    assert heading(found) == "20 samples"
    found.locator(".diagram rect.part").first.click(force=True)
    found.wait_for_url("**part=right**")
    assert heading(found) == "20 samples"
    found.locator(".legend [aria-current]").click()
    found.wait_for_url(lambda url: "part" not in url)
    assert heading(found).startswith("60")


def test_pages_turn_by_link_and_key(tab: Tab, one: str) -> None:
    found = tab(one)
    found.get_by_role("link", name="Next →").click()
    found.wait_for_url("**page=1**")
    found.keyboard.press("ArrowRight")
    found.wait_for_url("**page=2**")
    assert heading(found) == "60 samples, page 3 of 3"
    found.keyboard.press("ArrowLeft")
    found.wait_for_url("**page=1**")


def test_a_sample_opens_its_trace(tab: Tab, one: str) -> None:
    found = tab(one)
    found.get_by_role("link", name="what color is thing 4?").click()
    found.wait_for_url("**trace?**")
    assert found.locator("h1").inner_text() == "what color is thing 4?"
    assert found.locator(".picture").count() == 1
    found.get_by_role("link", name="All samples").click()
    found.wait_for_url(one)


def test_a_comment_without_a_label(
    tab: Tab, one: str, runs: tuple[Path, Path], violations: Callable[[Any], list[str]]
) -> None:
    for scheme in ("light", "dark"):
        found = tab(f"{one}trace?id=q7&seed=0", color_scheme=scheme)
        found.get_by_label("A comment in words").fill(f"it took the shadow, in the {scheme}")
        assert violations(found) == []
        found.get_by_role("button", name="Keep this feedback").click()
        found.wait_for_url("**#feedback")
        found.get_by_text(f"it took the shadow, in the {scheme}").wait_for()
    remarks = [one for one in read_feedback(runs[0]) if one.sample_id == "q7"]
    assert [remark.answer for remark in remarks] == [None, None]


def test_comparing(tab: Tab, both: str, shoot: Callable[[Any, str], None]) -> None:
    found = tab(both)
    shoot(found, "viewer-compared")
    found.get_by_role("link", name="to right 4").click()
    found.wait_for_url("**change=**")
    assert heading(found) == "4 samples"
    found.locator(".grid a").first.click()
    found.wait_for_url("**sample?**")
    assert found.locator(".changes .new").count() == found.locator(".changes .gone").count() == 1
    for frame in found.frames[1:]:
        frame.wait_for_load_state()
        assert frame.locator("h1").inner_text() == "what color is thing 0?"
    assert len(found.frames) == 3
    shoot(found, "sample-compared")


def test_it_reads_on_a_phone_and_in_the_dark(
    tab: Tab, both: str, shoot: Callable[[Any, str], None]
) -> None:
    for name, path in (("viewer", ""), ("sample", "sample?id=q1&seed=0")):
        found = tab(f"{both}{path}", viewport={"width": 400, "height": 800}, color_scheme="dark")
        assert found.evaluate("document.documentElement.scrollWidth") <= 400
        shoot(found, f"{name}-phone-dark")


@pytest.mark.parametrize(
    "path", ["", "?text=nothing+like+it", "sample?id=q1&seed=0", "trace?id=q1&seed=0", "tools"]
)
def test_pages_are_accessible_and_fit_a_phone(
    both: str, check_page: Callable[[str], None], path: str
) -> None:
    check_page(f"{both}{path}")


def test_the_list_of_one_run_is_accessible_and_fits_a_phone(
    one: str, check_page: Callable[[str], None]
) -> None:
    check_page(one)


def test_reports_are_accessible_and_fit_a_phone(
    runs: tuple[Path, Path], check_page: Callable[[Path], None], tmp_path: Path
) -> None:
    with RunStore.read(runs[0]) as store:
        made = report(store)
        pages = report_page(store, made), errors_page([NamedReport("before", made)])
    for number, page in enumerate(pages):
        path = tmp_path / f"{number}.html"
        path.write_text(page, "utf-8")
        check_page(path)


def test_it_can_be_walked_by_keyboard(tab: Tab, one: str) -> None:
    found = tab(one)
    found.keyboard.press("Tab")
    assert found.evaluate("document.activeElement.textContent") == "To the samples"
    found.keyboard.press("Enter")
    found.keyboard.press("Tab")
    assert found.evaluate("document.activeElement.closest('.grid') !== null")
    found.keyboard.press("Enter")
    found.wait_for_url("**trace?**")
