"""The trace page as a person uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.web.test_trace_page import HOSTILE, changed, leaves
from tests.web.traces import BROKEN, COLOURS, EVENT, FAINT, asked, page
from viper.evaluate.runs.learning_record import LearningRecord, PromptRecord, Update
from viper.record import record_from_json
from viper.schema import Trace, to_json
from viper.strategies.critique import Critique
from viper.strategies.replay import Replay
from viper.web.trace_page import Extras, Truth, trace_page

Tab = Callable[..., Any]


def written(path: Path, html: str) -> Path:
    path.write_text(html, "utf-8")
    return path


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three trials, of which the last answers with a box."""
    result = asked(BROKEN, FAINT, query="the faint ball", task="ground")
    truth = Truth(box=(2.0, 2.0, 30.0, 30.0))
    html = page(result.trace, result.media, Extras("viper run x.png 'the faint ball'", truth))
    return written(tmp_path_factory.mktemp("page") / "picture.html", html)


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shades = np.arange(8, dtype=np.uint8)[:, None, None, None] * 30
    clip = np.broadcast_to(shades, (8, 60, 100, 3)).copy()
    result = asked(EVENT, media=clip, task="choice", options=("stops", "falls"), query="what?")
    path = tmp_path_factory.mktemp("page") / "video.html"
    return written(path, page(result.trace, result.media))


def hidden(found: Any) -> list[bool]:
    return [not panel.is_visible() for panel in found.locator("[role=tabpanel]").all()]


def test_trials_are_tabs_for_mouse_and_keyboard(
    tab: Tab, picture: Path, shoot: Callable[[Any, str], None]
) -> None:
    found = tab(picture)
    assert hidden(found) == [True, True, False]
    found.locator("[role=tab]").first.click()
    assert hidden(found) == [False, True, True]
    found.keyboard.press("ArrowRight")
    assert hidden(found) == [True, False, True]
    assert found.evaluate("document.activeElement.id") == "tab-1"
    found.keyboard.press("End")
    assert hidden(found) == [True, True, False]
    shoot(found, "trace-picture")


def test_picture_and_program_stand_side_by_side_where_there_is_room(
    tab: Tab, picture: Path, video: Path, shoot: Callable[[Any, str], None]
) -> None:
    for path in (picture, video):
        for width in (1800, 1200, 1000, 400):
            found = tab(path, viewport={"width": width, "height": 900})
            seen = found.locator(".media").bounding_box()
            program = found.locator("[role=tabpanel]:visible .program").bounding_box()
            is_beside = seen["x"] + seen["width"] < program["x"]
            is_above = seen["y"] + seen["height"] < program["y"]
            assert (is_beside, is_above) == (width > 1000, width <= 1000)
            assert found.evaluate("document.documentElement.scrollWidth") <= width
    shoot(tab(picture, viewport={"width": 1400, "height": 900}), "trace-wide")


def test_the_picture_stays_in_sight_beside_a_long_program(tab: Tab, tmp_path: Path) -> None:
    lines = "".join(f"    n = {number}\n" for number in range(80))
    result = asked(f"def execute_command(image):\n{lines}    return 'red'\n", task="question")
    path = written(tmp_path / "long.html", page(result.trace, result.media))
    found = tab(path, viewport={"width": 1400, "height": 700})
    found.locator(".program li").last.scroll_into_view_if_needed()
    assert found.locator(".media").bounding_box()["y"] >= 0


def test_programs_have_colors(tab: Tab, picture: Path) -> None:
    for scheme in ("light", "dark"):
        program = tab(picture, color_scheme=scheme).locator("[role=tabpanel]:visible .program")
        parts = [program, program.locator(".py-k").first, program.locator(".py-s1").first]
        assert len({one.evaluate("one => getComputedStyle(one).color") for one in parts}) == 3


def test_a_crop_shows_where_it_is(tab: Tab, picture: Path) -> None:
    found = tab(picture)
    crop = found.locator("[role=tabpanel]:visible .crop").last
    x0, y0, x1, y1 = map(float, crop.get_attribute("data-box").split())
    crop.click()
    pointed = found.locator("[data-pointed]").first
    sides = [float(pointed.get_attribute(name)) for name in ("x", "y", "width", "height")]
    assert sides == [x0, y0, x1 - x0, y1 - y0]


def test_copying(tab: Tab, picture: Path) -> None:
    found = tab(picture, permissions=["clipboard-read", "clipboard-write"])
    for button, text in (
        ("Copy command line", "viper run x.png 'the faint ball'"),
        ("Copy program", FAINT.rstrip("\n")),
    ):
        found.get_by_role("button", name=button).locator("visible=true").click()
        found.locator("#said", has_text="copied").wait_for()
        assert found.evaluate("navigator.clipboard.readText()").rstrip("\n") == text


def test_a_failure_leads_to_its_line(tab: Tab, picture: Path) -> None:
    found = tab(picture)
    found.locator("[role=tab]").first.click()
    found.get_by_role("link", name="line 2").click()
    assert found.locator(":target").get_attribute("class") == "failed"


def test_the_prompt_unfolds_from_its_link(tab: Tab, picture: Path) -> None:
    found = tab(picture)
    assert not found.locator("#prompt-text-0").is_visible()
    found.locator("[role=tabpanel]:visible").get_by_role("link", name="Its prompt").click()
    found.locator("#prompt-text-0").wait_for(state="visible")


def test_scrubbing_a_video(tab: Tab, video: Path, shoot: Callable[[Any, str], None]) -> None:
    found = tab(video)
    frame, number = found.locator("[data-frame]"), found.locator("[data-number]")
    scrubber = found.get_by_role("slider")
    scrubber.focus()
    found.keyboard.press("ArrowRight")
    assert frame.get_attribute("href") == "#picture-video0-1" and number.inner_text() == "1"
    scrubber.fill("6")
    assert frame.get_attribute("href") == "#picture-video0-6"
    found.locator(".span", has_text="frames 2 to 3").first.click()
    assert frame.get_attribute("href") == "#picture-video0-2" and scrubber.input_value() == "2"
    shoot(found, "trace-video")


def test_it_reads_on_a_phone_and_in_the_dark(
    tab: Tab, picture: Path, video: Path, shoot: Callable[[Any, str], None]
) -> None:
    for path in (picture, video):
        found = tab(path, viewport={"width": 400, "height": 800}, color_scheme="dark")
        assert found.evaluate("document.documentElement.scrollWidth") <= 400
        shoot(found, f"trace-{path.stem}-phone-dark")


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace with its learning record."""
    result = asked(COLOURS, query="what color is it?", task="question")
    prompts = (PromptRecord("m", ("a-1",), ("a-2",), 0.25, 1.0), PromptRecord("m", why="no better"))
    update = Update(
        "loc", "pyramid", "reflection", 0.5, {"source": "world"}, prompts, ("id-1",), "too few", 2.5
    )
    critiques = (Critique.of_tool("find", 2, "it missed one", "a cube"),)
    record = LearningRecord("s", 0, 0.0, 1.0, None, "look again", critiques, (update,), ("d-1",), 1)
    html = page(result.trace, result.media, Extras(record=record))
    return written(tmp_path_factory.mktemp("page") / "learned.html", html)


@pytest.mark.parametrize("name", ["picture", "video", "learned"])
def test_pages_are_accessible_and_fit_a_phone(
    request: pytest.FixtureRequest, check_page: Callable[[Path], None], name: str
) -> None:
    check_page(request.getfixturevalue(name))


def poisoned() -> Iterator[str]:
    """Pages with hostile text in all places at once, and in each of the trace's in turn."""
    result = asked(COLOURS, task="question")
    values = to_json(result.trace)
    everywhere = values
    for path in leaves(values):
        everywhere = changed(everywhere, path, HOSTILE)
    replays = [Replay((), whole=False)] * len(result.trace.trials)
    extras = Extras(HOSTILE, Truth(HOSTILE))
    yield trace_page(record_from_json(Trace, everywhere), result.media, replays, extras)
    for path in leaves(values):
        trace = record_from_json(Trace, changed(values, path, HOSTILE))
        yield trace_page(trace, result.media, replays, Extras())


def test_no_injected_script_runs(tab: Tab, tmp_path: Path) -> None:
    found = tab("about:blank")
    pages = 0
    for number, html in enumerate(poisoned()):
        found.goto(written(tmp_path / f"{number}.html", html).as_uri())
        assert found.evaluate("[typeof window.hacked, document.images.length]") == ["undefined", 0]
        pages += 1
    assert pages > 25


def test_the_page_asks_nobody(tab: Tab, picture: Path) -> None:
    found = tab("about:blank")
    asked_for: list[str] = []
    found.on("request", lambda request: asked_for.append(request.url))
    found.goto(picture.as_uri())
    assert [one for one in asked_for if not one.startswith(("file:", "data:"))] == []
