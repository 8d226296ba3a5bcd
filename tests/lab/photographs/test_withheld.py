"""What part ``questions`` asks, how it counts, and the questions and replies that it ships."""

from __future__ import annotations

import ast
import dataclasses
import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tests.evaluate.official import real
from tests.strategies.bench import Bench
from viper.api.sets import api_set
from viper.data.sample import Sample
from viper.data.source import SourceFile
from viper.errors import UsageError
from viper.models.domain import Domain
from viper_lab.datasets.everyday import EVERYDAY
from viper_lab.papers.result import Claim
from viper_lab.photographs import withheld
from viper_lab.photographs.job import PhotographJob
from viper_lab.photographs.withheld import Outcome, Reply

NONE = Reply("which colour has the cube?", "none", "premise", "p")
DETECTOR = Reply("how many cubes?", "detector", program="p")

COUNT = "def execute_command(image):\n    return len(ImagePatch(image).find('cube'))\n"
GUESS = "def execute_command(image):\n    return (ImagePatch(image).find('dog') or ['red'])[0]\n"
FAILS = "def execute_command(image):\n    return ImagePatch(image).find('dog')[0]\n"


def sample(number: int = 0, text: str = "how many cubes?") -> Sample:
    picture = np.full((60, 100, 3), 128, np.uint8)
    return Sample(str(number), text, "question", "image", ("2",), lambda: picture, cluster="a.jpg")


def claims(reply: Reply, doubted: int, of: int) -> list[Claim]:
    asked = [(dataclasses.replace(sample(), cluster=str(number)), reply) for number in range(of)]
    outcomes = [Outcome("0", "p", doubts=("guessed",) if n < doubted else ()) for n in range(of)]
    return list(withheld.judged(asked, outcomes).claims)


# the questions and the replies


def own_questions(root: Path) -> list[Sample]:
    return list(EVERYDAY.read([SourceFile(root, str(withheld.QUESTIONS))], "all"))


def test_there_are_sixty_of_either_side_and_every_one_has_a_reply(tmp_path: Path) -> None:
    samples, replies = (
        own_questions(tmp_path),
        {each.query: each for each in withheld.read_replies()},
    )
    assert len({each.sample_id for each in samples}) == len(samples)
    count = Counter(replies[each.text].answerable_by for each in samples)
    assert count["none"] >= 60 and count["detector"] >= 60 and len(count) == 2
    kinds = {each.text: each.groups["query_type"] == "unanswerable" for each in samples}
    assert all(kinds[text] == bool(replies[text].why) for text in kinds)
    premises = sum(replies[each.text].why == "premise" for each in samples)
    assert premises >= count["none"] * 0.3


def test_a_text_has_one_reply() -> None:
    queries = [reply.query for reply in withheld.read_replies()]
    assert len(set(queries)) == len(queries)


def test_programs_call_what_the_profile_lists() -> None:
    listed = {entry.name for entry in api_set("abstract+more+photo").entries("question")}
    listed |= {"lines", "ImagePatch", "min", "max", "len", "all", "any", "bool", "sorted", "sort"}
    for reply in withheld.read_replies():
        calls = {
            each.func for each in ast.walk(ast.parse(reply.program)) if isinstance(each, ast.Call)
        }
        names = {each.id if isinstance(each, ast.Name) else cast(Any, each).attr for each in calls}
        assert names <= listed | {"join"}, reply.query
        assert not reply.program or reply.answerable_by in ("none", "detector", "partly")


# asking


def test_an_answer_with_its_warnings_and_a_failure_with_its_kind() -> None:
    parts = Bench([]).reasoner.components
    right = withheld.outcome_of(parts, sample(), COUNT)
    assert (right.answer, right.right, right.doubts) == ("2", True, ())
    assert withheld.outcome_of(parts, sample(text="which color?"), GUESS).doubts == ("guessed",)
    failed = withheld.outcome_of(parts, sample(), FAILS)
    assert failed.answer == "" and not failed.right and len(failed.doubts) == 1


def test_without_a_program_unknown_words_decide(tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("how many")
    components = Bench([], parts={"domain": Domain("cubes", words)}).reasoner.components
    assert withheld.outcome_of(components, sample(text="how many"), "").doubts == ()
    assert withheld.outcome_of(components, sample(), "").doubts == ("unknown_words",)


def test_stored_outcomes_are_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def outcome_of(components: Any, each: Sample, program: str) -> Outcome:
        asked.append(program)
        return Outcome(each.sample_id, program)

    components = SimpleNamespace(close=lambda: None)
    profile = SimpleNamespace(document="first", components=lambda: components)
    job = cast(PhotographJob, SimpleNamespace(out=tmp_path, profile=lambda: profile))
    monkeypatch.setattr(withheld, "outcome_of", outcome_of)
    for _ in range(2):
        assert [each.program for each in withheld.answered(job, [(sample(), DETECTOR)])] == ["p"]
    assert asked == ["p"]
    profile.document = "second"
    withheld.answered(job, [(sample(), DETECTOR)])
    assert asked == ["p", "p"]


def test_questions_of_other_photographs_are_judged_by_their_own_file(tmp_path: Path) -> None:
    images = tmp_path / "photos" / "more" / "images"
    images.mkdir(parents=True)
    rows: list[dict[str, Any]] = [
        {"id": "1", "kind": "count", "query": "how many people", "accept": ["2"]},
        {"id": "2", "kind": "count", "query": "never seen", "accept": ["2"]},
        {"id": "3", "kind": "what", "query": "never heard", "accept": [], "unanswerable": True},
    ]
    lines = [json.dumps({"media": "a.jpg", **row}) for row in rows]
    (tmp_path / "photos" / "everyday.jsonl").write_text("\n".join(lines))
    asked = list(withheld.questions(PhotographJob(tmp_path, tmp_path)))
    assert [(each.sample_id, reply.why) for each, reply in asked] == [("1", ""), ("3", "words")]
    assert asked[0][1].program and not asked[1][1].program


# judging


@pytest.mark.parametrize(("doubted", "holds"), [(95, True), (94, False)])
def test_95_of_100_that_nothing_answers_must_be_doubted(doubted: int, holds: bool) -> None:
    assert claims(NONE, doubted, 100)[0].holds is holds


@pytest.mark.parametrize(("doubted", "holds"), [(10, True), (11, False)])
def test_10_of_100_that_the_detector_answers_may_be_doubted(doubted: int, holds: bool) -> None:
    assert claims(DETECTOR, doubted, 100)[1].holds is holds


def test_a_program_that_breaks_has_not_been_held_back() -> None:
    broken = [Outcome(str(number), "p", doubts=("runtime",)) for number in range(70)]
    told = [Outcome("0", "p", doubts=("runtime", "unknown_words"))]
    asked = [(sample(number), NONE) for number in range(70)]
    assert withheld.judged(asked, broken).claims[0].holds is False
    assert "1.4 %" in withheld.judged(asked, told + broken[1:]).claims[0].reason
    asked = [(each, DETECTOR) for each, _ in asked]
    assert withheld.judged(asked, broken).claims[1].holds is False


def test_69_questions_decide_nothing() -> None:
    assert claims(NONE, 69, 69)[0].holds is None
    assert claims(DETECTOR, 0, 69)[1].holds is None


def test_answers_that_nobody_doubts_are_counted_right_or_wrong() -> None:
    outcomes = [
        Outcome("0", "p", "2", True),
        Outcome("1", "p", "3"),
        Outcome("2", "p", "", doubts=("x",)),
    ]
    asked = [(sample(number), DETECTOR) for number in range(3)]
    rows = {row.family: row for row in withheld.judged(asked, outcomes).rows}
    assert rows["right of those undoubted"].figure.mean == 0.5
    assert rows["withheld or warned"].note.endswith("1 x")


# the data


def test_real_questions_have_their_pictures_and_replies() -> None:
    data = real("photos/coco128").parents[1]
    asked = list(withheld.questions(PhotographJob(data, data)))
    assert all(reply.program for _, reply in asked)
    assert all(path.is_file() for each, _ in asked for path in each.load())
    count = Counter(reply.answerable_by for _, reply in asked)
    assert count["none"] >= 70 and count["detector"] >= 70


def test_the_detector_of_the_data_becomes_that_of_the_profile(tmp_path: Path) -> None:
    data = real("models").parent
    profile = PhotographJob(data, tmp_path).profile()
    model = Path(str(profile.document.roles["detector"].model))
    assert model.resolve() == PhotographJob(data, tmp_path).detector().resolve()
    assert model.with_suffix(".toml").is_file()
    assert PhotographJob(data, tmp_path).profile().document == profile.document


def test_a_folder_without_photographs_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder photos"):
        list(withheld.questions(PhotographJob(tmp_path, tmp_path)))
