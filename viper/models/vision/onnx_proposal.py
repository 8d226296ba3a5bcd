"""Proposes the layout of a detector from its graph: shapes, metadata and one run.

`proposed` reads the input, runs a picture, chooses the decoder by the shapes of the outputs, and
completes it by the conventions of its family. A guess stays a guess: ``viper setup model`` shows
what the detector finds by it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from viper.errors import PARSE_ERRORS
from viper.models.vision.detector_onnx import OnnxDetector
from viper.models.vision.onnx_layout import Layout, OnnxError, grid_cells, shapes_of
from viper.models.vision.roles import Pixels
from viper.record import read_toml

# Characters of a value in a file's metadata: 2,000 names have 40,000.
_MOST_METADATA = 100_000

# Conventions of a family, as its authors publish them. YOLOX takes values to 255 (Ge et al. 2021).
_YOLOX: Mapping[str, Any] = {"colors": "BGR", "letterbox": "corner"}
_YOLO: Mapping[str, Any] = {"letterbox": "centre", "scale": 1 / 255}
_DETR: Mapping[str, Any] = {"decoder": "detr", "scale": 1 / 255}
# With a class for no object, as the first DETR (Carion et al. 2020): normalised as for ImageNet.
_FIRST_DETR = {**_DETR, "mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}

# A raw offset in a cell of YOLOX is a few cells; a decoded centre is pixels of the whole input.
_MOST_OFFSET = 32.0


def proposed(
    session: Any,
    picture: Pixels,
    categories: Sequence[str] | None = None,
    licence: str | None = None,
) -> Layout:
    """Return the layout of a detector.

    Args:
        session: session of onnxruntime with the model.
        picture: ``uint8 [H, W, 3]`` RGB, run once.
        categories: names; those of the metadata by default, and of COCO if there are 80.
        licence: of the weights; that of the metadata by default.

    Raises:
        OnnxError: it is no detector of a known family, or has other categories.
    """
    metadata = session.get_modelmeta().custom_metadata_map
    coco: Any = read_toml(Path(__file__).with_name("coco.toml"))[1]
    names = tuple(str(name).strip() for name in categories or _literals(metadata, "names"))
    names = tuple("" if name == "N/A" else name for name in names)  # as COCO's 91 have it
    licence = licence or metadata.get("license", "unknown")[:200]
    size, axes = _input(session, metadata)
    layout = Layout(size=size, axes=axes, decoder="yolo", categories=("any",), licence=licence)
    outputs = OnnxDetector(session, layout, "the model").run(picture)[0]
    parts = [each[0] for each in outputs if each.ndim == 3]
    shapes = sorted((part.shape for part in parts), key=lambda shape: shape[1] != 4)
    if len(shapes) == 1 and shapes[0][0] < shapes[0][1]:  # columns, which have no objectness
        count, changes = shapes[0][0] - 4, _YOLO
    elif len(shapes) == 1:
        is_grid = len(parts[0]) == len(grid_cells(size)[0])
        is_raw = is_grid and np.abs(parts[0][:, :2]).max() < _MOST_OFFSET
        count, changes = shapes[0][1] - 5, _YOLOX if is_grid else _YOLO
        changes = {**changes, "decoder": "yolox" if is_raw else "yolo"}
    elif len(shapes) == 2 and shapes[0] == (shapes[1][0], 4):
        is_first = len(names or coco["categories"]) == shapes[1][1] - 1
        count, changes = shapes[1][1] - is_first, _FIRST_DETR if is_first else _DETR
    else:
        raise OnnxError(
            f"its outputs have the shapes {shapes_of(outputs)}; expected a detector: "
            "[1, N, 5 + C], [1, 4 + C, N], or boxes [1, N, 4] and logits [1, N, C]"
        )
    if not names and count == len(coco["categories"]):
        names = tuple(coco["categories"])
    if len(names) != count:
        raise OnnxError(
            f"its outputs fit {count} categories, and {len(names)} are named; name them with "
            "--categories FILE, one on each line in the order of the outputs"
        )
    known = {*names, "*"}
    synonyms = {name: own for name, own in coco["synonyms"].items() if name in known}
    unions: Any = {
        word: [each for each in own if each in known] for word, own in coco["unions"].items()
    }
    unions = {word: own for word, own in unions.items() if own and word not in known}
    return replace(layout, categories=names, synonyms=synonyms, unions=unions, **changes)


def _input(session: Any, metadata: Mapping[str, str]) -> tuple[tuple[int, int], Any]:
    """Return height and width, and the order of axes, of the one input."""
    inputs = session.get_inputs()
    shape = list(inputs[0].shape) if len(inputs) == 1 else []
    axes = "NHWC" if shape[3:] == [3] else "NCHW"
    sides = shape[1:3] if axes == "NHWC" else shape[2:4]
    if not all(isinstance(side, int) for side in sides):
        sides = _literals(metadata, "imgsz")
    if len(shape) != 4 or len(sides) != 2 or not all(isinstance(side, int) for side in sides):
        seen = ", ".join(f"{each.name} {list(each.shape)}" for each in inputs[:3]) or "none"
        raise OnnxError(
            f"it takes {seen}; expected one picture of a fixed size, [1, 3, H, W] or [1, H, W, 3]"
        )
    return (sides[0], sides[1]), axes


def _literals(metadata: Mapping[str, str], key: str) -> list[Any]:
    """Return a list, or the values of a dict, that is written in a file's metadata; nothing runs.

    Ultralytics writes ``names`` as a dict by index and ``imgsz`` as a list.
    """
    try:
        value = ast.literal_eval(metadata.get(key, "")[:_MOST_METADATA])
    except PARSE_ERRORS:
        return []
    value = list(value.values()) if isinstance(value, dict) else value
    return value if isinstance(value, list) else []
