"""Official layouts in miniature, written into an empty folder."""

from __future__ import annotations

import csv
import json
import pickle
import zipfile
from base64 import b64encode
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


def nlvr(root: Path, *, unpacked: bool, split: str = "dev") -> Path:
    write_lines(root / f"{split}/{split}.json", nlvr_lines())
    names = [f"images/2/{split}-{i}-{k}.png" for i in ("15-0", "15-1") for k in range(6)]
    if unpacked:
        for name in names:
            picture(root / split / name)
        return root
    with zipfile.ZipFile(root / f"{split}/images.zip", "w", zipfile.ZIP_DEFLATED) as archive:
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


def vstar_lines() -> list[dict[str, Any]]:
    request = "Answer with the option's letter from the given choices directly."
    glove = "What is the material of the glove?\n(A) rubber\n(B) cotton\n(C) kevlar\n(D) leather"
    dog = "Is the dog on the left or right side of the car?\n(A) right\n(B) left"
    places = (("direct_attributes", glove, "A"), ("relative_position", dog, "B"))
    return [
        {
            "image": f"{category}/sa_{number}.jpg",
            "text": f"{text}\n{request}",
            "category": category,
            "question_id": str(number),
            "label": label,
        }
        for number, (category, text, label) in enumerate(places)
    ]


def vstar(root: Path) -> Path:
    write_lines(root / "test_questions.jsonl", vstar_lines())
    for line in vstar_lines():
        picture(root / line["image"])
    return root


def coco(root: Path, file: str = "instances.json", folder: str = "images") -> Path:
    """Pictures of dogs, cats and people (5, 6 with a crowd), of a bird (8) and of a cat (9)."""
    names = {1: "person", 16: "bird", 17: "cat", 18: "dog"}
    boxes = {
        5: [(18, 1, 2, 10, 20), (17, 25, 5, 10, 10), (1, 3, 3, 30, 24), (1, 5, 5, 10, 10)],
        6: [(17, 1, 1, 8, 8), (17, 20, 4, 9, 9), (18, 0, 0, 30, 20)],
        8: [(16, 4, 4, 6, 6)],
        9: [(17, 4, 4, 6, 6)],
    }
    annotations = [
        {"id": 10 * image + number, "image_id": image, "category_id": category, "bbox": [*box]}
        for image, rows in boxes.items()
        for number, (category, *box) in enumerate(rows)
    ]
    crowd = {"id": 99, "image_id": 6, "category_id": 1, "bbox": [1, 1, 9, 9], "iscrowd": 1}
    images = [
        {"id": image, "file_name": f"{image:012d}.jpg", "width": 40, "height": 30}
        for image in boxes
    ]
    categories = [{"id": number, "name": name} for number, name in names.items()]
    document = {"images": images, "annotations": [*annotations, crowd], "categories": categories}
    write_json(root / file, document)
    for image in images:
        picture(root / folder / image["file_name"])
    return root


def everyday_lines() -> list[dict[str, Any]]:
    def line(name: str, kind: str, query: str, **more: Any) -> dict[str, Any]:
        values = {"id": name, "media": "000000000005.jpg", "kind": kind, "query": query}
        return {**values, "accept": [], "objects": ["dog"], **more}

    boxes = [[1, 2, 11, 22], [3, 3, 33, 27]]
    return [
        line("a", "existence", "is ther a dog", accept=["yes", "yes it is"]),
        line("b", "ground", "the dog", boxes=boxes[:1], task="ground"),
        line("c", "ground", "all dogs", boxes=boxes, task="ground"),
        line("d", "unanswerable", "What is its name?", unanswerable=True),
    ]


def everyday(root: Path) -> Path:
    write_lines(root / "everyday.jsonl", everyday_lines())
    picture(root / "coco128" / "images" / "000000000005.jpg")
    return root


def receipts(root: Path) -> Path:
    for number in ("000", "001", "002", "003"):
        fields = {"company": "SHOP", "date": "01/02/2018", "address": "", "total": "9.00"}
        write_json(root / f"{number}.json", fields)
        picture(root / f"{number}.jpg")
    return root


def write_parquet(path: Path, rows: list[dict[str, Any]], *pictures: str) -> None:
    """Write a table as the hub has it; ``pictures`` are columns of pictures, given as bytes."""
    import datasets

    values = [
        {key: {"bytes": row[key], "path": None} if key in pictures and row[key] else row[key]
         for key in row}
        for row in rows
    ]  # fmt: skip
    table = datasets.Dataset.from_list(values)
    for name in pictures:
        table = table.cast_column(name, datasets.Image())
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_parquet(str(path))


def hrbench_rows() -> list[dict[str, Any]]:
    """One question in the four orders of its options, and one of the other category."""
    orders = ("27B 37B 27D 27E", "27E 27B 37B 27D", "27E 27D 27B 37B", "27E 37B 27D 27B")
    rows = []
    for category, question in (("single", "What number is it?"), ("cross", "Which is nearer?")):
        for cycle, order in enumerate(orders):
            options = dict(zip("ABCD", order.split(), strict=True))
            rows.append(
                {
                    "index": len(rows),
                    "question": question,
                    "answer": "ABCD"[cycle],
                    "category": category,
                    **options,
                    "cycle_category": str(cycle),
                    "image": b64encode(png()).decode(),
                }
            )
    return rows


def hrbench(root: Path) -> Path:
    write_parquet(root / "hr_bench_4k.parquet", hrbench_rows())
    return root


def countbench_rows() -> list[dict[str, Any]]:
    question = "How many headlights are there in the image?"
    row = {"image": png(), "text": "four headlights", "question": question, "number": 4}
    return [row, {**row, "number": 10}]


def countbench(root: Path) -> Path:
    write_parquet(root / "data/test-00000-of-00001.parquet", countbench_rows(), "image")
    return root


def blink_rows(subtask: str, pictures: int = 1) -> list[dict[str, Any]]:
    prompt = (
        "Two points are circled on the image, labeled by A and B beside each circle. "
        "Which point is closer to the camera?\nSelect from the following choices.\n"
        "(A) A is closer\n(B) B is closer"
    )
    return [
        {
            "idx": f"val_{subtask}_1",
            "question": "Which point is closer to the camera?",
            "sub_task": subtask,
            **{f"image_{n}": png(40 + n) if n <= pictures else None for n in range(1, 5)},
            "choices": ["A is closer", "B is closer"],
            "answer": "(B)",
            "prompt": prompt,
            "explanation": None,
        }
    ]


def blink(root: Path) -> Path:
    from viper.data.parquet import SUBTASKS

    for subtask in SUBTASKS:
        rows = blink_rows(subtask, 3 if subtask == "Jigsaw" else 1)
        path = root / subtask / "val-00000-of-00001.parquet"
        write_parquet(path, rows, *(f"image_{n}" for n in range(1, 5)))
    return root


def cvbench_rows(kind: str) -> list[dict[str, Any]]:
    count = ("Count", "How many organs are in the image?", ["3", "2", "1", "0"], "(C)")
    depth = ("Depth", "Which is closer, the box or the desk?", ["box", "desk"], "(A)")
    sources = {"2D": (("ADE20K", count), ("COCO", count)), "3D": (("Omni3D", depth),)}[kind]
    return [
        {
            "idx": number + (0 if kind == "2D" else 1438),
            "type": kind,
            "task": task,
            "image": png(),
            "question": question,
            "choices": choices,
            "answer": answer,
            "prompt": f"{question} Select from the following choices.\n(A) {choices[0]}",
            "filename": f"img/{kind}/{task.lower()}/{source.lower()}_10.png",
            "source": source,
            "source_dataset": f"{source} Validation Set",
            "source_filename": f"{source}_val_00000248.jpg",
            "bbox": None if kind == "2D" else [[1.0, 2.0, 3.0, 4.0]],
        }
        for number, (source, (task, question, choices, answer)) in enumerate(sources)
    ]


def cvbench(root: Path) -> Path:
    for kind in ("2D", "3D"):
        write_parquet(root / f"test_{kind.lower()}.parquet", cvbench_rows(kind), "image")
    return root
