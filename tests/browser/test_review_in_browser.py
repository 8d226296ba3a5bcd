"""``viper review`` as a person uses it, over a detector that reads pixels."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.jobs import job_backends as shelf
from viper.cli import main
from viper.jobs.cases import Label, latest
from viper.storage.json_lines import read_lines

Tab = Callable[..., Any]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a job and pictures that it has not seen."""
    folder = tmp_path_factory.mktemp("review")
    answers = shelf.pictures(folder / "pictures", 24)
    shelf.table(folder / "labels.csv", answers)
    (folder / "shelf.toml").write_text(shelf.PROFILE)
    shelf.pictures(folder / "new", 10, seed=3, faint=True)
    more = ["--requests", "2", "--profile", str(folder / "shelf.toml"), "--out"]
    boxes = shelf.boxes(folder)
    for fit in (
        ["fit", str(folder / "labels.csv"), "--query", shelf.QUERY, *more, str(folder / "job")],
        ["fit", str(boxes), *more, str(folder / "box job")],
    ):
        with pytest.raises(SystemExit):
            main(fit)
    return folder


@pytest.fixture(params=["job"])
def served(
    request: pytest.FixtureRequest, fitted: Path, tmp_path: Path
) -> Iterator[tuple[str, Path]]:
    """The address that ``viper review`` prints, and the job."""
    job = tmp_path / "job"
    shutil.copytree(fitted / request.param, job)
    command = [sys.executable, "-m", "viper", "review", str(job), str(fitted / "new")]
    process = subprocess.Popen(
        [*command, "--trust", "--no-open"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), job
    finally:
        process.terminate()
        process.wait(20)


def labels(job: Path) -> dict[str, Label]:
    """The labels of a review by the names of their pictures."""
    found = latest(read_lines(job / "labels.jsonl", Label, "a label"))
    return {label.name: label for label in found if label.source == "review"}


def name_shown(found: Any) -> str:
    return str(found.locator("figcaption").inner_text().partition(":")[0])


def test_keys_label_undo_skip_and_refit(
    served: tuple[str, Path], tab: Tab, shoot: Callable[[Any, str], None]
) -> None:
    address, job = served
    found = tab(address)
    first = name_shown(found)
    said = found.locator(".figure").inner_text()
    found.keyboard.press("2")
    expect(found.locator("figcaption")).not_to_contain_text(first)
    assert labels(job)[first].words == "yes"
    assert found.locator(".soft").first.inner_text().endswith("1 of 10 cases labelled here")
    found.keyboard.press("u")
    expect(found.locator("figcaption")).to_contain_text(first)
    assert labels(job) == {}
    found.keyboard.press("s")
    expect(found.locator("figcaption")).not_to_contain_text(first)
    second = name_shown(found)
    found.get_by_label("Another answer").fill("maybe <b>")
    found.get_by_label("Another answer").press("Enter")
    expect(found.locator("figcaption")).not_to_contain_text(second)
    assert labels(job)[second].words == "maybe b"
    assert found.locator(".figure").inner_text() != said
    shoot(found, "review")
    found.keyboard.press("u")
    expect(found.locator("figcaption")).to_contain_text(second)
    found.keyboard.press("1")
    expect(found.locator("figcaption")).not_to_contain_text(second)
    found.keyboard.press("r")
    expect(found.locator("#said")).to_contain_text("labels", timeout=120_000)
    said = found.locator("#said").inner_text()
    assert said.startswith(("the same program, fitted to 25 labels", "kept the program: a new one"))


def test_on_a_phone_the_answers_are_large_and_nothing_is_cut(
    served: tuple[str, Path], tab: Tab, shoot: Callable[[Any, str], None]
) -> None:
    found = tab(served[0], viewport={"width": 360, "height": 740}, has_touch=True)
    box = found.get_by_role("button", name="yes").bounding_box()
    assert box["height"] >= 44
    assert found.evaluate("document.documentElement.scrollWidth") <= 360
    first = name_shown(found)
    found.get_by_role("button", name="yes").tap()
    expect(found.locator("figcaption")).not_to_contain_text(first)
    shoot(found, "review-phone")


@pytest.mark.parametrize("served", ["box job"], indirect=True)
def test_a_box_is_dragged_on_the_picture(served: tuple[str, Path], tab: Tab) -> None:
    address, job = served
    found = tab(address)
    first = name_shown(found)
    seen = found.locator("svg[data-draws]").bounding_box()
    scale = min(seen["width"] / 240, seen["height"] / 20)
    left = seen["x"] + (seen["width"] - 240 * scale) / 2
    top = seen["y"] + (seen["height"] - 20 * scale) / 2
    found.mouse.move(left + 30 * scale, top + 2 * scale)
    found.mouse.down()
    found.mouse.move(left + 50 * scale, top + 9 * scale)
    found.mouse.move(left + 90 * scale, top + 12 * scale)
    found.mouse.up()
    expect(found.get_by_label("Box")).to_have_value("30,2,90,12")
    found.keyboard.press("Enter")
    expect(found.locator("figcaption")).not_to_contain_text(first)
    assert labels(job)[first].answer == [30, 2, 90, 12]
