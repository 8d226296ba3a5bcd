"""A user's own CSV or JSON lines: every task, and one line for every line that is off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.data import miniature
from viper.data.own import OwnFile
from viper.data.registry import data_set
from viper.data.sample import DatasetSpec, Sample
from viper.errors import DataError, UnknownNameError
from viper.models.media import media_from

BOX = [1, 2, 30, 20]

RECORDS: list[dict[str, Any]] = [
    {"media": "a.png", "query": "the cup", "answer": BOX, "task": "ground", "id": "cup"},
    {"media": "a.png", "query": "what color?", "answer": "red"},
    {"media": "a.png", "query": "how many?", "answer": 2},
    {"media": "a.png", "query": "what is it?", "answer": ["a cup", "a mug"]},
    {"media": "a.png", "query": "which?", "answer": "cup", "options": ["dog", "cup"]},
    {"media": "a.png", "query": "which?", "answer": 0, "options": "dog; cup"},
    {"media": ["a.png", "b.png"], "query": "same?", "answer": True, "task": "statement"},
    {"media": "a.png", "query": "tag it", "answer": [{"label": "cup", "box": BOX}], "task": "tag"},
    {"media": "a.png", "query": "blur it", "task": "edit"},
    {"media": "a.png", "query": "blur it", "task": "edit", "answer": "b.png"},
    {"media": "clip.mp4", "query": "what happens?", "answer": "it falls"},
]

TARGETS = [
    (1.0, 2.0, 30.0, 20.0),
    "red",
    "2",
    ("a cup", "a mug"),
    1,
    0,
    True,
    (("cup", (1.0, 2.0, 30.0, 20.0)),),
    None,
    "b.png",
    "it falls",
]

CSV = """media,query,answer,options,task,id
a.png,the cup,"[1, 2, 30, 20]",,ground,cup
a.png,what color?,red,,,
a.png,how many?,2,,,
a.png,what is it?,"[""a cup"", ""a mug""]",,,
a.png,which?,cup,dog; cup,,
a.png,which?,0,dog; cup,,
a.png; b.png,same?,True,,statement,
a.png,tag it,"[{""label"": ""cup"", ""box"": [1, 2, 30, 20]}]",,tag,
a.png,blur it,,,edit,
a.png,blur it,b.png,,edit,
clip.mp4,what happens?,it falls,,,
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    miniature.picture(tmp_path / "a.png")
    miniature.picture(tmp_path / "b.png")
    (tmp_path / "clip.mp4").write_bytes(b"video")
    return tmp_path


def samples_of(folder: Path, text: str, name: str = "own.jsonl") -> list[Sample]:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    found = data_set(str(path))
    assert isinstance(found, OwnFile)
    return list(found.samples(DatasetSpec()))


@pytest.mark.parametrize("name", ["own.jsonl", "own.csv"])
def test_every_task(folder: Path, name: str) -> None:
    lines = "".join(json.dumps(record) + "\n" for record in RECORDS)
    samples = samples_of(folder, lines if name == "own.jsonl" else CSV, name)
    targets = [
        Path(sample.target).name if sample.task == "edit" and sample.target else sample.target
        for sample in samples
    ]
    assert targets == TARGETS
    tasks = ["ground", *["question"] * 3, "choice", "choice", "statement", "tag", "edit", "edit"]
    assert [sample.task for sample in samples] == [*tasks, "question"]
    first_line = 1 if name == "own.jsonl" else 2
    assert [s.sample_id for s in samples[:2]] == ["cup", str(first_line + 1)]
    assert [sample.media for sample in samples[5:7]] == ["image", "images"]
    assert samples[-1].media == "video"
    assert len(media_from(samples[6].load()).images) == 2
    assert samples[9].files == ("a.png", "b.png") and samples[9].target == str(folder / "b.png")
    assert samples[4].query.options == ("dog", "cup")
    findings = data_set(str(folder / name)).check(DatasetSpec())
    assert all(finding.ok for finding in findings), findings


def test_root_is_where_media_are_looked_up(folder: Path, tmp_path: Path) -> None:
    miniature.picture(tmp_path / "elsewhere/c.png")
    path = folder / "own.csv"
    path.write_text("media,query,answer\nc.png,what?,x\n", encoding="utf-8")
    (sample,) = data_set(str(path)).samples(DatasetSpec(tmp_path / "elsewhere"))
    assert media_from(sample.load()).images[0].shape == (30, 40, 3)
    media = data_set(str(path)).check(DatasetSpec())[-1]
    assert not media.ok and media.says == "1 of 1 are missing (c.png)"


GOOD = {"media": "a.png", "query": "the cup", "answer": "x"}

WRONG: list[tuple[Any, str]] = [
    ([], "is []; expected an object"),
    ({"query": "x"}, "has no 'media'"),
    ({"media": "a.png"}, "has no 'query'"),
    ({**GOOD, "media": "/etc/passwd"}, "'media' names '/etc/passwd'"),
    ({**GOOD, "media": "../a.png"}, "'media' names '../a.png'"),
    ({**GOOD, "media": ["a.png", 3]}, "'media' is"),
    ({**GOOD, "media": []}, "'media' is []"),
    ({**GOOD, "media": ["a.mp4", "a.png"]}, "expected one video alone, or pictures"),
    ({**GOOD, "query": ""}, "'query' is ''"),
    ({**GOOD, "query": "\ud800"}, "'query' is"),
    ({**GOOD, "task": "guess"}, "'task' is 'guess'; expected one of ground, question"),
    ({**GOOD, "task": "ground"}, "'answer' is 'x'; expected [x0, y0, x1, y1]"),
    ({**GOOD, "task": "ground", "answer": [9, 9, 1, 1]}, "x0 < x1"),
    ({**GOOD, "task": "ground", "answer": ["1", 2, 3, 4]}, "expected [x0, y0, x1, y1]"),
    ({**GOOD, "task": "statement"}, "expected true or false"),
    ({**GOOD, "task": "choice"}, "has no 'options'"),
    ({**GOOD, "options": "a; b"}, "'answer' is 'x'; expected one of the options"),
    ({**GOOD, "options": "a; b", "answer": 2}, "an index from 0 to 1"),
    ({**GOOD, "options": "a; b", "answer": True}, "an index from 0 to 1"),
    ({**GOOD, "options": "a"}, "two options or more"),
    ({**GOOD, "options": "a; b", "task": "question"}, "none with others"),
    ({**GOOD, "answer": {}}, "'answer' is {}"),
    ({**GOOD, "answer": []}, "'answer' is []"),
    ({**GOOD, "answer": None}, "has no 'answer'"),
    ({**GOOD, "task": "tag", "answer": [{"label": "x"}]}, "answer[0]: has no 'box'"),
    ({**GOOD, "task": "edit", "answer": "../x.png"}, "'answer' names"),
    ({**GOOD, "anwser": "x"}, "has an unknown column 'anwser'"),
]


@pytest.mark.parametrize("record, says", WRONG, ids=lambda value: str(value)[:40])
def test_a_line_that_is_off(folder: Path, record: Any, says: str) -> None:
    with pytest.raises(DataError) as raised:
        samples_of(folder, json.dumps(GOOD) + "\n" + json.dumps(record) + "\n")
    said = str(raised.value)
    assert said.startswith(f"{folder / 'own.jsonl'}:2") and says in said and "\n" not in said


def test_every_wrong_line_is_a_finding(folder: Path) -> None:
    lines = [json.dumps(GOOD), '{"media": "a.p', json.dumps({**GOOD, "query": 3}), "{}"]
    with pytest.raises(DataError, match=r":2: is no JSON.*\(3 such lines: viper data check"):
        samples_of(folder, "\n".join(lines))
    findings = data_set(str(folder / "own.jsonl")).check(DatasetSpec())
    wrong = [finding for finding in findings if finding.what == "line"]
    assert [finding.says.split("jsonl:")[1][0] for finding in wrong] == ["2", "3", "4"]


@pytest.mark.parametrize(
    "text, says",
    [
        ("query,answer\nx,y\n", ":1: the header is"),
        ("media,query,answer\na.png,a, b,x\n", "more fields than the header"),
        ('media,query,answer,task\na.png,a,"[1, 2",ground\n', "expected JSON"),
        ("media,query,answer\na.png,,x\n", "has no 'query'"),
        ("media,query,answer,id\na.png,q,x,1\na.png,q,x,1\n", "two samples '1'"),
        ("", "the header is"),
        ("media,query,answer\n", "holds no samples"),
    ],
)
def test_tables_that_are_off(folder: Path, text: str, says: str) -> None:
    with pytest.raises(DataError) as raised:
        samples_of(folder, text, "own.csv")
    assert says in str(raised.value) and "\n" not in str(raised.value)


def test_an_absent_file_and_an_unknown_split(folder: Path) -> None:
    absent = data_set(str(folder / "absent.csv"))
    with pytest.raises(DataError, match="no such file; check the path"):
        absent.samples(DatasetSpec())
    assert not absent.check(DatasetSpec())[0].ok
    with pytest.raises(UnknownNameError):
        absent.samples(DatasetSpec(split="val"))
