"""Flags beside what people said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuning.agent.turns import COUNT, DONE, DOUBT, FIND, STORE, WHOLE, workflow
from viper.errors import DataError, UsageError
from viper.models.llm.scripted import ScriptedLLM
from viper.tuning.agent.flags import Label, add_label, flag_report, majority, read_labels
from viper.tuning.agent.workflows import read_workflows

MADE = workflow(WHOLE, DOUBT, FIND, COUNT, STORE, DONE)


def labelled(path: Path, said: dict[int, list[bool]]) -> Path:
    for turn, passes in said.items():
        for number, effective in enumerate(passes, start=1):
            add_label(path, Label("s1", turn, effective, number))
    return path


def test_the_majority_counts_and_the_last_word_of_a_pass() -> None:
    labels = [
        Label("a", 0, True, 1),
        Label("a", 0, False, 2),
        Label("a", 0, False, 3),
        Label("a", 0, True, 2),
        Label("a", 1, True, 1),
        Label("a", 1, False, 2),
    ]
    assert majority(labels) == {("a", "discrepancy", 0, 0): True}


def test_workflows_of_one_sample_in_two_manners_are_told_apart(tmp_path: Path) -> None:
    again = replace(MADE, manner="standard")
    file = labelled(tmp_path / "labels.jsonl", {0: [False]})
    report = flag_report([MADE, again], labels=file)
    assert report.labelled == 1 and report.workflows == 2


def test_the_repository_holds_what_three_passes_said_of_a_hundred_workflows() -> None:
    folder = Path(__file__).parents[3] / "benchmarks" / "flags"
    made = read_workflows(folder / "workflows.jsonl")
    report = flag_report(made, labels=folder / "labels.jsonl")
    assert report.workflows == 100 and report.labelled == sum(report.actions.values())
    assert report.agreement["all"].precision.value > 0.85
    assert report.agreement["all"].recall.value > 0.85


def test_precision_and_recall_by_kind(tmp_path: Path) -> None:
    said = {0: [False] * 3, 1: [True, True, False], 2: [False, False, True], 3: [True], 5: [True]}
    report = flag_report([MADE], labels=labelled(tmp_path / "labels.jsonl", said))
    assert report.actions == {"code": 4, "thought": 1, "done": 1}
    assert report.reasons == {"doubted": 1, "discrepancy": 1}
    code, thought, every = (report.agreement[one] for one in ("code", "thought", "all"))
    assert (code.precision.value, code.recall.value) == (1.0, 0.5)
    assert (thought.precision.value, thought.recall.n) == (0.0, 0)
    assert (every.precision.n, every.recall.n, report.labelled) == (2, 2, 5)
    assert "code: precision 1.00" in report.text() and report.to_json()["labelled"] == 5


def test_a_language_model_flags_and_the_rules_fill_in() -> None:
    llm = ScriptedLLM(["1: effective\n2: effective\n3 - ineffective\nI am not sure of 4"])
    report = flag_report([MADE], llm)
    assert report.reasons == {"said": 1} and report.by_model == 3
    assert "the language model spoke of 3 of 6" in report.text()
    assert "Action 6:" in llm.calls[0].prompt and "It answered: 2 (right)" in llm.calls[0].prompt


def test_labels_of_other_workflows_are_told(tmp_path: Path) -> None:
    add_label(tmp_path / "l.jsonl", Label("other", 0, True))
    with pytest.raises(UsageError, match="no label of any of the 1 workflows"):
        flag_report([MADE], labels=tmp_path / "l.jsonl")


@pytest.mark.parametrize(("turn", "number"), [('"x"', "1"), ("1", "[1]"), ("true", "1")])
def test_what_is_no_label_is_refused(tmp_path: Path, turn: str, number: str) -> None:
    file = tmp_path / "l.jsonl"
    line = '{"workflow": "a", "turn": TURN, "effective": true, "number": NUMBER}\n'
    wrong = line.replace("TURN", turn).replace("NUMBER", number)
    file.write_text(f"{wrong}{{}}\n", encoding="utf-8")
    with pytest.raises(DataError, match="not a label .* viper learn label"):
        read_labels(file)
