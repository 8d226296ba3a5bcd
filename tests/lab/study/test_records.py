"""Records of what people did: the graph that they make, its statistics, examples."""

from collections import Counter
from random import Random

import pytest

from viper.errors import DataError, UsageError
from viper.strategies.seek.graph import START, load_route
from viper_lab.study.records import (
    SearchStep,
    Session,
    examples_of,
    graph_text,
    induce,
    of_path,
    read_sessions,
    session_line,
    statistics,
)


def walk(graph, random, length=9):
    """A user who does anything that the graph allows, and finds some of it of use."""
    state, steps = START, []
    for _ in range(random.randint(3, length)):
        action = random.choice(graph.states[state])
        useful = random.random() < 0.7
        steps.append(
            SearchStep(
                state, action, "q?", ("k",), "w", "informative" if useful else "uninformative"
            )
        )
        state = action if useful else state
    return Session(f"p{random.randrange(10)}", "q?", tuple(steps), random.random() < 0.5)


def studied(graph, count=600, seed=0):
    random = Random(seed)
    return [walk(graph, random) for _ in range(count)]


def as_sets(graph):
    return {state: set(allowed) for state, allowed in graph.states.items()}


@pytest.mark.parametrize("seed", range(3))
def test_the_graph_of_simulated_users_is_the_one_that_they_followed(seed, tmp_path):
    graph = load_route("avis")
    found = induce(studied(graph, seed=seed), least=0.02)
    assert as_sets(found) == as_sets(graph)
    path = tmp_path / "g.toml"
    path.write_text(graph_text(found))
    assert load_route(str(path)) == found


def test_slips_are_left_out():
    graph = load_route("avis")
    slips = [Session("p", "q", (SearchStep(START, "llm_qa"),), False)] * 3
    assert as_sets(induce([*studied(graph), *slips], least=0.02)) == as_sets(graph)
    assert "llm_qa" in induce([*studied(graph), *slips]).states[START]


def test_actions_are_in_the_order_of_their_frequency():
    steps = [SearchStep(START, one) for one in ("vqa", "caption", "vqa")]
    sessions = [Session("p", "q", (step, SearchStep(step.action, "vqa")), True) for step in steps]
    found = induce(sessions)
    assert found.states[START] == ("vqa", "caption")
    assert found.counts[START] == {"vqa": 2, "caption": 1}


def test_where_everybody_stopped_what_was_done_before_is_allowed():
    sessions = [
        Session("p", "q", (SearchStep(START, "detect"), SearchStep("detect", "select")), True)
    ]
    assert induce(sessions).states["select"] == ("select",)


def test_records_that_make_no_graph_say_so():
    with pytest.raises(UsageError, match="nobody began"):
        induce([])
    with pytest.raises(UsageError, match="nobody began"):
        induce([Session("p", "q", (SearchStep("detect", "select"),), False)])


def test_statistics_are_shares():
    sessions = [
        Session("a", "q", (SearchStep(START, "detect", verdict="informative"),), True),
        Session(
            "b",
            "q",
            (
                SearchStep(START, "caption", verdict="uninformative"),
                SearchStep(START, "detect", verdict="answer"),
            ),
            False,
        ),
    ]
    found = statistics(sessions)
    assert found.sessions == 2 and found.found == 0.5
    assert found.actions == {"detect": 2 / 3, "caption": 1 / 3}
    assert found.places[:3] == [{"detect": 0.5, "caption": 0.5}, {"detect": 1.0}, {}]
    assert found.transitions == {START: {"detect": 2 / 3, "caption": 1 / 3}}
    assert found.lengths == {1: 0.5, 2: 0.5} and sum(found.verdicts.values()) == 1
    with pytest.raises(UsageError, match="no records"):
        statistics([])


def test_examples_are_of_those_who_found_something():
    sessions = studied(load_route("avis"))
    examples = list(examples_of(sessions, most=3))
    counts = Counter(one.action for one in examples)
    assert max(counts.values()) == 3 and len(counts) > 8
    assert all(one.query == "q?" and one.known == ("k",) for one in examples)
    assert not list(examples_of([Session("p", "q", (SearchStep(START, "ocr"),), False)]))


def test_records_are_read_as_they_were_written(tmp_path):
    sessions = studied(load_route("avis"), 5)
    path = tmp_path / "r.jsonl"
    path.write_text("\n".join(map(session_line, sessions)))
    assert list(read_sessions(path)) == sessions


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"participant": "p", "question": "q", "found": true}',
        '{"participant":"p","question":"q","found":true,"steps":[{"state":"x","action":"ocr"}]}',
        '{"participant":"p","question":"q","found":true,"steps":[{"state":"START","action":"x"}]}',
        '{"participant":"p","question":"q","found":1,"steps":[1]}',
    ],
)
def test_a_line_that_is_no_record_is_named(tmp_path, line):
    path = tmp_path / "r.jsonl"
    path.write_text(session_line(Session("p", "q", (), False)) + line)
    with pytest.raises(DataError, match=r"r.jsonl:2: no record of a session"):
        list(read_sessions(path))
    with pytest.raises(DataError, match="cannot be read"):
        list(read_sessions(tmp_path / "none.jsonl"))


def test_hostile_words_in_records_become_plain(tmp_path):
    path = tmp_path / "r.jsonl"
    step = SearchStep(START, "ocr", "a\x1b[31m\u202eb", ("k\x00",), "w\n# actions: x")
    path.write_text(session_line(Session("p\x07", "q", (step,), True)))
    (found,) = read_sessions(path)
    assert found.participant == "p" and found.steps[0].query == "a [31m b"
    assert "\n" not in found.steps[0].words


def test_a_runs_path_is_a_session():
    path = [
        {"question": "q", "visual": "v", "knowledge": ""},
        {"state": START, "query": "v", "action": "vqa", "words": "w", "verdict": "uninformative"},
        {"back": "x", "state": START},
        {"state": START, "query": "v", "action": "ocr", "verdict": "answer", "extracted": "A"},
    ]
    found = of_path(path, "run", "q")
    assert [one.action for one in found.steps] == ["vqa", "ocr"] and found.found
    begun = of_path([{"picture": ["the whole picture: a lamp"], "calls": [0]}, *path], "run", "q")
    assert begun.steps[0].known == ("the whole picture: a lamp",)
    assert not of_path(path[:2], "run", "q").found and not of_path([], "run", "q").found
