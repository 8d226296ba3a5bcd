"""Remarks of a run as cases, those that were learned from left out."""

from __future__ import annotations

import shutil
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.commands.test_bad_input import viper
from tests.evaluate.fake_backends import a_set, color_of
from tests.strategies.bench import Bench
from viper.cli import main
from viper.errors import StoreError, UsageError
from viper.evaluate.runs.feedback import (
    COMMENT_ALONE,
    FEEDBACK,
    Feedback,
    add_feedback,
    answer_from,
)
from viper.evaluate.runs.learning_record import Journal
from viper.evaluate.runs.store import RunStore
from viper.models.llm.scripted import ScriptedLLM
from viper.reasoner import RunOptions
from viper.strategies.demonstration_pool import DemonstrationPool
from viper.tuning.feedback_learning import (
    NO,
    FeedbackCase,
    FeedbackLearning,
    LearnedRemarks,
    Unreadable,
    feedback_cases,
)
from viper.tuning.language_reflector import LanguageReflector
from viper.tuning.learner import Learner

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
    learned = LearnedRemarks(tmp_path / "none")
    unknown, other_seed, words, good = cases(run, learned)
    assert isinstance(unknown, Unreadable) and isinstance(other_seed, Unreadable)
    assert "not there" in unknown.why and "not there" in other_seed.why
    assert isinstance(words, Unreadable) and words.why == COMMENT_ALONE
    assert isinstance(good, FeedbackCase)
    with RunStore.read(run) as store:
        *_, commented, _ = feedback_cases(store, learned, words=True)
    assert isinstance(commented, FeedbackCase) and commented.right is False
    assert (commented.case.desired, commented.case.comment) == (None, "the light is strange")


def verdict(run: Path, answer: bool | None, words: bool = True) -> FeedbackCase | Unreadable:
    """The case of a picture's edit to which a person said yes or no."""
    with RunStore.read(run) as store:
        trace = store.read_trace("q1", 0)
        assert trace is not None
        edited = replace(trace, query=replace(trace.query, task="edit"))
        store.read_trace = lambda *key: edited  # type: ignore[method-assign]
        add_feedback(run, Feedback("q1", 0, answer, comment="" if answer is not None else "bad"))
        (found,) = feedback_cases(store, LearnedRemarks(run / "none"), words=words)
    return found


def test_a_person_says_whether_an_edit_is_right(run: Path) -> None:
    good = verdict(run, True, words=False)
    assert isinstance(good, FeedbackCase) and good.right
    assert (good.case.desired, good.case.comment) == (None, "")
    bad = verdict(run, False)
    assert isinstance(bad, FeedbackCase) and not bad.right
    assert (bad.case.desired, bad.case.comment) == (None, NO)
    unread = verdict(run, False, words=False)
    assert isinstance(unread, Unreadable) and unread.why == COMMENT_ALONE


@pytest.mark.parametrize(("task", "text", "right"), [("edit", "Yes", True), ("tag", "no", False)])
def test_yes_and_no_are_the_answers_about_edits_and_tags(
    run: Path, task: str, text: str, right: bool
) -> None:
    with RunStore.read(run) as store:
        row = store.row("q1", 0)
    assert row is not None
    assert answer_from(text, task, row.options) is right
    with pytest.raises(UsageError, match="expected yes or no"):
        answer_from("perhaps", task, row.options)


BETTER = "def execute_command(image):\n    return 'violet'"


@pytest.mark.parametrize("accepted", ["yes", "no"])
def test_a_comment_alone_teaches_what_the_language_model_accepts(
    run: Path, tmp_path: Path, accepted: str
) -> None:
    add_feedback(run, Feedback("q1", comment="look at the light"))
    critic = ScriptedLLM(["no", "location: program\nreason: it guesses", accepted, accepted])
    with Bench([BETTER, BETTER]) as bench, closing(DemonstrationPool(tmp_path / "pool")) as pool:
        learner = Learner(None, [LanguageReflector(critic)], pool)
        learned = LearnedRemarks(tmp_path / "learned")
        options = RunOptions(trials=1, self_tune=False, examples=0)
        learning = FeedbackLearning(run, bench.reasoner, options, learner, learned)
        learning.run(threading.Event())
        kept = [(one.example.polarity, one.example.critique) for one in pool.items()]
    (record,) = Journal(run).records()
    assert all("A person says: look at the light" in call.prompt for call in critic.calls)
    assert f"The earlier result: {answered(1)}" in critic.calls[0].prompt
    if accepted == "yes":
        assert sorted(kept) == [("correct", None), ("incorrect", "it guesses")]
        assert (record.score, record.score_after, record.refused) == (0.0, 1.0, 0)
    else:
        assert kept == [] and (record.score_after, record.refused) == (0.0, 1)


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


def test_the_command_says_what_learns_from_a_comment_alone(run: Path, capsys: Capture) -> None:
    given = ("learn", "feedback", str(run), "q1", "--comment", "it should be green")
    code, out, err = viper(capsys, *given)
    assert (code, out) == (0, "") and "a comment alone" in err and "--reflector llm" in err
    code, out, _ = viper(capsys, "learn", "feedback", str(run))
    assert code == 0 and "it should be green" in out
    code, _, err = viper(capsys, *given, "--answer", "red")
    assert code == 0 and "a comment alone" not in err
