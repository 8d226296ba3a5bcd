"""Transition graphs: read, checked, shortened, written."""

import pytest

from viper.errors import UnknownNameError, UsageError
from viper.strategies.seek.graph import ACTIONS, EVERY, GROUPS, START, TransitionGraph, load_route
from viper_lab.study.records import graph_text

GOOD = """
name = "mine"
[states]
START = ["detect", "caption"]
detect = ["select"]
select = ["detect", "caption"]
caption = ["detect"]
[instructions]
caption = "when nothing is known"
[counts.START]
detect = 7
"""


def written(tmp_path, text):
    path = tmp_path / "graph.toml"
    path.write_text(text)
    return str(path)


def test_the_shipped_graph_begins_as_the_paper_says():
    graph = load_route("avis")
    assert graph.name == "avis" and set(graph.states[START]) == {"caption", "vqa", "detect"}
    assert set(graph.states) == {START, *ACTIONS}
    assert all(graph.instruction(one) for one in ACTIONS)


def test_every_action_everywhere():
    graph = load_route(EVERY)
    assert graph.allowed("ocr") == tuple(ACTIONS) == graph.allowed(START)


def test_a_graph_of_ones_own(tmp_path):
    graph = load_route(written(tmp_path, GOOD))
    assert graph.allowed(START) == ("detect", "caption")
    assert graph.allowed(START, {"detect"}) == ("caption",) and graph.allowed("nowhere") == ()
    assert graph.instruction("caption") == "when nothing is known"
    assert graph.instruction("detect") == ACTIONS["detect"].instruction
    assert graph.counts == {START: {"detect": 7}}


def test_what_is_written_is_read_again(tmp_path):
    graph = load_route(written(tmp_path, GOOD))
    assert load_route(written(tmp_path, graph_text(graph, "of mine"))) == graph


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("states = 1", "states: .*got 1"),
        ("[states]\ndetect = ['select']", "no state START"),
        ("[states]\nSTART = ['fly']", "allows the unknown action 'fly'; known: caption"),
        ("[states]\nSTART = ['caption']\nfly = ['caption']", "unknown state 'fly'"),
        ("[states]\nSTART = ['caption']\ncaption = []", "state caption is a dead end"),
        ("[states]\nSTART = ['caption']", "state caption is a dead end"),
        (
            "[states]\nSTART = ['caption']\ncaption = ['caption']\nocr = ['caption']",
            "state ocr cannot be reached",
        ),
        ("[states]\nSTART = ['caption', 'caption']\ncaption = ['caption']", "an action twice"),
        ("stats = 1", "stats: unknown key; known: name, states"),
        ("[states]\nSTART=['ocr']\nocr=['ocr']\n[instructions]\nfly='x'", "unknown action 'fly'"),
        (
            "[states]\nSTART=['ocr']\nocr=['ocr']\n[counts.START]\nocr=-1",
            "state START counts ocr -1 times",
        ),
        ("[states", "cannot be read as TOML"),
    ],
)
def test_what_is_wrong_with_a_graph_is_said_in_one_line(tmp_path, text, says):
    with pytest.raises(UsageError, match=rf"graph.toml:.*{says}"):
        load_route(written(tmp_path, text))


def test_unknown_and_missing_graphs(tmp_path):
    with pytest.raises(UnknownNameError, match="unknown graph 'x'; known: FILE.toml, avis, every"):
        load_route("x")
    with pytest.raises(UsageError, match="cannot be read"):
        load_route(str(tmp_path / "no.toml"))


def test_without_a_group_of_tools():
    graph = load_route("avis").without(GROUPS["search"])
    left = {one for allowed in graph.states.values() for one in allowed}
    assert not left & set(GROUPS["search"]) and "entities" not in graph.states
    assert graph.states["select"] == ("ocr", "vqa")
    with pytest.raises(UnknownNameError, match="unknown action 'fly'"):
        graph.without(["fly"])
    alone = TransitionGraph("alone", {START: ("caption",), "caption": ("caption",)})
    with pytest.raises(UsageError, match="without caption nothing can begin"):
        alone.without(["caption"])


def test_groups_hold_every_action_once():
    assert sorted(one for group in GROUPS.values() for one in group) == sorted(ACTIONS)
