"""Proposes the layout of a detector from its graph: shapes, metadata and one run.

`proposed` reads the input, runs a picture, chooses the decoder by the shapes of the outputs, and
completes it by the conventions of its family. A guess stays a guess: ``viper setup model`` shows
what the detector finds by it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from viper.errors import PARSE_ERRORS
from viper.models.vision.detector_onnx import OnnxDetector
from viper.models.vision.onnx_layout import Layout, OnnxError, grid_cells
from viper.models.vision.roles import Pixels
from viper.record import record_from_toml

# Characters of a value in a file's metadata: 2,000 names have 40,000.
_MOST_METADATA = 100_000

# Conventions of a family: the code that its authors publish.
_YOLOX = {"colors": "BGR", "letterbox": "corner"}  # Ge et al. 2021, pixels from 0 to 255
_YOLO = {"letterbox": "centre", "scale": 1 / 255}
_DETR = {"scale": 1 / 255}  # of the real-time ones; the first one is normalised as below
_NORMALISED = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}  # of ImageNet

# A raw offset in a cell of YOLOX is a few cells; a decoded centre is pixels of the whole input.
_MOST_OFFSET = 32.0


@dataclass(frozen=True)
class Words:
    """Categories with other words for them, see :class:`~viper.models.vision.onnx_layout.Layout`."""

    categories: tuple[str, ...]
    synonyms: Mapping[str, tuple[str, ...]]
    unions: Mapping[str, tuple[str, ...]]

    @classmethod
    def coco(cls) -> Words:
        """Return the words for COCO."""
        return record_from_toml(cls, Path(__file__).with_name("coco.toml"))

    def among(self, categories: Sequence[str]) -> dict[str, Any]:
        """Return what holds for other categories, as fields of a layout."""
        unions = {
            word: tuple(name for name in names if name in categories or name == "*")
            for word, names in self.unions.items()
            if word not in categories
        }
        return {
            "categories": tuple(categories),
            "synonyms": {name: own for name, own in self.synonyms.items() if name in categories},
            "unions": {word: names for word, names in unions.items() if names},
        }


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
    categories = categories or _names(metadata)
    size, axes = _input(session, metadata)
    base = Layout(
        size=size,
        axes=axes,
        decoder="yolo",
        categories=tuple(categories or ["unknown"]),
        licence=licence or metadata.get("license", "unknown")[:200],
    )
    outputs = OnnxDetector(session, base, "the model").run(picture)[0]
    shapes = [each.shape[1:] for each in outputs if each.ndim == 3]
    scores = sorted(shape[1] for shape in shapes)
    if len(shapes) == 1:
        rows, columns = max(shapes[0]), min(shapes[0])
        by_rows = shapes[0][0] == rows
        changes: dict[str, Any] = {"decoder": "yolo", **_YOLO}
        count = columns - (5 if by_rows else 4)
        if by_rows and rows == len(grid_cells(size)[0]):
            offsets = next(each for each in outputs if each.ndim == 3)[0, :, :2]
            is_raw = np.abs(offsets).max() < _MOST_OFFSET
            changes = {"decoder": "yolox" if is_raw else "yolo", **_YOLOX}
        choices = [columns - 4, columns - 5]
    elif len(shapes) == 2 and shapes[0][0] == shapes[1][0] and scores[0] == 4:
        changes = {"decoder": "detr", **_DETR}
        choices = [scores[1], scores[1] - 1]
        count = scores[1]
        if (len(categories) if categories else 80) == count - 1:
            changes |= _NORMALISED
            count -= 1
    else:
        found = " and ".join(str(list(each.shape)) for each in outputs[:4])
        raise OnnxError(
            f"its outputs have the shapes {found}; expected a detector: [1, N, 5 + C], "
            "[1, 4 + C, N], or boxes [1, N, 4] and logits [1, N, C]"
        )
    coco = Words.coco()
    if categories is None and count == len(coco.categories):
        categories = coco.categories
    if categories is None or len(categories) not in choices:
        seen = "names none" if categories is None else f"there are {len(categories)} names"
        raise OnnxError(
            f"its outputs fit {count} categories, and {seen}; name them with --categories FILE, "
            "one a line in the order of the outputs"
        )
    return replace(base, **changes, **coco.among(categories))


def _input(session: Any, metadata: Mapping[str, str]) -> tuple[tuple[int, int], Any]:
    """Return height and width, and the order of axes, of the one input."""
    inputs = session.get_inputs()
    shape = list(inputs[0].shape) if len(inputs) == 1 else []
    axes = "NHWC" if shape[3:] == [3] else "NCHW"
    sides = shape[1:3] if axes == "NHWC" else shape[2:4]
    if not all(isinstance(side, int) for side in sides):
        stated = _literal(metadata.get("imgsz", ""))
        sides = list(stated) if isinstance(stated, list | tuple) else sides
    if len(shape) != 4 or not all(isinstance(side, int) and side > 0 for side in sides):
        seen = ", ".join(f"{each.name} {list(each.shape)}" for each in inputs[:3]) or "none"
        raise OnnxError(
            f"it takes {seen}; expected one picture of a fixed size, [1, 3, H, W] or [1, H, W, 3]"
        )
    return (sides[0], sides[1]), axes


def _names(metadata: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the names in a file's metadata, as Ultralytics writes them: a dict by index."""
    names = _literal(metadata.get("names", ""))
    if isinstance(names, dict) and names.keys() == {*range(len(names))}:
        names = [names[index] for index in range(len(names))]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    return tuple(names) or None


def _literal(text: str) -> Any:
    """Return a Python literal, or None; nothing runs."""
    try:
        return ast.literal_eval(text) if 0 < len(text) <= _MOST_METADATA else None
    except PARSE_ERRORS:
        return None
