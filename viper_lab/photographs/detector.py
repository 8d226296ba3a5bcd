"""Part ``detector``: does the backend ``onnx`` find what a plain loop finds with the same file?

The loop is onnxruntime and NumPy, as the authors of YOLOX publish it, and shares no code with the
backend: the picture top-left in a square of gray, cells of three grids, suppression by category.
Average precision is that of ``pycocotools``. Boxes are stored, so a second run goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from viper.data.coco_file import CocoFile
from viper.data.source import SourceFile
from viper.errors import UsageError
from viper.evaluate.intervals import OverSeeds
from viper.models.media import read_picture
from viper.models.vision.boxes import MIN_SCORE, NMS_IOU
from viper.models.vision.detector_onnx import OnnxDetector, open_session
from viper.models.vision.roles import Pixels
from viper.storage.files import write_file
from viper_lab.papers.result import Claim, TableCell
from viper_lab.photographs.average_precision import average_precision
from viper_lab.photographs.job import DEVELOPMENT, ELSEWHERE, Measured, PhotographJob

# Difference of average precision that rounding and the order of equal scores may make.
MOST_DIFFERENCE = 0.003

# Pictures of each folder with --quick, the first of the file.
QUICK = 40

BACKEND, PLAIN = "onnx", "plain loop"

# Index of a category, its box (x0, y0, x1, y1) in pixels, and its score.
Found = tuple[int, tuple[float, ...], float]


def measure(job: PhotographJob) -> Measured:
    """Measure the average precision of both on every folder.

    Raises:
        UsageError: the model of the data is no raw YOLOX, which the loop decodes.
    """
    source = job.profile().document.roles["detector"].model
    assert source is not None
    backend = OnnxDetector.from_pretrained(source)
    if backend.layout.decoder != "yolox":
        raise UsageError(f"{source}: the plain loop decodes yolox, not {backend.layout.decoder}")
    loop = PlainLoop(Path(source))
    finders: dict[str, Callable[[Pixels], list[Found]]] = {
        BACKEND: lambda picture: of_backend(backend, picture),
        PLAIN: loop.found,
    }
    rows, claims = [], []
    for folder in (DEVELOPMENT, ELSEWHERE):
        path = job.folder(folder)
        coco = CocoFile.read(SourceFile(path, "instances.json"))
        images = [*coco.pictures][: QUICK if job.quick else None]
        ids = {names[0]: number for number, names in coco.categories.items()}
        figures = {}
        for name, finder in finders.items():
            store = job.out / "detector" / f"{Path(folder).name}-{name.replace(' ', '-')}.jsonl"
            stored = _stored(store)
            if not {*images} <= stored.keys():
                for image in images:
                    picture = read_picture(path / "images" / coco.pictures[image].file)
                    stored[image] = stored.get(image) or finder(picture)
                write_file(store, "".join(f"{json.dumps(pair)}\n" for pair in stored.items()))
            boxes = (
                (image, ids[backend.categories[index]], (box[0], box[1], box[2], box[3]), score)
                for image in images
                for index, box, score in stored[image]
                if backend.categories[index] in ids
            )
            figures[name] = average_precision(path / "instances.json", boxes, images)
            figure = OverSeeds(figures[name], None, 1)
            rows.append(TableCell("average precision", name, folder, figure, len(images)))
        apart = abs(figures[BACKEND] - figures[PLAIN])
        claims.append(
            Claim(
                f"{folder}: the backend's AP is within {MOST_DIFFERENCE} of the loop's",
                apart <= MOST_DIFFERENCE,
                f"{figures[BACKEND]:.4f} and {figures[PLAIN]:.4f}, {len(images)} pictures",
            )
        )
    return Measured(rows, (), claims)


def of_backend(backend: OnnxDetector, picture: Pixels) -> list[Found]:
    """Return the boxes of all categories of the backend."""
    (encoding,) = backend.encode([picture])
    return [(index, each.box, each.score) for index, each in backend.survey(encoding)]


class PlainLoop:
    """YOLOX by onnxruntime and NumPy alone."""

    def __init__(self, path: Path) -> None:
        self._session = open_session(path)
        self._side = self._session.get_inputs()[0].shape[2]
        grids = []
        for stride in (8, 16, 32):
            y, x = np.mgrid[: self._side // stride, : self._side // stride]
            grids.append(np.stack((x, y, np.full_like(x, stride)), -1).reshape(-1, 3))
        self._cells = np.concatenate(grids)

    def found(self, picture: Pixels) -> list[Found]:
        """Return the boxes of all categories in a picture, ``uint8 [H, W, 3]`` RGB."""
        import cv2

        height, width = picture.shape[:2]
        ratio = min(self._side / height, self._side / width)
        small = cv2.resize(picture, (int(width * ratio), int(height * ratio)))
        square = np.full((self._side, self._side, 3), 114, np.uint8)
        square[: small.shape[0], : small.shape[1]] = small
        blob = square[:, :, ::-1].transpose(2, 0, 1)[None].astype(np.float32)
        (output,) = self._session.run(None, {self._session.get_inputs()[0].name: blob})
        rows, (x, y, stride) = output[0], self._cells.T
        centre_x, centre_y = (rows[:, 0] + x) * stride, (rows[:, 1] + y) * stride
        half_w, half_h = np.exp(rows[:, 2]) * stride / 2, np.exp(rows[:, 3]) * stride / 2
        sides = (centre_x - half_w, centre_y - half_h, centre_x + half_w, centre_y + half_h)
        boxes = np.stack(sides, 1) / ratio
        boxes[:, 0::2] = boxes[:, 0::2].clip(0, width)
        boxes[:, 1::2] = boxes[:, 1::2].clip(0, height)
        scores = rows[:, 4:5] * rows[:, 5:]
        likely = scores.max(1) >= MIN_SCORE
        boxes, scores = boxes[likely], scores[likely]
        return [
            (category, tuple(map(float, boxes[row])), float(scores[row, category]))
            for category in range(scores.shape[1])
            for row in _suppressed(boxes, scores[:, category])
        ]


def _suppressed(boxes: Any, scores: Any) -> Iterator[int]:
    order = np.flatnonzero(scores >= MIN_SCORE)
    order = order[np.argsort(-scores[order])]
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    while len(order):
        best, others = order[0], order[1:]
        yield int(best)
        low = np.maximum(boxes[best, :2], boxes[others, :2])
        high = np.minimum(boxes[best, 2:], boxes[others, 2:])
        shared = (high - low).clip(0).prod(1)
        overlap = shared / (areas[best] + areas[others] - shared + 1e-9)
        order = others[overlap <= NMS_IOU]


def _stored(path: Path) -> dict[int, list[Found]]:
    lines = path.read_text().splitlines() if path.is_file() else []
    pairs = (json.loads(line) for line in lines)
    return {image: [(i, tuple(box), score) for i, box, score in found] for image, found in pairs}
