"""Tiny detectors in ONNX files, one of each family: one box at a known place, scores by pixels.

The score of category k is channel k of one pixel of the input, as a share of 255. So a test sees in
the scores which channel came where and how it was normalised, and in the box how the picture lay in
the input.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from viper.models.vision.roles import Pixels

SIDE = 96
STRIDES = (8, 16, 32)
NAMES = ("cat", "fire hydrant", "person")
FAMILIES = ("yolox", "yolo_rows", "yolo_columns", "detr_sigmoid", "detr_softmax")

# Of every family, the decoder and the form of the input as its authors publish it.
LAYOUTS: dict[str, dict[str, Any]] = {
    "yolox": {"decoder": "yolox", "colors": "BGR", "letterbox": "corner"},
    "yolo_rows": {"decoder": "yolo", "letterbox": "centre", "scale": 1 / 255},
    "yolo_columns": {"decoder": "yolo", "letterbox": "centre", "scale": 1 / 255},
    "detr_sigmoid": {"decoder": "detr", "scale": 1 / 255},
    "detr_softmax": {"decoder": "detr", "scale": 1 / 255},
}


@dataclass(frozen=True)
class Graph:
    """What a tiny model is; ``box`` (x0, y0, x1, y1) in pixels of the input.

    ``times`` and ``plus`` undo the normalisation of each channel; ``pixel`` is the (row, column)
    that the scores are read from.
    """

    family: str = "yolox"
    box: tuple[float, float, float, float] = (8, 16, 40, 48)
    axes: str = "NCHW"
    times: Sequence[float] = (1 / 255,) * 3
    plus: Sequence[float] = (0.0, 0.0, 0.0)
    pixel: tuple[int, int] = (32, 32)
    categories: int = len(NAMES)
    sides: tuple[Any, Any] = (SIDE, SIDE)
    metadata: tuple[tuple[str, str], ...] = ()
    opset: int = 13

    def write(self, path: Path) -> Path:
        onnx = pytest.importorskip("onnx")
        model = self._model(onnx)
        path.write_bytes(model.SerializeToString())
        return path

    def _model(self, onnx: Any) -> Any:
        from onnx import TensorProto, helper, numpy_helper

        nodes: list[Any] = []
        constants: list[Any] = []

        def constant(name: str, value: Any, kind: Any = np.float32) -> str:
            constants.append(numpy_helper.from_array(np.array(value, kind), name))
            return name

        def node(kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
            output = output or f"n{len(nodes)}"
            nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
            return output

        first = "picture"
        if self.axes == "NHWC":
            first = node("Transpose", first, perm=[0, 3, 1, 2])
        row, column = self.pixel
        for axis, place in ((2, row), (2, column)):  # the first removes its axis
            first = node("Gather", first, constant(f"at{len(nodes)}", place, np.int64), axis=axis)
        # [1, 3] shares of 255, and zeros for further categories
        scaled = node("Mul", first, constant("times", [self.times]))
        scores = node("Add", scaled, constant("plus", [self.plus]))
        spread = np.eye(3, self.categories)
        scores = node("MatMul", scores, constant("spread", spread))
        shapes: list[tuple[str, list[int]]] = []
        x0, y0, x1, y1 = self.box
        centre = ((x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0)
        if self.family.startswith("detr"):
            shares = np.tile(np.array(centre) / SIDE, (1, 5, 1))
            node("Identity", constant("shares", shares), output="boxes")
            one = constant("one", 1.0)
            small = constant("small", 1e-4)
            low = node("Clip", scores, small, constant("most", 1 - 1e-4))
            rest = node("Sub", one, low)
            logits = node("Log", node("Div", low, rest))
            count = self.categories
            if self.family == "detr_softmax":
                axes = constant("axes", [1], np.int64)
                none = node("Sub", one, node("ReduceSum", low, axes, keepdims=1))
                logits = node("Log", node("Concat", low, none, axis=1))
                count += 1
            # the first of five queries has the scores, the others nothing
            queries = np.zeros((5, 1))
            queries[0] = 1
            spreaded = node("MatMul", constant("queries", queries), logits)
            others = np.full((5, count), -9.0)
            others[0] = 0
            if self.family == "detr_softmax":
                others[1:, -1] = 9.0
            flat = node("Add", spreaded, constant("others", others))
            node("Unsqueeze", flat, constant("zero", [0], np.int64), output="logits")
            shapes = [("logits", [1, 5, count]), ("boxes", [1, 5, 4])]
        else:
            extra = 4 if self.family == "yolo_columns" else 5
            rows = sum((SIDE // stride) ** 2 for stride in STRIDES)
            rows = rows if self.family in ("yolox", "yolo_columns") else 30
            base = np.zeros((rows, extra + self.categories))
            place = 3
            base[:, :4] = (5, 5, 4, 4)
            base[place, :4] = centre
            if self.family == "yolox":
                column, row = int(centre[0] // 8), int(centre[1] // 8)
                place = row * (SIDE // 8) + column
                base[:, :4] = 0
                base[place, :4] = (
                    centre[0] / 8 - column,
                    centre[1] / 8 - row,
                    math.log(centre[2] / 8),
                    math.log(centre[3] / 8),
                )
            if extra == 5:
                base[place, 4] = 1.0
            columns = np.zeros((self.categories, extra + self.categories))
            columns[:, extra:] = np.eye(self.categories)
            pick = np.zeros((rows, 1))
            pick[place] = 1
            wide = node("MatMul", scores, constant("columns", columns))
            table = node("MatMul", constant("pick", pick), wide)
            table = node("Add", table, constant("base", base))
            if self.family == "yolo_columns":
                table = node("Transpose", table, perm=[1, 0])
            node("Unsqueeze", table, constant("zero", [0], np.int64), output="out")
            shape = [rows, extra + self.categories]
            shapes = [("out", [1, *(shape[::-1] if self.family == "yolo_columns" else shape)])]
        sides = list(self.sides)
        taken = [1, 3, *sides] if self.axes == "NCHW" else [1, *sides, 3]
        graph = helper.make_graph(
            nodes,
            "tiny",
            [helper.make_tensor_value_info("picture", TensorProto.FLOAT, taken)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in shapes],
            constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        model.ir_version = 8  # onnxruntime 1.19 reads it
        helper.set_model_props(model, dict(self.metadata))
        return model


# The channels as shares: .8, .4 and .12.
COLOR = (204, 102, 31)


def plain(width: int = 192, height: int = 144, color: tuple[int, int, int] = COLOR) -> Pixels:
    """Return a picture of one color, ``uint8 [H, W, 3]``."""
    return np.full((height, width, 3), color, np.uint8)
