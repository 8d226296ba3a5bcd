"""The turns of an agent on the page of its trace."""

from __future__ import annotations

from dataclasses import replace

from tests.strategies.bench import picture
from tests.strategies.explore.test_explore import COUNT, DONE, STORE, explored
from tests.web.test_trace_page import HOSTILE, Reader
from tests.web.traces import page
from viper.models.media import media_from
from viper.schema import Turn
from viper.web.trace_view import Sizes, turn_views


def test_every_turn_is_told_with_what_it_was_worth() -> None:
    trace = explored(["no action", "<code>cubes[3]", COUNT, STORE, DONE]).trace
    found = Reader(page(trace, media_from(picture())))
    assert "5 turns" in found.words
    assert "no action could be read of no use: unreadable" in found.words
    assert "of no use: traceback" in found.words and "NameError" in found.words
    assert "cubes = image_patch.find('cube')" in found.words
    views = turn_views(trace.turns, trace.tool_calls, Sizes())
    assert views[2].tools == (("find", 1),) and views[2].reason == ""


def test_what_turns_hold_is_text_and_nothing_else() -> None:
    trace = explored([COUNT, STORE, DONE]).trace
    wild = Turn(0, HOSTILE, HOSTILE, HOSTILE, by=HOSTILE)
    coded = Turn(1, "code", HOSTILE, HOSTILE, calls=(99, 0))
    made = page(replace(trace, turns=(wild, coded)), media_from(picture()))
    found = Reader(made)
    assert HOSTILE in found.text
    scripts = [its for tag, its in found.elements if tag in ("script", "img")]
    assert len(scripts) == 1 and all(not key.startswith("on") for its in scripts for key in its)
