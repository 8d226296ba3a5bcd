"""The embedded world's own tasks as data sets."""

from __future__ import annotations

import json
import pickle

import pytest

from viper.cli import main
from viper.data.registry import data_set, samples_by_id
from viper.data.sample import DataSet, DatasetSpec, EditTarget, Sample
from viper.errors import UnknownNameError
from viper.evaluate.metrics import metric
from viper.models.media import media_from

NAMES = ("world-pairs", "world-tag", "world-edit", "world-reserved")


def drawn(name: str, split: str | None, limit: int, seed: int = 0) -> list[Sample]:
    return list(data_set(name).samples(DatasetSpec(None, split, seed, limit)))


@pytest.mark.parametrize("name", NAMES)
def test_what_every_set_says_of_itself(name: str) -> None:
    found = data_set(name)
    assert isinstance(found, DataSet) and found.name == name
    assert found.splits[:3] == ("val", "train", "test")
    assert "test:pyramid" in found.splits and "embedded world" in found.summary
    assert metric(found.metric).name == found.metric
    assert found.check(DatasetSpec())[0].ok
    with pytest.raises(UnknownNameError, match="'val:cube'"):
        found.samples(DatasetSpec(None, "val:cube"))


def test_statements_come_with_two_pictures() -> None:
    one, two = drawn("world-pairs", None, 2)
    assert one.sample_id == "pairs-val-0-known-0" and one.task == "statement"
    assert isinstance(one.target, bool) and one.media == "images"
    assert len(one.files) == 2 and one.cluster == "+".join(one.files) != two.cluster
    again = pickle.loads(pickle.dumps(one))
    assert [picture.shape for picture in media_from(again.load()).images] == [(144, 192, 3)] * 2


def test_tags_are_labels_with_boxes() -> None:
    (one,) = drawn("world-tag", "val:striped", 1)
    assert one.task == "tag" and one.groups["concept"] == "striped"
    label, (x0, y0, x1, y1) = one.target[0]
    assert label and 0 <= x0 < x1 <= 192 and 0 <= y0 < y1 <= 144


def test_edits_say_what_must_stand_there() -> None:
    (one,) = drawn("world-edit", "train:reserved", 1)
    assert one.task == "edit" and isinstance(one.target, EditTarget)
    assert one.target.old in one.text or f"{one.target.old}s" in one.text
    assert "counts" not in repr(one.target)


def test_half_is_about_the_new() -> None:
    samples = drawn("world-reserved", None, 3)
    assert [s.sample_id.rsplit("-", 2)[1] for s in samples] == ["new", "new", "old"]
    assert samples[:1] == drawn("world-reserved", "val:new", 1)
    found = samples_by_id(
        "world-reserved", DatasetSpec(), [samples[2].sample_id, "reserved-val-0-x-0"]
    )
    assert list(found.values()) == samples[2:]


def test_the_commands_know_them(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["data", "show", "world-edit", "--limit", "1", "--json"])
    assert ended.value.code == 0
    row = json.loads(capsys.readouterr().out)
    assert row["task"] == "edit" and row["target"]["outlines"][0]["size"] == [144, 192]


def test_knowledge_questions_are_those_that_are_written(tmp_path) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(
            ["lab", "world", "knowledge", str(tmp_path / "lore"), "--seed", "3", "--questions", "9"]
        )
    written = [json.loads(line) for line in (tmp_path / "lore/questions.jsonl").open()]
    found = drawn("world-knowledge", None, 9, seed=3)
    assert [(one.sample_id, one.text, one.target) for one in found] == [
        (one["id"], one["text"], one["answer"]) for one in written
    ]
    again = pickle.loads(pickle.dumps(found[0]))
    shown = media_from(again.load()).images[0]
    first = media_from(tmp_path / "lore" / written[0]["image"]).images[0]
    assert shown.shape == (144, 192, 3) and (shown == first).all()
    assert found[0].groups.keys() == {"kind", "hops", "answerable", "look_alike"}
    assert drawn("world-knowledge", "val", 2, seed=3) == found[:2]


def test_knowledge_questions_say_what_must_be_indexed(capsys) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["data", "check", "world-knowledge"])
    assert "viper setup index text lore/texts.jsonl" in capsys.readouterr().out
