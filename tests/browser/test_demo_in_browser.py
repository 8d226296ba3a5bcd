"""The demo as people use it: over fake models, but for one question to the embedded ones."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.forked import viper
from tests.tools.test_alike import SPOTS, smear
from tests.web.demo_bench import ServedDemo, served_demo
from viper.evaluate.runs.feedback import read_feedback
from viper.evaluate.runs.store import RunStore

Tab = Callable[..., Any]
QUESTION = "Question, or what to find"
HOSTILE = "<img src=x onerror='window.hacked=1'>${window.hacked=2}{{window.hacked}}</pre><script>"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedDemo]:
    with served_demo(tmp_path_factory.mktemp("demo") / "run") as running:
        yield running


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "grey.png"
    Image.fromarray(np.full((60, 100, 3), 128, np.uint8)).save(path)
    return path


def button(found: Any, name: str) -> Any:
    return found.get_by_role("button", name=name, exact=True)


def upload(found: Any, path: Path) -> None:
    button(found, "Upload picture or clip").wait_for()
    found.locator("input[type=file]").set_input_files(path)


def ask(found: Any, text: str) -> None:
    found.get_by_label(QUESTION).fill(text)
    button(found, "Ask").click()


def status(found: Any, text: str) -> None:
    """Waits for the status."""
    found.locator(".viper-status", has_text=text).first.wait_for()


def kept_as(found: Any) -> str:
    """Waits until a question is answered; what its answer is kept as.

    Before this the same line says that a trial answered.
    """
    status(found, "; kept as")
    return found.locator(".viper-status").first.inner_text().split()[-1]


def keep(found: Any) -> None:
    """Sends the feedback with the keyboard.

    On a busy machine chromium may still route a click by where the frame with the trace was before
    the page scrolled, and the click goes to the frame.
    """
    button(found, "Keep this feedback").press("Enter")


def drawn(tab: Tab, address: str, **options: Any) -> Any:
    """A page with a drawn picture."""
    found = tab(address, **options)
    button(found, "Generate a picture").click()
    found.locator(".viper-media img").wait_for()
    return found


def test_from_a_drawn_scene_to_feedback(
    tab: Tab, served: ServedDemo, shoot: Callable[[Any, str], None]
) -> None:
    found = drawn(tab, served.address)
    example = found.get_by_role("radio").nth(1)
    said = example.evaluate("one => one.closest('label').textContent").strip()
    example.click()
    expect(found.get_by_label(QUESTION)).to_have_value(said)
    ask(found, "find the faint ball")
    found.locator(".viper-answer").wait_for()
    assert found.locator(".viper-trials details").count() == 2
    assert "below threshold" in found.locator(".viper-trials summary").first.inner_text()
    frame = found.frame_locator("iframe")
    assert frame.locator("h1").inner_text() == "find the faint ball"
    assert frame.get_by_role("tab").count() == 2
    kept = kept_as(found)
    found.get_by_label("Wrong? What would have been right").fill("a ball")
    keep(found)
    status(found, "expected a box")
    found.get_by_label("Wrong? What would have been right").fill("1,2,30,40")
    found.get_by_label("A comment in words").fill("it took the shadow")
    keep(found)
    status(found, f"kept for {kept}")
    (remark,) = [one for one in read_feedback(served.folder) if one.sample_id == kept]
    assert (remark.answer, remark.comment) == ([1, 2, 30, 40], "it took the shadow")
    shoot(found, "demo")


def test_the_first_screen_has_examples(tab: Tab, served: ServedDemo) -> None:
    found = tab(served.address)
    found.get_by_label("what color is the second cone from the left?").click()
    found.locator("figcaption", has_text="cones.png").wait_for()
    expect(found.get_by_label(QUESTION)).to_have_value(re.compile("second cone"))
    found.get_by_label("what is the first thing that starts moving?").click()
    found.locator("figcaption", has_text="clip.mp4").wait_for()
    options = found.get_by_label("Candidate answers, if there are any, one a line")
    expect(options).to_have_value(re.compile(r"^the yellow ring\n"))
    found.get_by_label("Which number is on the sign?").click()
    found.locator("figcaption", has_text="sign.jpg").wait_for()
    expect(found.get_by_label("Strategy")).to_have_value("look")


@pytest.mark.parametrize("kind", ["drop", "paste"])
def test_a_picture_is_dropped_or_pasted(
    tab: Tab, served: ServedDemo, picture: Path, kind: str
) -> None:
    found = tab(served.address)
    button(found, "Upload picture or clip").wait_for()
    found.locator(".viper-nothing").wait_for()
    found.evaluate(
        """([bytes, kind]) => {
            const files = new DataTransfer();
            files.items.add(new File([new Uint8Array(bytes)], "mine.png", { type: "image/png" }));
            const event = kind === "drop"
                ? new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true })
                : new ClipboardEvent("paste", { clipboardData: files, bubbles: true });
            document.querySelector(".viper-nothing").dispatchEvent(event);
        }""",
        [list(picture.read_bytes()), kind],
    )
    found.locator("figcaption", has_text="mine.png: 100 × 60 pixels").wait_for()


def test_answer_and_picture_are_shown_once(tab: Tab, served: ServedDemo, picture: Path) -> None:
    found = tab(served.address)
    upload(found, picture)
    found.locator(".viper-media img").wait_for()
    ask(found, "find the faint ball")
    frame = found.frame_locator("iframe")
    frame.locator(".program").last.wait_for()
    box = found.locator(".viper-media rect.viper-found")
    assert [box.get_attribute(name) for name in ("x", "y", "width", "height")] == [
        "1.0",
        "1.0",
        "8.0",
        "8.0",
    ]
    assert frame.locator("#answer-title").count() == frame.locator(".picture").count() == 0
    ask(found, "slow: how many cubes?")
    status(found, "writing a program")
    expect(box).to_have_count(0)
    served.llm.released.set()
    kept_as(found)
    served.llm.released.clear()


def test_a_box_is_drawn_as_feedback(
    tab: Tab, served: ServedDemo, picture: Path, shoot: Callable[[Any, str], None]
) -> None:
    found = tab(served.address)
    upload(found, picture)
    found.locator(".viper-media img").wait_for()
    ask(found, "find the faint ball")
    kept = kept_as(found)
    found.locator("svg[data-draws=right]").wait_for()
    found.frame_locator("iframe").locator(".program").last.wait_for()
    seen = found.locator(".viper-media img").bounding_box()
    scale = min(seen["width"] / 100, seen["height"] / 60)
    left = seen["x"] + (seen["width"] - 100 * scale) / 2
    top = seen["y"] + (seen["height"] - 60 * scale) / 2
    found.mouse.move(left + 70 * scale, top + 50 * scale)
    found.mouse.down()
    found.mouse.move(left + 40 * scale, top + 30 * scale)
    found.mouse.move(left + 20 * scale, top + 10 * scale)
    found.mouse.up()
    right = found.get_by_label("Wrong? What would have been right")
    expect(right).to_have_value("20,10,70,50")
    found.mouse.move(left + 90 * scale, top + 20 * scale)
    expect(right).to_have_value("20,10,70,50")
    keep(found)
    status(found, f"kept for {kept}")
    shoot(found, "demo-drawn")
    (remark,) = [one for one in read_feedback(served.folder) if one.sample_id == kept]
    assert remark.answer == [20, 10, 70, 50]


def test_examples_are_marked_on_the_picture(
    tab: Tab, served: ServedDemo, tmp_path: Path, shoot: Callable[[Any, str], None]
) -> None:
    path = tmp_path / "smear.png"
    Image.fromarray(smear()).save(path)
    found = tab(served.address)
    upload(found, path)
    found.locator("svg[data-draws=examples]").wait_for()
    seen = found.locator(".viper-media img").bounding_box()
    scale = min(seen["width"] / 240, seen["height"] / 160)
    left = seen["x"] + (seen["width"] - 240 * scale) / 2
    top = seen["y"] + (seen["height"] - 160 * scale) / 2
    for x, y in SPOTS[:2]:
        found.mouse.move(left + (x - 14) * scale, top + (y - 14) * scale)
        found.mouse.down()
        found.mouse.move(left + (x + 14) * scale, top + (y + 14) * scale)
        found.mouse.up()
    boxes = found.get_by_label("Examples: drag boxes on the picture, then ask for these")
    expect(boxes).to_have_value("16,16,44,44\n76,20,104,48")
    assert found.locator("svg rect.viper-right").count() == 3
    ask(found, "how many of these?")
    expect(found.locator(".viper-answer")).to_contain_text("5")
    shoot(found, "demo-examples")
    found.get_by_label(QUESTION).fill("")
    boxes.fill("1,2,3")
    ask(found, "how many of these?")
    status(found, "expected a box, x0,y0,x1,y1")


def test_a_question_about_words_takes_no_box(tab: Tab, served: ServedDemo, picture: Path) -> None:
    found = tab(served.address)
    upload(found, picture)
    found.locator(".viper-media img").wait_for()
    ask(found, "how many cubes?")
    kept_as(found)
    found.locator("iframe").wait_for()
    assert (
        found.locator("svg[data-draws=right]").count()
        == found.locator("rect.viper-found").count()
        == 0
    )


def test_earlier_questions_are_shown_again(tab: Tab, served: ServedDemo, picture: Path) -> None:
    found = tab(served.address)
    assert found.get_by_text("Questions of this session").is_hidden()
    upload(found, picture)
    found.locator(".viper-media img").wait_for()
    ask(found, "find the faint ball")
    found.get_by_label("find the faint ball → [1, 1, 9, 9]").wait_for()
    kept = kept_as(found)
    button(found, "Generate a picture").click()
    found.locator("figcaption", has_text="scene").wait_for()
    ask(found, "how many cubes?")
    found.get_by_label("how many cubes? →").wait_for()
    found.get_by_label("find the faint ball → [1, 1, 9, 9]").click()
    found.locator("figcaption", has_text="grey.png").wait_for()
    status(found, f"kept as {kept}")
    expect(found.get_by_label(QUESTION)).to_have_value("find the faint ball")
    assert found.locator(".viper-trials details").count() == 2
    assert found.frame_locator("iframe").locator("h1").inner_text() == "find the faint ball"
    found.get_by_label("A comment in words").fill("seen again")
    keep(found)
    status(found, f"kept for {kept}")


def test_profile_and_strategy_are_chosen(tab: Tab, served: ServedDemo, picture: Path) -> None:
    found = tab(served.address)
    upload(found, picture)
    found.locator(".viper-media img").wait_for()
    for name, choice in (("Profile", "second"), ("Strategy", "vqa")):
        found.get_by_label(name).click()
        found.get_by_role("option", name=choice).click()
    ask(found, "what color is it?")
    kept_as(found)
    frame = found.frame_locator("iframe")
    frame.get_by_text("This strategy writes no program.").wait_for()
    run = served.folder.with_name(f"{served.folder.name}-second-vqa")
    with RunStore.read(run) as store:
        assert store.manifest.strategy == "vqa"
        assert [row.text for row in store.rows()] == ["what color is it?"]
    found.get_by_label("A comment in words").fill("fine")
    keep(found)
    status(found, "kept for asked-1")
    assert len(read_feedback(run)) == 1


def test_a_clip_is_drawn_with_its_options(tab: Tab, served: ServedDemo) -> None:
    found = tab(served.address)
    button(found, "Generate a clip").click()
    found.locator(".viper-media video").wait_for()
    expect(found.locator(".viper-media video")).not_to_have_js_property("videoWidth", 0)
    found.get_by_role("radio").first.click()
    options = found.get_by_label("Candidate answers, if there are any, one a line")
    expect(options).to_have_value(re.compile(r"^.+(\n.+){3,4}$"))


def test_two_visitors_at_once(tab: Tab, served: ServedDemo, picture: Path) -> None:
    first, second = tab(served.address), tab(served.address)
    upload(first, picture)
    first.locator(".viper-media img").wait_for()
    ask(first, "slow: how many cubes?")
    status(first, "writing a program")
    assert served.llm.asked.wait(30)
    assert second.locator(".viper-media").count() == 0
    ask(second, "how many cubes?")
    status(second, "choose a picture or a clip first")
    button(second, "Generate a picture").click()
    second.locator(".viper-media img").wait_for()
    ask(second, "how many cubes?")
    second.locator(".viper-answer").wait_for()
    assert first.locator(".viper-answer").count() == 0
    assert "grey.png" in first.locator("figcaption").inner_text()
    assert "scene" in second.locator("figcaption").inner_text()
    second.locator("button:disabled", has_text="Stop").wait_for()
    button(first, "Stop").click()
    status(first, "stopping")
    served.llm.released.set()
    status(first, "stopped after")
    assert first.locator(".viper-answer").count() == 0
    served.llm.asked.clear()
    served.llm.released.clear()


def test_what_is_asked_during_a_question_is_asked_after_it(tab: Tab, served: ServedDemo) -> None:
    found = drawn(tab, served.address)
    ask(found, "slow: how many cubes?")
    assert served.llm.asked.wait(30)
    status(found, "writing a program")
    ask(found, "how many cubes?")
    served.llm.released.set()
    found.frame_locator("iframe").get_by_role(
        "heading", name="how many cubes?", exact=True
    ).wait_for()
    served.llm.asked.clear()
    served.llm.released.clear()


def test_what_cannot_be_read_is_said_in_one_line(
    tab: Tab, served: ServedDemo, tmp_path: Path
) -> None:
    found = tab(served.address)
    broken = tmp_path / "hostile.png"
    broken.write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 64)
    upload(found, broken)
    found.locator(".viper-wrong").wait_for()
    said = found.locator(".viper-wrong").inner_text()
    assert "hostile.png" in said and str(tmp_path) not in said and "viper-demo" not in said
    assert "Traceback" not in found.content()


def test_what_others_wrote_is_text(tab: Tab, served: ServedDemo, tmp_path: Path) -> None:
    named = tmp_path / "<b onclick=x>${window.hacked=3}.png"
    Image.fromarray(np.full((60, 100, 3), 128, np.uint8)).save(named)
    found = tab(served.address)
    upload(found, named)
    found.locator(".viper-media img").wait_for()
    ask(found, f"broken {HOSTILE}")
    found.locator(".viper-answer").wait_for()
    ask(found, f"how many {HOSTILE}?")
    found.frame_locator("iframe").locator("h1", has_text="how many").wait_for()
    kept_as(found)
    assert HOSTILE in found.frame_locator("iframe").locator("h1").inner_text()
    for frame in found.frames:
        assert frame.evaluate("typeof window.hacked") == "undefined"
    # Its frame is of no origin: it could not reach the page around it even if a script ran.
    assert found.frames[1].evaluate("window.origin") == "null"


def test_it_can_be_used_by_keyboard(tab: Tab, served: ServedDemo) -> None:
    found = tab(served.address)
    button(found, "Generate a picture").focus()
    found.keyboard.press("Enter")
    found.locator(".viper-media img").wait_for()
    found.keyboard.press("Tab")
    assert found.evaluate("document.activeElement.textContent").strip() == "Generate a clip"
    expect(button(found, "Keep this feedback")).not_to_be_visible()
    found.keyboard.press("Tab")
    found.keyboard.type("how many cubes?")
    found.keyboard.press("Enter")
    found.locator(".viper-answer").wait_for()
    # They come with the answer, but not at once: the walk begins when all of them are there.
    kept_as(found)
    button(found, "Keep this feedback").wait_for()
    found.get_by_role("link", name="Open it in a tab").wait_for()
    seen = []
    for _ in range(60):
        found.keyboard.press("Tab")
        seen.append(found.evaluate(
            "(a => a.tagName + ' ' + (a.textContent || a.getAttribute('aria-label') || a.title)"
            ".trim().slice(0, 40))(document.activeElement)"
        ))  # fmt: skip
    for name in ("Ask", "Keep this feedback", "Open it in a tab"):
        assert any(name in one for one in seen), seen


def test_a_file_is_chosen_by_keyboard(tab: Tab, served: ServedDemo, picture: Path) -> None:
    found = drawn(tab, served.address)
    with found.expect_file_chooser() as chooser:
        button(found, "Upload picture or clip").focus()
        found.keyboard.press("Enter")
    chooser.value.set_files(picture)
    found.locator("figcaption", has_text="grey.png").wait_for()


def test_changes_are_read_out(tab: Tab, served: ServedDemo) -> None:
    found = tab(served.address)
    button(found, "Generate a picture").wait_for()
    live = found.locator("[role=status][aria-live=polite]", has=found.locator(".viper-status"))
    live.first.wait_for(state="attached")
    marked = live.first.evaluate("one => { one.dataset.mine = 'yes'; return true }")
    button(found, "Generate a picture").click()
    status(found, "chosen")
    assert marked and live.first.get_attribute("data-mine") == "yes"
    assert "chosen" in live.first.inner_text()


def test_the_answer_comes_first_on_a_phone(
    tab: Tab, served: ServedDemo, shoot: Callable[[Any, str], None]
) -> None:
    narrow = {"viewport": {"width": 390, "height": 800}, "color_scheme": "dark"}
    found = drawn(tab, served.address, **narrow)
    ask(found, "find the faint ball")
    answer = found.locator(".viper-answer")
    expect(answer).to_be_in_viewport()
    tops = [
        part.bounding_box()["y"]
        for part in (answer, found.locator(".viper-media img"), found.get_by_label(QUESTION))
    ]
    assert tops == sorted(tops)
    found.frame_locator("iframe").locator("h1").wait_for()
    shoot(found, "demo-phone-dark")


def test_examples_have_thumbnails_until_a_scene_is_generated(
    tab: Tab, served: ServedDemo, shoot: Callable[[Any, str], None]
) -> None:
    found = tab(served.address)
    picture = "one => getComputedStyle(one.closest('label'), '::before').backgroundImage"
    found.get_by_role("radio").first.wait_for()
    shoot(found, "demo-first")
    shown = [radio.evaluate(picture) for radio in found.get_by_role("radio").all()]
    assert len({*shown}) == 4 and all(one.startswith('url("data:image/') for one in shown)
    button(found, "Generate a picture").click()
    found.locator(".viper-media img").wait_for()
    assert found.get_by_role("radio").first.evaluate(picture) == "none"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_the_page_is_accessible_and_fits_a_phone(
    tab: Tab, served: ServedDemo, violations: Callable[[Any], list[str]], width: int, scheme: str
) -> None:
    found = tab(served.address, viewport={"width": width, "height": 900}, color_scheme=scheme)

    def check() -> None:
        assert violations(found) == []
        assert found.evaluate("document.documentElement.scrollWidth") <= width

    button(found, "Generate a picture").wait_for()
    expect(found.get_by_text("Loading...")).to_have_count(0)
    check()
    button(found, "Generate a clip").click()
    found.locator(".viper-media video").wait_for()
    found.get_by_role("radio").first.wait_for()
    check()
    button(found, "Generate a picture").click()
    found.locator(".viper-media img").wait_for()
    ask(found, "find the faint ball")
    found.locator(".viper-answer").wait_for()
    check()


def test_no_request_leaves_this_machine(tab: Tab, served: ServedDemo) -> None:
    found = tab("about:blank")
    asked: list[str] = []
    found.context.on("request", lambda request: asked.append(request.url))
    found.goto(served.address)
    button(found, "Generate a picture").click()
    found.locator(".viper-media img").wait_for()
    ask(found, "how many cubes?")
    found.frame_locator("iframe").locator("h1").wait_for()
    known = (served.address, "data:", "blob:")
    assert asked and [one for one in asked if not one.startswith(known)] == []


@pytest.mark.models
def test_with_the_embedded_models(tab: Tab, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = viper("demo", "--no-open", "--port", "0", "--out", run)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        found = drawn(tab, process.stdout.readline().strip())
        found.get_by_role("radio").first.click()
        expect(found.get_by_label(QUESTION)).not_to_have_value("")
        button(found, "Ask").click()
        found.locator(".viper-answer").wait_for(timeout=60_000)
        found.frame_locator("iframe").locator("h1").wait_for()
        found.context.close()
        process.send_signal(2)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130 and said.split("\n")[-2] == "viper: interrupted", said
    assert "Traceback" not in said
    for again in (["feedback", str(run), "asked-1", "--comment", "seen"], ["report", str(run)]):
        done = subprocess.run(viper(*again), capture_output=True)
        assert done.returncode == 0, done.stderr
