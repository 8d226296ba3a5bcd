"""Decisions of people as examples for the planner."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.strategies.seek.test_seek import STRAIGHT, Bench
from viper.errors import UsageError
from viper.profiles import load_profile
from viper.prompting.seeking import DecisionExample
from viper.strategies.seek import SeekSettings
from viper.strategies.seek.decisions import (
    FOR_EACH_ACTION,
    WRITTEN,
    RecordedDecisions,
    decisions_of,
)
from viper.strategies.seek.graph import ACTIONS

KEPT = [
    DecisionExample("what is the red bowl called?", ("object 1: a red bowl",), "select", "1"),
    DecisionExample("who wrote the book?", (), "select", "the book"),
    DecisionExample("what color is the car?", (), "vqa", "what color is it?"),
    DecisionExample("who wrote the book?", ("a novel",), "text_search", "author of the novel"),
]


def written(folder: Path, decided: list[DecisionExample] = KEPT) -> Path:
    path = folder / "decisions.jsonl"
    path.write_text("".join(json.dumps(asdict(one)) + "\n" for one in decided))
    return path


def test_shown_are_those_that_fit_for_exactly_these_actions() -> None:
    kept = RecordedDecisions(KEPT)
    found = kept.examples("what is the red lamp called?", ("object 1: a red lamp",), ["select"])
    assert found == [KEPT[0], KEPT[1]]
    found = kept.examples("who wrote it?", ("a book",), ["text_search", "select", "ocr"])
    assert found == [KEPT[3], KEPT[1], KEPT[0]]
    assert kept.examples("who wrote the book?", (), ["text_search"]) == []  # its own answer


def test_the_planner_s_prompt_shows_them_and_no_others(tmp_path: Path) -> None:
    bench = Bench(STRAIGHT)
    assert bench.ask(decisions=str(written(tmp_path))).answer.value == "1893"
    first, second = (call.prompt for call in bench.llm.calls[1:3])
    assert "Next: vqa: what color is it?" in first and "author of the novel" not in first
    second = second.rpartition("[user]")[2]
    assert "object 1: a red bowl" in second and "vqa: what color" not in second


def test_four_decisions_of_each_action_are_shown_the_most_similar_first() -> None:
    many = [DecisionExample(f"what color is car {n}?", (), "vqa", str(n)) for n in range(9)]
    found = RecordedDecisions([*many, *KEPT]).examples("what color is car 7?", (), ["vqa"])
    assert len(found) == FOR_EACH_ACTION == 4
    # the decision of the same query would tell its answer
    assert many[7] not in found and all("color" in each.query for each in found)


def test_the_shipped_decisions_hold_four_of_every_action() -> None:
    shipped = decisions_of(WRITTEN).examples("?", (), tuple(ACTIONS))
    assert Counter(each.action for each in shipped) == dict.fromkeys(ACTIONS, 4)
    assert all(each.words for each in shipped if ACTIONS[each.action].takes)
    assert len({each.query for each in shipped}) == len(shipped)


@pytest.mark.parametrize("style", ["chat", "full"])
def test_a_planner_reads_four_decisions_of_every_action_that_it_may_choose(style: str) -> None:
    bench = Bench(STRAIGHT, prompt_style=style)
    result = bench.ask(decisions=WRITTEN)
    assert result.answer.value == "1893"
    assert "decision detect: which brand is the bag?" in result.trace.examples_shown
    planned = [call for call in bench.llm.calls if "You look for the answer" in call.prompt]
    for call in planned:  # a conversation holds its earlier turns
        allowed = re.findall(
            r"^- (\w+):", call.prompt.rpartition("possible now")[2].partition("## Now")[0], re.M
        )
        shown = Counter(re.findall(r"^Next: (\w+)", call.prompt, re.M))
        assert allowed and all(shown[action] >= 4 for action in allowed)
    last = planned[-1].prompt
    questions = re.findall(r"^Question: .*\nKnown:\n(?:- .*\n)+Next: ", last, re.M)
    assert len(questions) == len(set(questions)), "each decision stands once"


def test_without_examples_no_decision_is_shown() -> None:
    bench = Bench(STRAIGHT)
    assert bench.ask(decisions=WRITTEN, examples=0).answer.value == "1893"
    assert not any("## Examples" in call.prompt for call in bench.llm.calls)


def test_without_a_file_no_decisions_are_shown() -> None:
    assert not decisions_of("").examples("x", (), ["vqa"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "decisions.jsonl:1: no decision"),
        ('{"query": "x", "action": "fly"}', "unknown action 'fly'"),
        ('{"action": "vqa"}', "KeyError: 'query'"),
        ("[" * 100_000, "no decision"),
    ],
)
def test_a_broken_file_says_where(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "decisions.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError, match=says):
        decisions_of(str(path))
    with pytest.raises(UsageError, match="no such file of decisions; make one with"):
        decisions_of(str(tmp_path / "none"))


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    path = written(tmp_path, KEPT[:1])
    assert decisions_of(str(path)).examples("x", (), ["vqa"]) == []
    written(tmp_path)
    assert decisions_of(str(path)).examples("x", (), ["vqa"]) == [KEPT[2]]


def test_a_profile_names_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        '[llm]\nbackend = "transformers"\nmodel = "embedded:writer"\n[run]\n'
        'graph = "./mine-graph.toml"\ndecisions = "./decisions.jsonl"\n'
    )
    settings = load_profile(str(tmp_path / "mine.toml")).components().settings.of(SeekSettings)
    assert settings.decisions == str(tmp_path / "decisions.jsonl")
    assert settings.graph == str(tmp_path / "mine-graph.toml")
    assert load_profile("embedded").components().settings.of(SeekSettings).graph == "avis"
