"""Detection by an ONNX file of a closed vocabulary, on onnxruntime alone.

The layout beside the file (:mod:`viper.models.vision.onnx_layout`) says how pictures go in and
boxes come out. A picture runs through the model once: its encoding keeps every likely box with its
scores of all categories, so phrases and thresholds cost no further run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from viper.models.loading import reason_of
from viper.models.vision.boxes import MIN_SCORE, clip_corners, suppress
from viper.models.vision.colors import COLORS, color_chances
from viper.models.vision.onnx_layout import Frame, Layout, OnnxError, decoded, letterboxed
from viper.models.vision.roles import Detection, Floats, Pixels
from viper.threads import thread_count

# Detectors have 1 MB to 700 MB; a protocol buffer holds at most 2 GiB.
MAX_BYTES = 2 << 30

# Characters of an error of onnxruntime: its end says what is wrong, before stand names of C++.
_TOLD = 200


class OnnxEncoding(NamedTuple):
    """Likely boxes of a picture: ``[N, 4]`` in its pixels, and scores ``[N, C]``.

    Attributes:
        picture: ``uint8 [H, W, 3]`` RGB, for colors.
    """

    boxes: Floats
    scores: Floats
    picture: Pixels


class OnnxDetector:
    """A ``Detector`` of the categories of an ONNX file.

    Args:
        session: session of onnxruntime.
        layout: of its inputs and outputs.
        name: goes into traces and cache keys.

    Attributes:
        categories: names in the order of the model's outputs.
        vocabulary: maps phrases on the categories.
    """

    def __init__(self, session: Any, layout: Layout, name: str) -> None:
        self.model_id, self.layout = name, layout
        self.categories = layout.categories
        self.vocabulary = layout.vocabulary
        self._session = session
        self._input = session.get_inputs()[0].name

    @classmethod
    def from_pretrained(cls, source: str | Path) -> Self:
        """Load a model file and the layout beside it.

        Raises:
            OnnxError: it is missing or no ONNX file, or there is no layout.
            UsageError: a value of the layout is wrong.
        """
        path = Path(source).expanduser()
        session = open_session(path)
        layout = Layout.beside(path)
        digest = hashlib.sha256(path.read_bytes())
        digest.update(repr(layout).encode())  # another layout gives other boxes
        return cls(session, layout, f"{path.name}@{digest.hexdigest()[:12]}")

    def encode(self, images: Sequence[Pixels]) -> list[OnnxEncoding]:
        """Return the likely boxes of each picture ``uint8 [H, W, 3]`` RGB.

        Raises:
            OnnxError: the model cannot run, or its outputs do not fit the layout.
        """
        encodings = []
        for image in images:
            outputs, (scales, place) = self.run(image)
            boxes, scores = decoded(self.layout, outputs, self.model_id)
            corner, scale = (np.array(each * 2, np.float32) for each in (place, scales))
            boxes = clip_corners((boxes - corner) / scale, image.shape[:2])
            encodings.append(OnnxEncoding(boxes, scores, image))
        return encodings

    def run(self, image: Pixels) -> tuple[list[Any], Frame]:
        """Return the outputs of the model for a picture, and where the picture lies in the input.

        Raises:
            OnnxError: the model cannot run.
        """
        inputs, frame = letterboxed(self.layout, image)
        try:
            return self._session.run(None, {self._input: inputs}), frame
        except Exception as error:  # noqa: BLE001 (boundary: onnxruntime's have no common base)
            raise OnnxError(f"{self.model_id}: cannot run: {reason_of(error)[-_TOLD:]}") from None

    def detect(self, encoding: OnnxEncoding, phrases: Sequence[str]) -> list[list[Detection]]:
        """Return the boxes of each phrase, see :class:`~viper.models.vision.roles.Detector`.

        The boxes of a union of categories are suppressed together. A color multiplies the score by
        its probability, see :func:`~viper.models.vision.colors.color_chances`.

        Raises:
            ToolError: a phrase names no category; the message has the nearest ones.
        """
        found = []
        for indices, color in map(self.vocabulary.named, phrases):
            scores = encoding.scores[:, indices].max(axis=1)
            boxes = suppress(encoding.boxes, scores, self.model_id)
            found.append(boxes if color is None else _colored(boxes, encoding.picture, color))
        return found

    def survey(self, encoding: OnnxEncoding) -> list[tuple[int, Detection]]:
        """Return all boxes of all categories with the category's index, suppressed by category."""
        return [
            (index, detection)
            for index in np.flatnonzero(encoding.scores.max(axis=0, initial=0) > 0).tolist()
            for detection in suppress(encoding.boxes, encoding.scores[:, index], self.model_id)
        ]


def _colored(boxes: list[Detection], picture: Pixels, color: str) -> list[Detection]:
    """Return boxes with scores times the probability of a color, best first."""
    index, colored = COLORS.index(color), []
    for box, score in ((each.box, each.score) for each in boxes):
        x0, y0, x1, y1 = (int(side) for side in box)
        chances, _ = color_chances(picture[y0 : max(y0 + 1, y1), x0 : max(x0 + 1, x1)])
        colored.append(Detection(box, score * float(chances[index])))
    likely = (each for each in colored if each.score >= MIN_SCORE)
    return sorted(likely, key=lambda each: -each.score)


def open_session(path: Path) -> Any:
    """Return a session of onnxruntime on the processor for a model file.

    Raises:
        OnnxError: there is no such file, or onnxruntime cannot read it.
        MissingExtraError: onnxruntime is not installed.
    """
    from viper.plugins import need_packages

    need_packages(("onnxruntime", "cv2"), "the detector backend 'onnx'")
    if not path.is_file():
        raise OnnxError(f"{path}: no such file; expected a model in ONNX form")
    if path.stat().st_size > MAX_BYTES:
        raise OnnxError(f"{path}: larger than {MAX_BYTES >> 30} GiB")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # its warnings would go to standard output
    options.intra_op_num_threads = thread_count()
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 (boundary: as above)
        raise OnnxError(
            f"{path}: onnxruntime cannot load it: {reason_of(error)[-_TOLD:]}"
        ) from None
