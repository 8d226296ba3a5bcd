"""Every set in its official layout: samples, splits, checks."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.data import miniature
from viper.data.registry import data_set
from viper.data.sample import DatasetSpec, Sample
from viper.errors import DataError, UnknownNameError
from viper.models.media import media_from

Read = Callable[..., list[Sample]]


def nlvr_zipped(root: Path) -> Path:
    return miniature.nlvr(root, unpacked=False)


BUILDERS: dict[str, Callable[[Path], Path]] = {
    "refcoco": miniature.refcoco,
    "refcoco+": lambda root: miniature.refcoco(root, "refcoco+"),
    "refcocog": lambda root: miniature.refcoco(root, "refcocog", "umd"),
    "gqa": miniature.gqa,
    "okvqa": miniature.okvqa,
    "infoseek": miniature.infoseek,
    "nextqa": miniature.nextqa,
    "nlvr": nlvr_zipped,
    "nlvr2": miniature.nlvr2,
    "vstar": miniature.vstar,
    "coco": miniature.coco,
    "everyday": miniature.everyday,
    "receipts": miniature.receipts,
}


@pytest.mark.parametrize("name", BUILDERS)
def test_a_complete_set_is_complete_and_can_be_pickled(name: str, tmp_path: Path) -> None:
    root = BUILDERS[name](tmp_path)
    findings = data_set(name).check(DatasetSpec(root))
    assert findings and all(finding.ok for finding in findings), findings
    samples = data_set(name).samples(DatasetSpec(root))
    again = pickle.loads(pickle.dumps(samples))
    assert again == samples
    assert len({sample.sample_id for sample in samples}) == len(samples) > 0
    if samples[0].media != "video":
        assert media_from(again[0].load()).kind == samples[0].media


@pytest.mark.parametrize("name", BUILDERS)
def test_an_empty_folder_lacks_files_that_come_from_somewhere(name: str, tmp_path: Path) -> None:
    findings = data_set(name).check(DatasetSpec(tmp_path))
    missing = [finding for finding in findings if not finding.ok]
    assert missing and all("it comes from https://" in finding.says for finding in missing)
    with pytest.raises(DataError, match="no such file; it comes from https://"):
        data_set(name).samples(DatasetSpec(tmp_path))


@pytest.mark.parametrize("name", BUILDERS)
def test_root_and_split_are_checked(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="--root DIR"):
        data_set(name).samples(DatasetSpec())
    with pytest.raises(DataError, match="no such folder"):
        data_set(name).samples(DatasetSpec(tmp_path / "absent"))
    with pytest.raises(UnknownNameError, match="split of .*'tset'; known: "):
        data_set(name).samples(DatasetSpec(tmp_path, "tset"))


@pytest.mark.parametrize("name", sorted(set(BUILDERS) - {"nextqa"}))
def test_missing_pictures_are_counted_and_named(name: str, tmp_path: Path) -> None:
    root = BUILDERS[name](tmp_path)
    for path in [*root.rglob("*.png"), *root.rglob("*.jpg"), *root.rglob("*.zip")]:
        path.unlink()
    (last,) = [finding for finding in data_set(name).check(DatasetSpec(root)) if not finding.ok]
    assert last.what == "media" and "are missing (" in last.says and "https://" in last.says


def test_refcoco(tmp_path: Path, read: Read) -> None:
    root = miniature.refcoco(tmp_path)
    first, second = read("refcoco", root)
    assert (first.sample_id, second.sample_id) == ("1-10", "1-11")
    assert (first.text, second.text) == ("man on left", "caf\u00e9 guy")
    assert first.target == (1.5, 2.0, 11.5, 22.25) and first.task == "ground"
    assert first.groups == {"category": "person"} and first.cluster == "5"
    folder = "images/mscoco/images/train2014"
    assert first.files == (f"{folder}/COCO_train2014_000000000005.jpg",)
    assert [s.text for s in read("refcoco", root, "testA")] == ["dog 12"]
    assert [s.text for s in read("refcoco", root, "test")] == ["dog 12", "dog 13"]
    assert read("refcoco", root / "refcoco") == read("refcoco", root)
    with pytest.raises(DataError, match="holds no samples of this split"):
        read("refcoco", root, "train")
    with pytest.raises(DataError, match=r"refs\(google\).p: no such file"):
        read("refcoco", root, "google:val")
    miniature.refcoco(tmp_path, "refcoco", "google")
    assert read("refcoco", root, "google:val") == read("refcoco", root, "val")


def test_gqa(tmp_path: Path, read: Read) -> None:
    root = miniature.gqa(tmp_path)
    first, second = read("gqa", root)
    assert (first.sample_id, first.target, first.cluster) == ("20", "red", "n5")
    assert first.groups == {"structural": "query", "semantic": "attr", "detailed": "color"}
    assert second.files == ("images/77.jpg",)
    parts = root / "train_all_questions"
    for number, (key, question) in enumerate(miniature.gqa_questions().items()):
        miniature.write_json(parts / f"train_all_questions_{number}.json", {key: question})
    assert [sample.sample_id for sample in read("gqa", root, "train_all")] == ["20", "9"]


def test_okvqa(tmp_path: Path, read: Read) -> None:
    (sample,) = read("okvqa", miniature.okvqa(tmp_path))
    assert sample.target == ("tennis",) * 10 and sample.sample_id == "31"
    assert sample.groups == {"question_type": "Sports and Recreation"}
    assert sample.files == ("val2014/COCO_val2014_000000000009.jpg",)


def test_vstar(tmp_path: Path, read: Read) -> None:
    first, second = read("vstar", miniature.vstar(tmp_path))
    assert first.text == "What is the material of the glove?" and first.task == "choice"
    assert first.options == ("rubber", "cotton", "kevlar", "leather") and first.target == 0
    assert first.sample_id == "direct_attributes/sa_0"
    assert second.options == ("right", "left") and second.target == 1
    assert second.groups == {"category": "relative_position"}
    assert second.files == ("relative_position/sa_1.jpg",)


def test_infoseek(tmp_path: Path, read: Read) -> None:
    root = miniature.infoseek(tmp_path)
    first, second = read("infoseek", root)
    assert first.target == {"kind": "string", "answers": ["John Smith", "J. Smith"]}
    assert first.groups == {"question_type": "string", "split": "unseen_question"}
    assert second.target == {"kind": "numerical", "range": [108.0, 132.0]}
    assert second.groups["split"] == "unseen_entity" and second.cluster == "oven_04925662"
    assert second.files == ("images/04/oven_04925662.jpg",)
    (root / "infoseek_val_qtype.jsonl").unlink()
    assert [one.target["kind"] for one in read("infoseek", root)] == ["string", "numerical"]
    assert (
        data_set("infoseek").check(DatasetSpec(root))[1].says.startswith("missing; it comes from")
    )


def test_nextqa(tmp_path: Path, read: Read) -> None:
    root = miniature.nextqa(tmp_path)
    first, second, third = read("nextqa", root)
    assert (first.sample_id, first.target, first.cluster) == ("111_6", 0, "111")
    assert first.options[4] == "option 4" and first.files == ("videos/0101/111.mp4",)
    assert second.groups == {"type": "TP", "group": "T"}
    (root / "map_vid_vidorID.json").unlink()
    (root / "videos/222.mp4").write_bytes(b"video")
    assert read("nextqa", root)[2].files == ("videos/222.mp4",)
    assert data_set("nextqa").check(DatasetSpec(root))[0].says.startswith("absent")


def test_the_hard_part_of_nextqa(tmp_path: Path, read: Read, refused: Any) -> None:
    root = miniature.nextqa(tmp_path)
    assert "atp-hard-ct4.txt: no such file" in refused("nextqa", root, "val:hard")
    listed = root / "atp-hard-ct4.txt"
    listed.write_text("2\n0\n", encoding="utf-8")
    assert [s.sample_id for s in read("nextqa", root, "val:hard")] == ["111_6", "222_0"]
    listed.write_text("111_7\n", encoding="utf-8")
    assert [s.sample_id for s in read("nextqa", root, "val:hard")] == ["111_7"]
    listed.write_text("111_7\n3\n", encoding="utf-8")
    assert ":2: is '3'; expected a row number" in refused("nextqa", root, "val:hard")


@pytest.mark.parametrize("unpacked", [True, False])
def test_nlvr(tmp_path: Path, read: Read, unpacked: bool) -> None:
    samples = read("nlvr", miniature.nlvr(tmp_path, unpacked=unpacked))
    assert len(samples) == 12 and len({sample.cluster for sample in samples}) == 1
    assert [s.target for s in samples] == [True] * 6 + [False] * 6
    assert samples[7].sample_id == "dev-15-1-1"
    assert samples[7].files == ("dev/images/2/dev-15-1-1.png",)
    assert samples[7].groups == {"example": "15-1"} and samples[7].task == "statement"
    assert media_from(samples[7].load()).images[0].shape == (30, 40, 3)


@pytest.mark.parametrize("unpacked", [True, False])
def test_the_hidden_split_of_nlvr(tmp_path: Path, read: Read, unpacked: bool) -> None:
    samples = read("nlvr", miniature.nlvr(tmp_path, unpacked=unpacked, split="hidden"), "hidden")
    assert [s.target for s in samples] == [True] * 6 + [False] * 6
    assert samples[7].sample_id == "hidden-15-1-1"
    assert samples[7].files == ("hidden/images/2/hidden-15-1-1.png",)
    assert media_from(samples[7].load()).images[0].shape == (30, 40, 3)


def test_nlvr2(tmp_path: Path, read: Read) -> None:
    root = miniature.nlvr2(tmp_path)
    first, second = read("nlvr2", root)
    assert first.sample_id == "dev-8-0-1" and first.target is True
    assert first.cluster == second.cluster == "dev-8--1"
    assert first.files == ("dev/dev-8-0-img0.png", "dev/dev-8-0-img1.png")
    lines = copy.deepcopy(first), {"identifier": "train-1-0-0", "sentence": "x", "label": "False"}
    miniature.write_lines(root / "train.json", [{**lines[1], "directory": 3}])
    assert read("nlvr2", root, "train")[0].files[0] == "train/3/train-1-0-img0.png"


def test_the_real_nlvr(public: Callable[[str], Path], read: Read) -> None:
    samples = read("nlvr", public("nlvr"))
    assert len(samples) == 5934 and len({s.groups["example"] for s in samples}) == 989
    assert len({sample.cluster for sample in samples}) == 267
    assert samples[0].load().shape == (100, 400, 3)
    assert all(finding.ok for finding in data_set("nlvr").check(DatasetSpec(public("nlvr"))))


def test_the_real_nlvr2(public: Callable[[str], Path], tmp_path: Path, read: Read) -> None:
    (tmp_path / "dev.json").symlink_to(next(public("nlvr2").glob("dev*.json*")))
    samples = read("nlvr2", tmp_path)
    assert len(samples) == 300 and samples[0].sample_id == "dev-850-0-0"
    assert samples[0].cluster == samples[1].cluster == "dev-850--0" and not samples[0].target


def test_the_real_nextqa(public: Callable[[str], Path], read: Read) -> None:
    samples = read("nextqa", public("nextqa"))
    assert len(samples) == 4996 and samples[0].sample_id == "4010069381_6"
    assert samples[0].target == 0 and samples[0].options[0] == "roll the handle"
    groups = [sample.groups["group"] for sample in samples]
    assert {group: groups.count(group) for group in "CTD"} == {"C": 2607, "T": 1612, "D": 777}
    findings = data_set("nextqa").check(DatasetSpec(public("nextqa")))
    (media,) = [finding for finding in findings if not finding.ok]
    assert media.says.startswith("570 of 570 are missing (videos/1106/4010069381.mp4")
