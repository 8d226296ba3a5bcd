"""Broken and hostile files of every set: one line with the file, what was seen, what to do."""

from __future__ import annotations

import json
import pickle
import re
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data import miniature
from viper.data.nlvr import MAX_MEMBER_BYTES, PngArchive
from viper.data.registry import data_set
from viper.data.sample import DatasetSpec, Sample
from viper.data.source import Record, SourceFile
from viper.errors import DataError, MediaError

Refused = Callable[..., str]

ANNOTATIONS = {
    "refcoco": (miniature.refcoco, "refcoco/instances.json"),
    "gqa": (miniature.gqa, "testdev_balanced_questions.json"),
    "okvqa": (miniature.okvqa, "mscoco_val2014_annotations.json"),
    "nlvr": (lambda root: miniature.nlvr(root, unpacked=True), "dev/dev.json"),
    "nlvr2": (miniature.nlvr2, "data/dev.json"),
    "nextqa": (miniature.nextqa, "map_vid_vidorID.json"),
    "vstar": (miniature.vstar, "test_questions.jsonl"),
    "coco": (miniature.coco, "instances.json"),
    "everyday": (miniature.everyday, "everyday.jsonl"),
    "receipts": (miniature.receipts, "001.json"),
}

NO_JSON = {
    "cut short": b'{"images": [{"id',
    "empty": b"",
    "not UTF-8": b'{"a": "\xff\xfe\xfa"}',
    "binary": bytes(range(256)),
    "deep": b"[" * 100_000,
    "a number of 5,000 digits": b'{"a": ' + b"9" * 5000 + b"}",
}

WRONG_TYPES = [[], "text", 3, None, True, {"images": 3}, [[]], [None], {"20": []}, {"20": {}}]


@pytest.mark.parametrize("name", ANNOTATIONS)
@pytest.mark.parametrize("content", NO_JSON)
def test_annotations_that_are_no_json(
    name: str, content: str, tmp_path: Path, refused: Refused
) -> None:
    build, file = ANNOTATIONS[name]
    (build(tmp_path) / file).write_bytes(NO_JSON[content])
    said = refused(name, tmp_path)
    assert file in said and "expected" in said and "get it again from https://" in said


@pytest.mark.parametrize("name", ANNOTATIONS)
@pytest.mark.parametrize("value", WRONG_TYPES, ids=json.dumps)
def test_annotations_of_another_shape(
    name: str, value: Any, tmp_path: Path, refused: Refused
) -> None:
    build, file = ANNOTATIONS[name]
    (build(tmp_path) / file).write_text(json.dumps(value), encoding="utf-8")
    if name == "nextqa" and value == {}:
        return
    assert "expected" in refused(name, tmp_path)


@pytest.mark.parametrize("name", ANNOTATIONS)
def test_a_folder_in_place_of_a_file(name: str, tmp_path: Path) -> None:
    build, file = ANNOTATIONS[name]
    (build(tmp_path) / file).unlink()
    (tmp_path / file).mkdir()
    if name != "nextqa":
        with pytest.raises(DataError, match="Is a directory; expected a file"):
            data_set(name).samples(DatasetSpec(tmp_path))
        assert not all(finding.ok for finding in data_set(name).check(DatasetSpec(tmp_path)))


def edited(value: Any, path: list[Any], new: Any) -> Any:
    """The value with one place of it replaced; ``...`` removes it."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    if new is ... and len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = edited(copy[path[0]], path[1:], new)
    return copy


REFS = [
    ([0, "ref_id"], "1"),
    ([0, "ref_id"], True),
    ([0, "ref_id"], 2**100),
    ([0, "ann_id"], 99),
    ([0, "image_id"], 99),
    ([0, "image_id"], ...),
    ([0, "split"], ...),
    ([0, "split"], b"val"),
    ([0, "sentences"], {}),
    ([0, "sentences"], ...),
    ([0, "sentences", 0], "man"),
    ([0, "sentences", 0, "sent"], ""),
    ([0, "sentences", 0, "sent"], 5),
    ([0, "sentences", 0, "sent"], "\ud800"),
    ([0, "sentences", 1, "sent_id"], 10),
    ([0], None),
]


@pytest.mark.parametrize("path, new", REFS, ids=str)
def test_refs_that_are_off(path: list[Any], new: Any, tmp_path: Path, refused: Refused) -> None:
    broken = edited(miniature.refs(), path, new)
    (miniature.refcoco(tmp_path) / "refcoco/refs(unc).p").write_bytes(pickle.dumps(broken, 2))
    said = refused("refcoco", tmp_path)
    assert "refs(unc).p" in said and "expected" in said


INSTANCES = [
    (["annotations", 0, "bbox"], [1, 2, 3]),
    (["annotations", 0, "bbox"], [1, 2, "3", 4]),
    (["annotations", 0, "bbox"], "1,2,3,4"),
    (["annotations", 0, "bbox"], [1, 2, 0, 4]),
    (["annotations", 0, "bbox"], [1, 2, 3, float("nan")]),
    (["annotations", 0, "bbox"], [1, 2, 3, float("inf")]),
    (["annotations", 0, "bbox"], [1, 2, 10**400, 3]),
    (["annotations", 0, "bbox"], [True, 2, 3, 4]),
    (["annotations", 0, "id"], ...),
    (["annotations"], ...),
    (["images", 0, "file_name"], "../../../etc/passwd"),
    (["images", 0, "file_name"], "/etc/passwd"),
    (["images", 0, "file_name"], "a/../../b.jpg"),
    (["images", 0, "file_name"], "C:\\secrets.jpg"),
    (["images", 0, "file_name"], "..\\b.jpg"),
    (["images", 0, "file_name"], "\\\\server\\share\\b.jpg"),
    (["images", 0, "file_name"], "a\0.jpg"),
    (["images", 0, "file_name"], "a" * 5000),
    (["images", 0, "file_name"], 5),
    (["categories", 0, "name"], None),
]


@pytest.mark.parametrize("path, new", INSTANCES, ids=lambda value: str(value)[:40])
def test_instances_that_are_off(
    path: list[Any], new: Any, tmp_path: Path, refused: Refused
) -> None:
    broken = edited(miniature.instances(), path, new)
    miniature.write_json(miniature.refcoco(tmp_path) / "refcoco/instances.json", broken)
    said = refused("refcoco", tmp_path)
    assert "instances.json" in said and "expected" in said


GQA = [
    (["20", "imageId"], "../../secret"),
    (["20", "imageId"], "/secret"),
    (["20", "imageId"], None),
    (["20", "answer"], ...),
    (["20", "answer"], 5),
    (["20", "question"], ...),
    (["20", "types"], ...),
    (["20", "types"], []),
    (["20", "types", "semantic"], 3),
]


@pytest.mark.parametrize("path, new", GQA, ids=str)
def test_gqa_that_is_off(path: list[Any], new: Any, tmp_path: Path, refused: Refused) -> None:
    broken = edited(miniature.gqa_questions(), path, new)
    miniature.write_json(miniature.gqa(tmp_path) / "testdev_balanced_questions.json", broken)
    said = refused("gqa", tmp_path)
    assert "question '20'" in said and repr(path[-1]) in said


OKVQA = [
    (["annotations", 0, "answers"], []),
    (["annotations", 0, "answers", 0, "answer"], 5),
    (["annotations", 0, "question_id"], 99),
    (["annotations", 0, "question_id"], "31"),
    (["annotations"], {}),
]


@pytest.mark.parametrize("path, new", OKVQA, ids=str)
def test_okvqa_that_is_off(path: list[Any], new: Any, tmp_path: Path, refused: Refused) -> None:
    broken = edited(miniature.okvqa_files()[1], path, new)
    miniature.write_json(miniature.okvqa(tmp_path) / "mscoco_val2014_annotations.json", broken)
    assert "expected" in refused("okvqa", tmp_path)


INFOSEEK = [
    ([0, "image_id"], "../../etc/passwd"),
    ([0, "image_id"], 5),
    ([0, "data_id"], None),
    ([0, "answer_eval"], [3]),
    ([0, "answer_eval"], []),
    ([1, "answer_eval"], ["120"]),
    ([1, "answer_eval", 0, "range"], [1]),
    ([1, "answer_eval", 0, "range"], ["a", "b"]),
    ([1, "data_id"], "infoseek_val_0"),
    ([0], []),
]


@pytest.mark.parametrize("path, new", INFOSEEK, ids=str)
def test_infoseek_that_is_off(path: list[Any], new: Any, tmp_path: Path, refused: Refused) -> None:
    broken = edited(miniature.infoseek_lines()[0], path, new)
    miniature.write_lines(miniature.infoseek(tmp_path) / "infoseek_val.jsonl", broken)
    assert "expected" in refused("infoseek", tmp_path)


NEXTQA = [
    ("answer", "5"),
    ("answer", "-1"),
    ("answer", "one"),
    ("answer", ""),
    ("answer", "\u0665\u0665"),
    ("qid", "x"),
    ("qid", "9" * 5000),
    ("type", "XX"),
    ("question", " "),
    ("a3", ""),
    ("video", "../../etc/passwd"),
    ("video", "/etc/passwd"),
    ("video", ""),
]


@pytest.mark.parametrize("key, value", NEXTQA, ids=lambda value: value[:20])
def test_nextqa_that_is_off(key: str, value: str, tmp_path: Path, refused: Refused) -> None:
    rows = miniature.nextqa_rows()
    rows[1][key] = value
    miniature.write_csv(miniature.nextqa(tmp_path) / "val.csv", rows)
    said = refused("nextqa", tmp_path)
    assert "val.csv:3: " in said and repr(key) in said


def test_nextqa_tables_that_are_off(tmp_path: Path, refused: Refused) -> None:
    table = miniature.nextqa(tmp_path) / "val.csv"
    good = table.read_text(encoding="utf-8")
    table.write_text(good.replace(",a4", ""), encoding="utf-8")
    assert "val.csv:1: the header is" in refused("nextqa", tmp_path)
    table.write_text(good.replace("option 4", "option, 4"), encoding="utf-8")
    assert "more fields than the header" in refused("nextqa", tmp_path)
    table.write_text(good.split("\n")[0] + "\n", encoding="utf-8")
    assert "holds no samples" in refused("nextqa", tmp_path)
    table.write_text(good + good.split("\n")[1] + "\n", encoding="utf-8")
    assert "two samples '111_6'" in refused("nextqa", tmp_path)
    table.write_text(good + "1" * 200_000, encoding="utf-8")
    assert "is no CSV" in refused("nextqa", tmp_path)
    table.write_bytes(b"\xff\xfe\xfa")
    assert "not UTF-8" in refused("nextqa", tmp_path)
    table.write_text(good, encoding="utf-8")
    miniature.write_json(tmp_path / "map_vid_vidorID.json", {"111": "../../x"})
    assert "names '../../x'" in refused("nextqa", tmp_path)


NLVR = [
    ("identifier", "15"),
    ("identifier", "../../x-0"),
    ("identifier", 15),
    ("identifier", "15-1"),
    ("directory", "../.."),
    ("directory", None),
    ("label", "maybe"),
    ("label", None),
    ("sentence", ...),
]


@pytest.mark.parametrize("key, value", NLVR, ids=str)
def test_nlvr_that_is_off(key: str, value: Any, tmp_path: Path, refused: Refused) -> None:
    lines = edited(miniature.nlvr_lines(), [0, key], value)
    miniature.write_lines(miniature.nlvr(tmp_path, unpacked=True) / "dev/dev.json", lines)
    said = refused("nlvr", tmp_path)
    assert "dev.json" in said and "expected" in said


@pytest.mark.parametrize("identifier", ["dev-8-0", "../x-1-0-0", "dev-a-0-0", 8])
def test_nlvr2_that_is_off(identifier: Any, tmp_path: Path, refused: Refused) -> None:
    line = {"identifier": identifier, "sentence": "x", "label": "True"}
    miniature.write_lines(miniature.nlvr2(tmp_path) / "data/dev.json", [line])
    assert "dev.json:1: 'identifier' is" in refused("nlvr2", tmp_path)


VSTAR = [
    ("image", "../../etc/passwd"),
    ("image", "relative_position/sa_1.jpg"),
    ("text", "What is the material of the glove?"),
    ("text", "What is it?\n(A) rubber"),
    ("text", "What is it?\n(A) rubber\n(B)"),
    ("text", "\n(A) rubber\n(B) cotton"),
    ("category", None),
    ("label", "E"),
    ("label", "AB"),
    ("label", "()"),
    ("label", ...),
]


@pytest.mark.parametrize("key, value", VSTAR, ids=str)
def test_vstar_that_is_off(key: str, value: Any, tmp_path: Path, refused: Refused) -> None:
    lines = edited(miniature.vstar_lines(), [0, key], value)
    miniature.write_lines(miniature.vstar(tmp_path) / "test_questions.jsonl", lines)
    said = refused("vstar", tmp_path)
    assert "test_questions.jsonl" in said and "expected" in said


def first_of_zip(root: Path) -> Sample:
    return data_set("nlvr").samples(DatasetSpec(root))[0]


def test_archives_that_are_off(tmp_path: Path) -> None:
    root = miniature.nlvr(tmp_path, unpacked=False)
    path = root / "dev/images.zip"
    whole = path.read_bytes()
    name = "images/2/dev-15-0-0.png"

    def rewritten(data: bytes, how: int = zipfile.ZIP_DEFLATED) -> None:
        with zipfile.ZipFile(path, "w", how) as archive:
            archive.writestr(name, data)

    def fails(match: str) -> None:
        with pytest.raises(MediaError, match=match):
            first_of_zip(root).load()

    rewritten(b"\0" * (MAX_MEMBER_BYTES + 1))
    fails("longer than 16,777,216 bytes")
    rewritten(b"not a picture")
    fails("is no picture")
    rewritten(miniature.png()[:60])
    fails("damaged or cut short")
    rewritten(b"%!PS-Adobe-3.0 EPSF-3.0")
    fails("is no picture")
    rewritten(miniature.png(), zipfile.ZIP_LZMA)
    fails("packed in a rare way")
    rewritten(huge_png())
    fails("pixels|no picture")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../" + name, miniature.png())
    fails("not in the archive")
    broken = bytearray(whole)
    broken[60:90] = b"\xff" * 30
    path.write_bytes(bytes(broken))
    fails("cannot be read|no picture")
    path.write_bytes(whole[:200])
    fails("cannot be read")
    (finding,) = data_set("nlvr").check(DatasetSpec(root))
    assert not finding.ok and "is no zip archive" in finding.says


def huge_png() -> bytes:
    """A PNG whose header claims 60,000 x 60,000 pixels."""
    data = bytearray(miniature.png())
    data[16:24] = (60_000).to_bytes(4, "big") * 2
    data[29:33] = zlib.crc32(bytes(data[12:29])).to_bytes(4, "big")
    return bytes(data)


def test_an_archive_opens_anew_in_each_process(tmp_path: Path) -> None:
    archive = PngArchive(miniature.nlvr(tmp_path, unpacked=False) / "dev/images.zip")
    assert len(archive.names()) == 12
    assert len(pickle.loads(pickle.dumps(archive)).names()) == 12


def test_a_box_of_numpy_floats_is_one_and_truth_values_are_none() -> None:
    source = SourceFile(Path("x"), "x")
    assert Record({"box": list(np.array([0.0, 1, 2, 3]))}, source, "").corner_box("box")
    with pytest.raises(DataError, match="'box' is"):
        Record({"box": [True, 1, 2, 3]}, source, "").corner_box("box")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("media", "../a.jpg"),
        ("accept", "yes"),
        ("accept", []),
        ("boxes", [[1, 2, 3]]),
        ("id", None),
    ],
)
def test_everyday_lines_that_are_off(
    key: str, value: Any, tmp_path: Path, refused: Refused
) -> None:
    lines = edited(miniature.everyday_lines(), [int(key == "boxes"), key], value)
    miniature.write_lines(miniature.everyday(tmp_path) / "everyday.jsonl", lines)
    said = refused("everyday", tmp_path)
    assert re.search("everyday.jsonl:[12]", said) and "expected" in said
