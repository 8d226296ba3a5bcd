"""The page of ``viper watch --live``, over the embedded detector and a clip of the world."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from viper_lab.world.long_clips import long_clip, write_long_clip

Tab = Callable[..., Any]

# Both name what the page draws: boxes of a frame, or ways of tracks. The clip shows a ring from its
# first frame to its last, so a page that is opened late sees it as well.
FRAMES = """
gate = ((20, 30), (140, 30))
def execute_command(image):
    return len(ImagePatch(image).find("ring")) > 0
"""
TRACKS = """
def execute_command(video):
    tracks = VideoSegment(video).tracks("ring", rate=4)
    return bool(tracks), {"moments": [track["start"] for track in tracks]}
"""


@pytest.fixture(params=[FRAMES, TRACKS], ids=["frames", "tracks"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Path, Any]]:
    """The address that ``viper watch`` prints, its folder and the process."""
    folder = tmp_path / "recordings"
    folder.mkdir()
    write_long_clip(long_clip("val", 0, 10.0), folder / "a.mp4")
    program = tmp_path / "program.py"
    program.write_text(request.param)
    process = subprocess.Popen(
        [
            sys.executable, "-m", "viper", "watch", str(folder), "when <b>a ring</b> is there",
            "--program", str(program), "--out", str(tmp_path / "out"), "--profile", "embedded",
            "--live", "--no-open",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        address = next(line.strip() for line in process.stderr if line.startswith("http"))
        yield address, tmp_path / "out", process
    finally:
        process.kill()
        process.wait(20)


def test_a_watch_is_seen_live(
    served: tuple[str, Path, Any],
    tab: Tab,
    request: pytest.FixtureRequest,
    shoot: Callable[[Any, str], None],
) -> None:
    address, out, process = served
    kind = request.node.callspec.id
    page = tab(address)
    assert page.locator("h1").inner_text() == "when <b>a ring</b> is there"
    expect(page.locator("#found rect").first).to_be_visible()
    expect(page.locator("#found text").first).to_have_text("ring" if kind == "frames" else "1")
    expect(page.locator("#found .shape")).to_have_count(1 if kind == "frames" else 0)
    if kind == "tracks":
        assert len(page.locator("#found .way").first.get_attribute("points").split()) > 4
    expect(page.locator("#status")).to_contain_text("10 s watched")
    link = page.locator("#events a").first
    expect(link).to_contain_text("a.mp4")
    rows = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    assert page.locator("#events li").count() == len(rows)
    expect(page.locator("#events video").first).to_have_js_property("error", None)
    with page.expect_popup() as opened:
        link.click()
    expect(opened.value.locator(".program")).to_contain_text("ring")
    shoot(page, f"watch-{kind}")
    page.close()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130


@pytest.mark.parametrize("served", [FRAMES], indirect=True, ids=["frames"])
def test_lines_and_zones_are_drawn_for_the_program(served: tuple[str, Path, Any], tab: Tab) -> None:
    """In the coordinates of programs, from the bottom-left corner, whatever the page's size."""
    page = tab(served[0], viewport={"width": 390, "height": 844})
    expect(page.locator("#found rect").first).to_be_visible()
    place = page.locator("#scene").evaluate(
        """scene => {
            const at = (x, y) => {
                const on = new DOMPoint(x, y).matrixTransform(scene.getScreenCTM());
                return [on.x, on.y];
            };
            return [at(10, 20), at(150, 20), at(150, 100)];
        }"""
    )
    page.mouse.move(*place[0])
    page.mouse.down()
    page.mouse.move(*place[1])
    page.mouse.up()
    code = page.get_by_label("For the program")
    expect(code).to_have_value("line = ((10, 100), (150, 100))")
    page.get_by_label("Draw on the frame").select_option("zone")
    expect(code).to_have_value("")
    for corner in place:
        page.mouse.click(*corner)
    expect(code).to_have_value("zone = ((10, 100), (150, 100), (150, 20))")
    page.get_by_role("button", name="Clear").click()
    expect(code).to_have_value("")
