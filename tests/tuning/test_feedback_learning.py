"""Remarks of a run as cases, those that were learned from left out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.commands.test_bad_input import viper
from tests.evaluate.fake_backends import a_set, color_of
from viper.cli import main
from viper.errors import StoreError
from viper.evaluate.runs.feedback import COMMENT_ALONE, FEEDBACK, Feedback, add_feedback
from viper.evaluate.runs.store import RunStore
from viper.tuning.feedback_learning import FeedbackCase, LearnedRemarks, Unreadable, feedback_cases

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of six questions about colors, answered by a fake."""
    folder = tmp_path_factory.mktemp("evaluated")
    file, profile = a_set(folder / "set", 6)
    with pytest.raises(SystemExit) as ended:
        main(["eval", str(file), "--profile", str(profile), "--out", str(folder / "run")])
    assert not ended.value.code
    return folder / "run"


@pytest.fixture
def run(evaluated: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(evaluated, tmp_path / "run"))


def cases(run: Path, learned: LearnedRemarks) -> list[FeedbackCase | Unreadable]:
    with RunStore.read(run) as store:
        return list(feedback_cases(store, learned))


def answered(number: int) -> str:
    return color_of(f"what color is thing {number}?")


def another(number: int) -> str:
    return "green" if answered(number) != "green" else "red"


def test_each_answer_is_one_case_until_it_was_learned_from(run: Path, tmp_path: Path) -> None:
    learned = LearnedRemarks(tmp_path / "state" / "learned.jsonl")
    assert cases(run, learned) == []
    add_feedback(run, Feedback("q2", 0, "violet"))
    add_feedback(run, Feedback("q1", 0, another(1)))
    add_feedback(run, Feedback("q2", 0, another(2), "the ball hides it"))
    add_feedback(run, Feedback("q2", comment="look again"))
    add_feedback(run, Feedback("q2", comment="look again"))
    add_feedback(run, Feedback("q4", 0, answered(4)))
    second, first, right = cases(run, learned)
    assert isinstance(second, FeedbackCase) and isinstance(first, FeedbackCase)
    assert (second.sample_id, second.case.desired, len(second.remarks)) == ("q2", another(2), 4)
    assert second.case.comment == "the ball hides it\nlook again" and second.right is False
    assert (first.sample_id, first.case.desired) == ("q1", another(1))
    assert first.case.trial.tool_calls and first.case.media.images[0].shape == (12, 16, 3)
    assert isinstance(right, FeedbackCase)
    assert (right.case.desired, right.right) == (answered(4), True)
    learned.add(second.remarks)
    assert [one.sample_id for one in cases(run, learned)] == ["q1", "q4"]
    again = LearnedRemarks(tmp_path / "state" / "learned.jsonl")
    assert [one.sample_id for one in cases(run, again)] == ["q1", "q4"]
    add_feedback(run, Feedback("q2", comment="once more"))
    (new, *_) = cases(run, again)
    assert isinstance(new, FeedbackCase) and new.case.desired == another(2)


def test_what_makes_no_case_is_told_and_the_rest_goes_on(run: Path, tmp_path: Path) -> None:
    add_feedback(run, Feedback("q99", 0, "red"))
    add_feedback(run, Feedback("q1", 7, "red"))
    add_feedback(run, Feedback("q5", comment="the light is strange"))
    add_feedback(run, Feedback("q2", 0, "red"))
    unknown, other_seed, words, good = cases(run, LearnedRemarks(tmp_path / "none"))
    assert isinstance(unknown, Unreadable) and isinstance(other_seed, Unreadable)
    assert "not there" in unknown.why and "not there" in other_seed.why
    assert isinstance(words, Unreadable) and words.why == COMMENT_ALONE
    assert isinstance(good, FeedbackCase)


def test_the_same_words_about_another_run_are_another_remark(run: Path, tmp_path: Path) -> None:
    remark = Feedback("q1", 0, "red", given="2026-01-01T00:00:00+00:00")
    add_feedback(run, remark)
    (one,) = cases(run, LearnedRemarks(tmp_path / "none"))
    other = Path(shutil.copytree(run, tmp_path / "other"))
    text = (other / "run.json").read_text()
    created = RunStore.read(run).manifest.created
    (other / "run.json").write_text(text.replace(created, "2020-01-01T00:00:00+00:00"))
    (two,) = cases(other, LearnedRemarks(tmp_path / "none"))
    assert isinstance(one, FeedbackCase) and isinstance(two, FeedbackCase)
    assert one.remarks != two.remarks


def test_a_damaged_list_of_what_was_learned_is_refused(tmp_path: Path) -> None:
    (tmp_path / "learned").write_text('{"remark": 3}\n{"remark": "a"}\n')
    with pytest.raises(StoreError, match=":1: not the id of a remark"):
        LearnedRemarks(tmp_path / "learned")


@pytest.mark.parametrize(
    "line", ['{"sample_id": 3}', '{"sample_id": "a", "comment": 5}', '{"a": 1}']
)
def test_remarks_of_other_kinds_are_refused(run: Path, tmp_path: Path, line: str) -> None:
    (run / FEEDBACK).write_text(f"{line}\n{line}\n")
    with pytest.raises(StoreError, match=":1: not a remark"):
        cases(run, LearnedRemarks(tmp_path / "none"))


def test_the_command_says_that_a_comment_alone_teaches_nothing(run: Path, capsys: Capture) -> None:
    given = ("learn", "feedback", str(run), "q1", "--comment", "it should be green")
    code, out, err = viper(capsys, *given)
    assert (code, out) == (0, "") and "a comment alone" in err and "--answer" in err
    code, out, _ = viper(capsys, "learn", "feedback", str(run))
    assert code == 0 and "it should be green" in out
    code, _, err = viper(capsys, *given, "--answer", "red")
    assert code == 0 and "a comment alone" not in err
