"""A search by hand over tools that answer from tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.strategies.seek.test_seek import Bench, picture
from viper.errors import ToolError, UsageError
from viper.models.media import media_from
from viper.strategies.seek.graph import ACTIONS
from viper.strategies.seek.strategy import seek_tools
from viper_lab.study.by_hand import MOST_STEPS, HandSearch
from viper_lab.study.records import Session, induce, read_sessions, session_line

QUESTION = "who makes the red lamp?"


def sat_down(bench: Bench | None = None) -> HandSearch:
    bench = bench or Bench([])
    session = bench.reasoner.components.toolbox.session(media_from(picture()))
    return HandSearch("p-1", QUESTION, seek_tools(session, lambda question, known: "tarnix"))


def done() -> Session:
    search = sat_down()
    assert search.take("detect").lines[0] == "object 1: a red lamp"
    search.judge("informative")
    search.take("select", "2")
    search.judge("uninformative")
    search.take("select", "1")
    search.judge("informative")
    search.take("entities")
    search.judge("informative", "velora")
    search.take("text_search", "velora maker")
    return search.ended(True, "tarnix ")


def test_every_action_is_recorded_with_what_was_known() -> None:
    session = done()
    assert session.found and session.answer == "tarnix" and session.participant == "p-1"
    assert [(one.state, one.action, one.verdict) for one in session.steps] == [
        ("START", "detect", "informative"),
        ("detect", "select", "uninformative"),
        ("detect", "select", "informative"),
        ("select", "entities", "informative"),
        ("entities", "text_search", "answer"),
    ]
    assert session.steps[-1].known[-1] == "velora" and session.steps[-1].words == "velora maker"
    assert session.steps[0].known == ()


def test_a_record_can_be_read_and_makes_a_graph(tmp_path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(session_line(done()))
    (again,) = read_sessions(path)
    assert again == done()
    assert induce([again]).states["select"] == ("entities",)


def test_all_is_allowed_that_is_possible_and_one_thing_at_a_time() -> None:
    search = sat_down()
    assert set(search.actions) == set(ACTIONS) - {"select"}
    with pytest.raises(UsageError, match="'select' cannot be done now"):
        search.take("select", "1")
    with pytest.raises(UsageError, match="nothing to call 'informative'"):
        search.judge("informative")
    with pytest.raises(UsageError, match="text_search needs words"):
        search.take("text_search")
    search.take("caption")
    assert search.actions == ()
    with pytest.raises(UsageError, match="nothing to call 'splendid'"):
        search.judge("splendid")
    assert not search.back()


def test_going_back_excludes_what_led_there() -> None:
    search = sat_down()
    search.take("detect")
    search.judge("informative")
    assert search.now.state == "detect" and search.now.context[0] == "object 1: a red lamp"
    assert search.back() and search.now.state == "START" and not search.back()
    assert len(search.steps) == 1


def test_a_tool_that_fails_is_no_step() -> None:
    bench = Bench([])
    bench.pictures.fails = ToolError("no such index")
    search = sat_down(bench)
    with pytest.raises(ToolError, match="no such index"):
        search.take("entities")
    assert not search.steps and search.seen is None and "entities" in search.actions


def test_the_end() -> None:
    search = sat_down()
    with pytest.raises(UsageError, match="say what the answer is"):
        search.ended(True, "  ")
    search.take("caption")
    given_up = search.ended(False)
    assert not given_up.found and given_up.steps[-1].verdict == "uninformative"
    search.judge("informative")
    assert search.ended(False).steps[-1].verdict == "informative"
    search.steps = [replace(search.steps[0])] * MOST_STEPS
    assert search.actions == ()
