"""Fixed sequences: what a search is compared with."""

from __future__ import annotations

from typing import Any

import pytest

from tests.strategies.seek.test_seek import SPLIT, Bench, actions, answer, more, steps
from viper.errors import UnknownNameError, UsageError
from viper.search.findings import Entity, SimilarPicture
from viper.strategies.seek.graph import SEQUENCES, FixedSequence, TransitionGraph, load_route
from viper.strategies.seek.seeker import UNANSWERABLE

NO = "verdict: uninformative"


def test_every_step_is_taken_in_order_and_none_is_gone_back_on() -> None:
    bench = Bench(
        [
            SPLIT,
            NO,  # of the caption
            *("Next: vqa: which lamp is red?", NO),
            "Next: select: the red lamp",
            NO,  # of what is written
            answer("velora"),
            *("Next: text_search: velora maker", more("made by tarnix")),
            "1893",
        ]
    )
    result = bench.ask(graph="fixed-search")
    assert result.answer.value == "1893" and bench.llm.remaining == 0
    sequence = load_route("fixed-search")
    assert isinstance(sequence, FixedSequence) and actions(result) == list(sequence.actions)
    assert all(one["allowed"] == [one["action"]] for one in steps(result))
    assert not any("back" in one for one in result.trace.path)
    last = bench.llm.calls[-1].prompt
    assert "made by tarnix" in last and "red lamp founded" in last


def test_a_verdict_that_is_the_answer_ends_it() -> None:
    bench = Bench(["visual: which lamp is red?", NO, "Next: vqa: which?", answer("red")])
    result = bench.ask(graph="fixed-object")
    assert actions(result) == ["caption", "vqa"] and result.answer.value == "red"


def test_the_question_alone_is_asked_as_it_is() -> None:
    bench = Bench(["1893"])
    result = bench.ask(graph="question-only")
    assert result.answer.value == "1893" and not actions(result)
    assert "When was the maker of the red lamp founded?" in bench.llm.calls[0].prompt


def test_the_last_request_of_a_sequence_asks_for_reasoning_with_examples() -> None:
    reasoned = "The lamp is a velora of tarnix, which was founded in 1893.\nAnswer: 1893"
    bench = Bench(["visual: which lamp is red?", NO, "Next: vqa: which?", NO, reasoned])
    assert bench.ask(graph="fixed-seeing").answer.value == "1893"
    last = bench.llm.calls[-1].prompt
    assert last.partition("[user]")[0].count("\nAnswer: ") == 4
    assert "which findings bear on the question" in last and last.rstrip().endswith("founded?")
    unknown = Bench(["I do not know the lamp.\nAnswer: unknown"])
    assert unknown.ask(graph="question-only").answer.value == UNANSWERABLE
    guessed = Bench(["Answer: unknown", "1893"])
    assert guessed.ask(graph="question-only", exhausted="memory").answer.value == "1893"


def test_what_nobody_knows_is_unanswerable() -> None:
    result = Bench(["unknown"]).ask(graph="question-only")
    assert result.answer.value == UNANSWERABLE


def test_selecting_is_left_out_where_nothing_is_listed() -> None:
    bench = Bench([SPLIT, NO, "Next: vqa: x", NO, NO, NO, "Next: text_search: x", "unknown"])
    result = bench.ask(graph="fixed-search", without_actions=("detect",))
    assert actions(result) == ["caption", "vqa", "ocr", "entities", "text_search"]


@pytest.mark.parametrize(
    ("visual", "known", "name"),
    [
        ("the red lamp", True, "velora"),
        ("the blue lamp", True, "zorto"),
        ("the blue lamp", False, "whole"),
    ],
)
def test_the_matcher_names_the_object_of_the_question_or_else_the_picture(
    visual: str, known: bool, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = f"visual: {visual}\nknowledge: when was the maker of # founded?"
    bench = Bench([split, "Next: text_search: x", "1893"])

    def similar(pixels: Any, limit: int) -> list[SimilarPicture]:
        colour = int(pixels[pixels.shape[0] // 2, pixels.shape[1] // 2].argmax())
        unnamed = SimilarPicture("2", 0.99)  # names nothing, so it decides nothing
        if len(pixels) == 60:
            return [unnamed, SimilarPicture("1", 0.95, entities=(Entity("whole"),))]
        entity = Entity(("velora", "", "zorto")[colour])
        return [unnamed, SimilarPicture("1", 0.9, entities=(entity,))] if known else [unnamed]

    monkeypatch.setattr(bench.pictures, "similar", similar)
    result = bench.ask(graph="matcher")
    (search,) = steps(result)
    assert search["query"] == f"when was the maker of {name} founded?"
    assert result.answer.value == "1893" and f"{visual}: {name}" in bench.llm.calls[1].prompt
    only_name = Bench([f"visual: {visual}"])
    monkeypatch.setattr(only_name.pictures, "similar", similar)
    assert only_name.ask(graph="matcher").answer.value == name


def test_a_matcher_that_finds_nothing_searches_for_the_question() -> None:
    bench = Bench([SPLIT, "Next: text_search: x", "unknown"])
    bench.pictures.similar = lambda pixels, limit: []  # type: ignore[method-assign]
    result = bench.ask(graph="matcher")
    assert steps(result)[0]["query"] == "which lamp is red?"
    assert result.answer.value == UNANSWERABLE


def test_shipped_ones_can_be_read() -> None:
    names = {path.stem for path in SEQUENCES.glob("*.toml")}
    assert {"question-only", "matcher", "fixed-seeing", "fixed-object", "fixed-search"} < names
    assert all(load_route(name).name == name for name in names)
    assert isinstance(load_route("avis"), TransitionGraph)
    with pytest.raises(UnknownNameError, match="known: FILE.toml, avis, every, fixed-long"):
        load_route("fixed")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('actions = ["fly"]', "unknown action 'fly'; known: caption"),
        ("actions = 3", "mine.toml:1: actions: .*, got 3"),
        ('actions = []\nsplits = "no"', "mine.toml:2: splits: .*, got 'no'"),
        ("actions = [1]", "mine.toml:1: actions.0: .*, got 1"),
        ("actions = []\nx = 1", "mine.toml:2: x: unknown key; known: name, actions"),
    ],
)
def test_a_broken_file_says_what_is_wrong(tmp_path, text: str, says: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=says):
        load_route(str(path))


def test_a_file_of_ones_own(tmp_path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('actions = ["caption"]')
    assert load_route(str(path)) == FixedSequence("mine", ("caption",))
    with pytest.raises(UnknownNameError, match="action 'fly'"):
        load_route(str(path)).without(["fly"])
