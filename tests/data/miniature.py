"""Official layouts in miniature, written into an empty folder."""

from __future__ import annotations

import csv
import json
import pickle
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

Writer = Any


def picture(path: Path, width: int = 40, height: int = 30) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((height, width, 3), 128, np.uint8)).save(path)


def png(width: int = 40, height: int = 30) -> bytes:
    out = BytesIO()
    Image.fromarray(np.full((height, width, 3), 128, np.uint8)).save(out, "PNG")
    return out.getvalue()


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def refs() -> list[dict[str, Any]]:
    sentences = [
        {"sent_id": 10, "sent": "man on left", "raw": "Man on left", "tokens": ["man"]},
        {"sent_id": 11, "sent": "caf\u00e9 guy", "raw": "caf\u00e9 guy", "tokens": ["guy"]},
    ]
    first = {"ref_id": 1, "ann_id": 7, "category_id": 1, "image_id": 5, "split": "val"}
    second = {"ref_id": 2, "ann_id": 8, "category_id": 2, "image_id": 5, "split": "testA"}
    third = {"ref_id": 3, "ann_id": 8, "category_id": 2, "image_id": 5, "split": "testB"}
    more = [{"sent_id": n, "sent": f"dog {n}", "raw": "", "tokens": []} for n in (12, 13)]
    name = "COCO_train2014_000000000005_7.jpg"
    return [
        {**first, "file_name": name, "sent_ids": [10, 11], "sentences": sentences},
        {**second, "file_name": name, "sent_ids": [12], "sentences": more[:1]},
        {**third, "file_name": name, "sent_ids": [13], "sentences": more[1:]},
    ]


def instances() -> dict[str, Any]:
    outline = [[1.0, 2.0, 3.0]]
    return {
        "images": [{"id": 5, "file_name": "COCO_train2014_000000000005.jpg", "width": 40}],
        "annotations": [
            {"id": 7, "image_id": 5, "bbox": [1.5, 2, 10, 20.25], "segmentation": outline},
            {"id": 8, "image_id": 5, "bbox": [3, 4, 5, 6], "segmentation": outline},
        ],
        "categories": [{"id": 1, "name": "person"}, {"id": 2, "name": "dog"}],
    }


def refcoco(root: Path, name: str = "refcoco", split_by: str = "unc") -> Path:
    write_json(root / name / "instances.json", instances())
    (root / name / f"refs({split_by}).p").write_bytes(pickle.dumps(refs(), protocol=2))
    picture(root / "images/mscoco/images/train2014/COCO_train2014_000000000005.jpg")
    return root


def gqa_questions() -> dict[str, Any]:
    types = {"structural": "query", "semantic": "attr", "detailed": "color"}
    extra = {"fullAnswer": "It is red.", "isBalanced": True, "groups": {"global": None}}
    program = [{"operation": "select", "dependencies": [], "argument": "car"}]
    one = {"question": "What color is the car?", "imageId": "n5", "answer": "red", "types": types}
    two = {"question": "Is it old?", "imageId": "77", "answer": "no", "types": types}
    return {"20": {**one, **extra, "semantic": program}, "9": {**two, **extra, "semantic": program}}


def gqa(root: Path) -> Path:
    write_json(root / "testdev_balanced_questions.json", gqa_questions())
    picture(root / "images/n5.jpg")
    picture(root / "images/77.jpg")
    return root


def okvqa_files() -> tuple[dict[str, Any], dict[str, Any]]:
    asked = {"questions": [{"question_id": 31, "image_id": 9, "question": "Which sport?"}]}
    answers = [{"answer_id": n, "answer": "tennis", "raw_answer": "Tennis"} for n in range(10)]
    annotation = {"question_id": 31, "image_id": 9, "question_type": "four", "answers": answers}
    answered = {"annotations": [annotation], "question_types": {"four": "Sports and Recreation"}}
    return asked, answered


def okvqa(root: Path) -> Path:
    asked, answered = okvqa_files()
    write_json(root / "OpenEnded_mscoco_val2014_questions.json", asked)
    write_json(root / "mscoco_val2014_annotations.json", answered)
    picture(root / "val2014/COCO_val2014_000000000009.jpg")
    return root


def infoseek_lines() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    shared = {"image_id": "oven_04925662", "data_split": "val_unseen_question"}
    asked = [
        {
            "data_id": "infoseek_val_0",
            "question": "Who designed this bridge?",
            "answer": ["John Smith"],
            "answer_eval": ["John Smith", "J. Smith"],
            **shared,
        },
        {
            "data_id": "infoseek_val_1",
            "question": "How long is it in metres?",
            "answer": ["120"],
            "answer_eval": [{"wikidata": 120.0, "range": [108.0, 132.0]}],
            **shared,
            "data_split": "val_unseen_entity",
        },
    ]
    kinds = [
        {"data_id": "infoseek_val_0", "question_type": "String"},
        {"data_id": "infoseek_val_1", "question_type": "Numerical"},
    ]
    return asked, kinds


def infoseek(root: Path) -> Path:
    asked, kinds = infoseek_lines()
    write_lines(root / "infoseek_val.jsonl", asked)
    write_lines(root / "infoseek_val_qtype.jsonl", kinds)
    picture(root / "images/04/oven_04925662.jpg")
    return root


def nextqa_rows() -> list[dict[str, str]]:
    options = {f"a{n}": f"option {n}" for n in range(5)}
    size = {"frame_count": "300", "width": "640", "height": "480"}
    rows = [("111", "0", "6", "CH"), ("111", "4", "7", "TP"), ("222", "2", "0", "DC")]
    return [
        {"video": video, **size, "question": "why", "answer": answer, "qid": qid, "type": kind}
        | options
        for video, answer, qid, kind in rows
    ]


def write_csv(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def nextqa(root: Path) -> Path:
    write_csv(root / "val.csv", nextqa_rows())
    write_json(root / "map_vid_vidorID.json", {"111": "0101/111", "222": "0016/222"})
    for name in ("0101/111", "0016/222"):
        (root / "videos" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "videos" / f"{name}.mp4").write_bytes(b"video")
    return root


def nlvr_lines() -> list[dict[str, Any]]:
    common = {"directory": "2", "evals": {}, "structured_rep": [[], [], []]}
    return [
        {"sentence": "there is a circle", "label": "true", "identifier": "15-0", **common},
        {"sentence": "there is a circle", "label": "false", "identifier": "15-1", **common},
    ]


def write_lines(path: Path, rows: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def nlvr(root: Path, *, unpacked: bool) -> Path:
    write_lines(root / "dev/dev.json", nlvr_lines())
    names = [f"images/2/dev-{i}-{k}.png" for i in ("15-0", "15-1") for k in range(6)]
    if unpacked:
        for name in names:
            picture(root / "dev" / name)
        return root
    with zipfile.ZipFile(root / "dev/images.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, png())
    return root


def nlvr2(root: Path) -> Path:
    lines = [
        {"identifier": f"dev-8-{pair}-1", "sentence": "two dogs", "label": "True"}
        for pair in (0, 1)
    ]
    write_lines(root / "data/dev.json", lines)
    for pair in (0, 1):
        for side in (0, 1):
            picture(root / f"dev/dev-8-{pair}-img{side}.png")
    return root
