"""The path of a search on the page of its trace."""

from __future__ import annotations

from dataclasses import replace

from tests.strategies.seek.test_seek import NO, STRAIGHT, Bench, picture
from tests.web.test_trace_page import HOSTILE, Reader
from tests.web.traces import page
from viper.models.media import media_from
from viper.web.seek_path import COLUMN, LABEL, path_view

ASTRAY = [
    STRAIGHT[0],
    "Next: detect",
    "Next: select: 2",
    *("Next: ocr", NO, "Next: entities", NO, "Next: captions", NO, "Next: titles", NO),
    *("Next: identical", "Next: vqa: what?", NO),
    *("Next: vqa: which lamp?", NO, "Next: vqa: whose lamp?", NO),
    *STRAIGHT[2:],
]


def test_every_step_is_told_with_what_else_was_allowed() -> None:
    result = Bench(STRAIGHT).ask()
    found = Reader(page(result.trace, media_from(picture())))
    assert "5 steps of the search" in found.words
    assert "when was the maker of # founded?" in found.words
    assert "START → detect" in found.words and "answer: 1893" in found.words
    assert "object 1: a red lamp" in found.words
    (drawing,) = [its for tag, its in found.elements if its.get("aria-label", "").startswith("det")]
    assert drawing["aria-label"] == (
        "detect: informative, select: informative, entities: answer, text_search: informative, "
        "text_search: answer"
    )
    assert len([1 for tag, its in found.elements if its.get("class") == "move answer"]) == 2


def test_going_back_and_exclusions_are_shown() -> None:
    view = path_view(Bench(ASTRAY).ask().trace.path)
    assert view is not None
    again = next(one for one in view.steps if one.back)
    assert again.back == ("detect",) and again.action == "select"
    assert view.steps[5].choices["ocr"] == "excluded"
    first, second = view.drawing.lines[0], view.drawing.lines[1]
    assert first[0] == LABEL and first[2] == LABEL + COLUMN == second[0]


def test_what_was_found_is_text_and_nothing_else() -> None:
    trace = Bench(STRAIGHT).ask().trace
    hostile = [
        {key: HOSTILE if isinstance(value, str) else value for key, value in one.items()}
        for one in trace.path
    ]
    hostile[2] = {**hostile[2], "found": [HOSTILE], "allowed": [HOSTILE], "excluded": [[HOSTILE]]}
    made = page(replace(trace, path=tuple(hostile)), media_from(picture()))
    found = Reader(made)
    assert HOSTILE in found.text
    scripts = [its for tag, its in found.elements if tag in ("script", "img")]
    assert len(scripts) == 1 and all(not key.startswith("on") for its in scripts for key in its)


def test_whatever_a_file_says_is_a_path_or_none() -> None:
    assert path_view([]) is None and path_view([3, None, {"x": 1}]) is None
    odd = {"action": 3, "allowed": "x", "excluded": [[], "a", ["b"]], "found": 3, "verdict": None}
    view = path_view([odd])
    assert view is not None and view.steps[0].action == "3"
    assert dict(view.steps[0].choices) == {"b": "excluded", "3": "taken"}
    assert len(path_view([odd] * 1000).steps) == 200
