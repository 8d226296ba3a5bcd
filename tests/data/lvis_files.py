"""LVIS in miniature, in its official layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SQUARE = [[2.0, 1.0, 6.0, 1.0, 6.0, 4.0, 2.0, 4.0]]
RUNS = {"size": [8, 10], "counts": [8, 4, 4, 4, 60]}
"""Rows 0 to 3 of columns 1 and 2."""

PACKED = {"size": [8, 10], "counts": "8440h1"}
"""The same runs, as ``pycocotools`` packs them; see the test."""


def a_category(number: int, name: str, *synonyms: str) -> dict[str, Any]:
    counts = {"image_count": 1, "instance_count": 1, "frequency": "c"}
    named = {"id": number, "name": name, "synonyms": [name, *synonyms]}
    return {**named, "synset": f"{name}.n.01", "def": f"what a {name} is", **counts}


def an_image(number: int, absent: list[int], incomplete: list[int]) -> dict[str, Any]:
    return {
        "id": number,
        "date_captured": "2013-11-14 16:28:13",
        "license": 4,
        "height": 8,
        "width": 10,
        "flickr_url": "http://farm7.staticflickr.com/1/2_z.jpg",
        "coco_url": f"http://images.cocodataset.org/train2017/{number:012d}.jpg",
        "neg_category_ids": absent,
        "not_exhaustive_category_ids": incomplete,
    }


def an_annotation(number: int, image: int, category: int, **more: Any) -> dict[str, Any]:
    box = {"bbox": [2.0, 1.0, 4.0, 3.0], "area": 12.0, "segmentation": SQUARE}
    return {"id": number, "image_id": image, "category_id": category, **box, **more}


def lvis() -> dict[str, Any]:
    return {
        "info": {"description": "LVIS v1", "year": 2020, "contributor": "nobody"},
        "annotations": [
            an_annotation(1, 11, 1),
            an_annotation(2, 11, 3, bbox=[0, 0, 10, 8]),
            an_annotation(3, 12, 1, segmentation=RUNS),
            an_annotation(4, 13, 1, segmentation=PACKED, bbox=[-3, 5, 20, 20]),
            an_annotation(5, 14, 1),
            an_annotation(6, 12, 2, bbox=[30, 30, 5, 5]),
        ],
        "images": [
            an_image(11, [2], []),
            an_image(12, [4, 5], [1]),
            an_image(13, [], [3]),
            an_image(14, [2], []),
        ],
        "licenses": [{"id": 1, "name": "none", "url": "http://example.org"}],
        "categories": [
            a_category(1, "mug"),
            a_category(2, "traffic_light", "stoplight"),
            a_category(3, "teacup", "cup_for_tea"),
            a_category(4, "bow_(weapon)"),
            a_category(5, "bow_(decorative_ribbons)"),
        ],
    }


def write_lvis(root: Path, values: Any = None, *, missing: tuple[int, ...] = (14,)) -> Path:
    """The files of a root; pictures 11 to 14 but those ``missing``."""
    folder = root / "annotations"
    folder.mkdir(parents=True)
    text = json.dumps(lvis() if values is None else values)
    (folder / "lvis_v1_train.json").write_text(text, encoding="utf-8")
    pictures = root / "train2017"
    pictures.mkdir()
    for number in {11, 12, 13, 14} - set(missing):
        pixels = np.full((8, 10, 3), number, np.uint8)
        Image.fromarray(pixels).save(pictures / f"{number:012d}.jpg", format="PNG")
    return root
