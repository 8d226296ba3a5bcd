"""A trace as a page: what it shows, that it escapes all it is given, that it stays small."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.strategies.bench import Bench, picture
from tests.web.traces import BROKEN, COLOURS, EVENT, FAINT, asked, page
from viper.evaluate.runs.learning_record import LearningRecord, PromptRecord, Update
from viper.models.media import media_from, write_mp4
from viper.record import record_from_json
from viper.run_result import RunResult
from viper.schema import Answer, Check, Failure, Trace, to_json
from viper.strategies.critique import Critique
from viper.strategies.replay import Replay
from viper.web.trace_page import Extras, Truth, trace_page

HOSTILE = (
    """"'></script></style><script>window.hacked=1</script>"""
    """<img src=x onerror="window.hacked=1">{{7*7}}"""
)


class Reader(HTMLParser):
    """Elements, with the text that a reader sees."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._unread = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._unread += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._unread -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._unread:
            self.text += data

    @property
    def words(self) -> str:
        return re.sub(r"\s+", " ", self.text)

    def with_class(self, name: str) -> list[dict[str, str | None]]:
        return [its for _, its in self.elements if name in (its.get("class") or "").split()]


def read(result: RunResult, extras: Extras | None = None) -> Reader:
    return Reader(page(result.trace, result.media, extras))


def test_a_line_stands_beside_what_it_produced() -> None:
    found = read(asked(COLOURS, query="what color is it?", task="question"))
    assert "what color is it?" in found.words and "1 trial" in found.words
    assert "find(" in found.words and "detector.threshold 0.4: 0.90, 0.50" in found.words
    assert (
        "for patch =" in found.words and "depth =" in found.words and "looked at 2" in found.words
    )
    assert "return red" in found.words
    crops = [its["data-box"] for its in found.with_class("crop")]
    assert "10 40 20 50" in {re.sub(r"\.0\b", "", box or "") for box in crops}


def test_trials_tell_their_failure_and_what_was_moved() -> None:
    found = read(asked(BROKEN, FAINT, query="the faint ball", task="ground"))
    assert len([its for _, its in found.elements if its.get("role") == "tab"]) == 3
    assert "runtime at line 2" in found.words and "Written anew" in found.words
    assert "detector.threshold lowered from 0.4 to 0.1" in found.words
    assert "to blame: detector.threshold, 0.4 then" in found.words
    assert "0.15 refused" in found.words and "box 1, 1, 9, 9" in found.words
    assert len(found.with_class("found")) == 1


def test_a_long_loop_folds() -> None:
    program = (
        "def execute_command(image):\n    for n in range(40):\n        m = n\n    return 'red'\n"
    )
    found = read(asked(program, task="question"))
    assert found.words.count("40 times") == 2


def test_a_video_has_every_frame_and_spans() -> None:
    clip = np.zeros((8, 60, 100, 3), np.uint8)
    found = read(asked(EVENT, media=clip, task="choice", options=("a", "b"), query="what?"))
    frames = {its["id"] for tag, its in found.elements if tag == "symbol"}
    assert frames == {f"picture-video0-{n}" for n in range(8)}
    assert "part =" in found.words and "frames 2 to 3" in found.words
    (scrubber,) = [its for tag, its in found.elements if its.get("type") == "range"]
    assert scrubber["max"] == "7"


def test_frames_that_were_read_from_a_file_are_shown_with_their_times(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    write_mp4(path, np.zeros((80, 60, 100, 3), np.uint8))
    program = """def execute_command(video, question, possible_answers):
    part = VideoSegment(video).skim(4, 8, 0.5)
    return possible_answers[int(part.frame_from_index(3).exists('cube'))]
"""
    found = read(asked(program, media=path, task="choice", options=("a", "b"), query="what?"))
    frames = {its["id"] for tag, its in found.elements if tag == "symbol"}
    assert "picture-clip-4000-4000-8-3" in frames
    assert "8 frames of 0:00:04 to 0:00:08" in found.words


def test_the_moment_of_an_answer_is_shown(tmp_path: Path) -> None:
    """The page begins at it, and has the frame of the file then: a video has more than are kept."""
    path = tmp_path / "clip.mp4"
    write_mp4(path, np.zeros((1600, 60, 100, 3), np.uint8))
    program = """def execute_command(video, question, possible_answers):
    return possible_answers[0], {"moment": 120.25}
"""
    result = asked(program, media=path, task="choice", options=("a", "b"), query="what?")
    assert result.answer is not None and result.answer.moment == 120.25
    found = read(result)
    assert "show 120.2 s" in found.words and "picture-clip-120250-1000-1-0" in {
        its["id"] for tag, its in found.elements if tag == "symbol"
    }
    (scrubber,) = [its for tag, its in found.elements if its.get("type") == "range"]
    begins_at = result.media.times[int(scrubber["value"] or 0)]
    assert begins_at == min(result.media.times, key=lambda time: abs(time - 120.25))


@pytest.mark.parametrize(
    ("info", "moments"),
    [
        ({"moment": 3}, (3.0,)),
        ({"moments": [4, [1.5, 2], float("nan"), True, "2", -1, 1e300, []]}, (1.5, 4.0)),
        ({"moments": 3}, None),
        ({"moments": []}, ()),
        ("at 3 s", None),
    ],
)
def test_moments_of_an_answer_are_times(info: Any, moments: tuple[float, ...] | None) -> None:
    answer = Answer("yes", "text", info=info)
    assert answer.moments == moments and answer.moment == (moments or [None])[0]


def test_truth_depth_and_command() -> None:
    result = asked(COLOURS, task="question")
    depth = {"image0": np.linspace(1, 4, 6000).reshape(60, 100)}
    truth = Truth("blue", (5, 5, 30, 30))
    found = read(result, Extras("viper run x.png what", truth, depth, 0.25))
    assert "Right is: blue, score 0.250" in found.words and "viper run x.png what" in found.words
    assert len(found.with_class("truth")) == 1 and len(found.with_class("shade")) == 1


def test_a_program_that_cannot_be_run_again_shows_its_calls() -> None:
    result = asked(COLOURS, task="question")
    found = Reader(trace_page(result.trace, result.media, [Replay((), whole=False)], Extras()))
    assert "Only its calls are shown" in found.words
    assert len(found.with_class("tool")) == 4


def test_a_strategy_without_programs_shows_its_calls() -> None:
    found = read(asked(strategy="vqa", query="what color is this?", task="question"))
    assert "simple_query(" in found.words and "This strategy writes no program." in found.words


def planned() -> RunResult:
    with Bench(["1. Ask <b>it</b>.\n2. Say it.", COLOURS], prompt_style="chat") as bench:
        return bench.reasoner.run(picture(), "?", strategy="plan", task="question")


def test_a_plan_stands_above_its_program() -> None:
    found = read(planned())
    assert "1. Ask <b>it</b>. 2. Say it." in found.words and len(found.with_class("plan")) == 1
    assert "Its plan's prompt" in found.words and "prompt 2" in found.words
    assert "## What a plan is" in found.words
    links = [its["href"] for tag, its in found.elements if tag == "a"]
    assert "#prompt-0" in links and "#prompt-1" in links
    assert not read(asked(COLOURS, task="question")).with_class("plan")


def test_no_field_of_a_plan_reaches_the_page_as_markup() -> None:
    result = planned()
    for path, trace in poisoned(result):
        shown = replace(trace.trials[0], demonstrations=(HOSTILE,))
        html = trace_page(
            replace(trace, trials=(shown,)), result.media, [Replay((), whole=False)], Extras()
        )
        assert_harmless(html)
        if path[-1] == "plan":
            assert HOSTILE in Reader(html).text


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, str):
        yield path
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*path, key))


def changed(value: Any, path: tuple[Any, ...], to: Any) -> Any:
    if not path:
        return to
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:], to)
    return copy


def poisoned(result: RunResult) -> Iterator[tuple[tuple[Any, ...], Trace]]:
    """The trace with hostile text in place of each string in turn."""
    values = to_json(result.trace)
    for path in leaves(values):
        yield path, record_from_json(Trace, changed(values, path, HOSTILE))


def assert_harmless(html: str) -> None:
    found = Reader(html)
    assert "<script>window" not in html
    assert [tag for tag, _ in found.elements].count("script") == 1
    assert not [tag for tag, _ in found.elements if tag in ("img", "iframe", "object", "form")]
    assert not [name for _, its in found.elements for name in its if name.startswith("on")]
    for _, its in found.elements:
        for link in (its.get("href"), its.get("src")):
            assert link in (None, "data:,") or link.startswith(("#", "data:image/")), link


@pytest.mark.parametrize("programs", [(COLOURS,), (BROKEN, FAINT)])
def test_no_field_of_a_trace_reaches_the_page_as_markup(programs: tuple[str, ...]) -> None:
    result = asked(*programs, task="question" if programs == (COLOURS,) else "ground")
    seen = []
    for path, trace in poisoned(result):
        replays = [Replay((), whole=False)] * len(trace.trials)
        html = trace_page(trace, result.media, replays, Extras())
        assert_harmless(html)
        seen.append(path)
        if path == ("query", "text"):
            assert HOSTILE in Reader(html).text
    assert len(seen) > 25


def test_what_stands_beside_the_trace_is_escaped_too() -> None:
    result = asked(COLOURS, task="question")
    media = media_from(result.media)
    named = type(media)(media.images, names=(HOSTILE,))
    extras = Extras(HOSTILE, Truth(HOSTILE), score=0.0)
    replays = [Replay((), whole=False)] * len(result.trace.trials)
    assert_harmless(trace_page(result.trace, named, replays, extras))


def test_the_policy_allows_its_own_script_and_style_alone() -> None:
    html = page(*(lambda r: (r.trace, r.media))(asked(COLOURS, task="question")))
    (policy,) = [
        its["content"] or ""
        for _, its in Reader(html).elements
        if its.get("http-equiv") == "Content-Security-Policy"
    ]
    for tag in ("script", "style"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.S)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy and "unsafe" not in policy


def test_a_page_of_a_large_noisy_video_stays_small() -> None:
    noise = np.random.default_rng(0)
    clip = noise.integers(0, 255, (64, 540, 960, 3), np.uint8)
    programs = [EVENT.replace("stops", "stops" + " " * n) + f"# {n}\n" for n in range(5)]
    result = asked(*programs, media=clip, task="choice", options=("a", "b"))
    assert len(page(result.trace, result.media)) < 3_000_000


def test_what_was_learned_stands_with_its_evidence_and_is_text() -> None:
    prompts = (
        PromptRecord("m", ("a-1",), ("a-2",), 0.25, 1.0),
        PromptRecord("m", (HOSTILE,), why=HOSTILE),
    )
    update = Update(
        "loc", HOSTILE, "reflection", 0.5, {"source": HOSTILE}, prompts, ("id-1",), HOSTILE, 2.5
    )
    record = LearningRecord(
        "s", 0, 0.0, 1.0, None, HOSTILE, (Critique.of_tool("find", 2, HOSTILE, HOSTILE),),
        (update,), ("demo-1",), 1, HOSTILE, 3.5,
    )  # fmt: skip
    found = read(asked(COLOURS, query="q", task="question"), Extras(record=record))
    for words in ("What was learned", "Score 0.000 before, 1.000 after", "tool:find, call 2",
                  "1 of 2 prompts kept", "50 % of the collected pictures", "a-1", "0.25",
                  "1 demonstrations kept (demo-1)"):  # fmt: skip
        assert words in found.words, words
    assert not [tag for tag, its in found.elements if tag == "img" or "onerror" in its]
    assert sum(tag == "script" for tag, _ in found.elements) == 1


def test_a_call_says_what_the_tool_was_taught() -> None:
    trace = asked(COLOURS, query="what color is it?", task="question")
    (trial,) = trace.trace.trials
    calls = tuple(replace(call, taught=("loc: pyramid",)) for call in trial.tool_calls)
    changed = replace(trace.trace, trials=(replace(trial, tool_calls=calls),))
    assert "as taught: loc: pyramid" in Reader(page(changed, trace.media, None)).words


def test_confidence_and_checks_stand_below_the_answer_and_are_escaped() -> None:
    result = asked(COLOURS, query="what color is it?")
    answer = result.trace.answer
    assert answer is not None
    checks = (
        Check("exact", "exact input 1", True, "2", "2"),
        Check("relation", "mirrored", False, HOSTILE, "red"),
    )
    trace = replace(result.trace, answer=replace(answer, confidence=0.4167), checks=checks)
    shown = Reader(page(trace, result.media))
    assert "Confidence: 0.42Verification: 1 of 2 checks passed" in shown.words
    assert "failed mirrored: red instead of \"'>" in shown.words
    assert "Confidence" not in Reader(page(result.trace, result.media)).words


def test_a_withheld_answer_is_not_called_answered() -> None:
    result = asked(COLOURS, query="what color is it?")
    trace = result.trace.without_answer(Failure("outside_domain", "unlike"))
    words = Reader(page(trace, result.media)).words
    assert "1 answer withheld" in words and "1 answered" not in words
    assert "1 answered" in Reader(page(result.trace, result.media)).words


def test_warnings_stand_above_the_answer() -> None:
    guess = "x = ImagePatch(image).find('<i>')\n    return 'blue' if x else 'red'"
    result = asked(f"def execute_command(image):\n    {guess}\n", query="what color is it?")
    html = page(result.trace, result.media)
    warning = html.index('class="warning"')
    assert warning < html.index('class="figure"') and "the answer is a guess" in html
    assert "<i>" not in html
