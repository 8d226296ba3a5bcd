"""The journal of lessons."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from viper.errors import StoreError
from viper.evaluate.runs.learning_record import Journal, LearningRecord, PromptRecord, Update
from viper.schema import to_json
from viper.strategies.critique import Critique


def a_lesson(name: str = "s1", **changes: object) -> LearningRecord:
    trained = (PromptRecord("m"),)
    update = Update("loc", "pyramid", "reflection", 0.25, {"source": "world"}, trained, ("a",))
    given = {
        "critiques": (Critique.of_tool("find", 2, "it missed one", [1]),),
        "updates": (update,),
        "demonstrations": ("x",),
        **changes,
    }
    return LearningRecord(name, 3, 0.0, 1.0, desired="yes", **given)  # type: ignore[arg-type]


def test_what_is_added_is_read_back(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert journal.records() == []
    journal.add(a_lesson())
    (found,) = journal.records()
    assert to_json(found) == to_json(a_lesson())
    assert found.updates[0].prompts[0].model_id == "m"
    assert found.critiques[0].tool == "find" and found.updates[0].key == ("loc", "pyramid")


def test_the_last_lesson_of_a_task_counts(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for lesson in (a_lesson(), a_lesson("s2"), a_lesson(refused=4)):
        journal.add(lesson)
    assert [(one.sample_id, one.refused) for one in journal.records()] == [("s2", 0), ("s1", 4)]


def test_a_torn_line_loses_itself_alone(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.add(a_lesson())
    with journal.path.open("ab") as file:
        file.write(b'{"sample_id": "s9", "sc')
    journal.add(a_lesson("s2"))
    assert [one.sample_id for one in journal.records()] == ["s1", "s2"]


@pytest.mark.parametrize(
    "line",
    ["{}", '{"sample_id": "s", "seed": 0, "score": "x", "score_after": 1}',
     '{"sample_id": "s", "seed": 0, "score": 1, "score_after": 1, "critiques": [{}]}',
     '{"sample_id": "s", "seed": 0, "score": 1, "score_after": 1, "updates": [7]}'],
)  # fmt: skip
def test_a_line_that_is_no_lesson_is_one_line_that_says_so(tmp_path: Path, line: str) -> None:
    journal = Journal(tmp_path)
    journal.path.write_text(line + "\n")
    with pytest.raises(StoreError, match=r":1: not a"):
        journal.records()


def test_fields_of_a_later_version_are_passed_over(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    values = to_json(a_lesson())
    values["mood"] = "good"
    values["updates"][0]["colour"] = "red"
    journal.path.write_text(json.dumps(values) + "\n")
    assert journal.records()[0].sample_id == "s1"
