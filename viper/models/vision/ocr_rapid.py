"""Reading of text in a picture by RapidOCR, whose models are part of the package.

Source: PP-OCR (Du et al. 2020) in ONNX Runtime, as ``rapidocr`` packs it; nothing is downloaded.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from viper.models.vision.roles import Pixels, TextLine
from viper.threads import thread_count

_THREADS = "EngineConfig.onnxruntime.intra_op_num_threads"

# Least score of a line: RapidOCR's own default.
LEAST = 0.5


# Length of a picture over its width: that of a long line of text.
_MOST_SLENDER = 20


class RapidOcr:
    """The ``ocr`` role.

    Args:
        source: not used, because the models are the package's own.
        threshold: least score of a line, in [0, 1].
    """

    def __init__(self, source: str | None = None, *, threshold: float = LEAST) -> None:
        from importlib.metadata import version

        from rapidocr import RapidOCR

        self.model_id = f"rapidocr-{version('rapidocr')}:{threshold}"
        # Otherwise its log would go to standard output, among the answers, and threads of ONNX
        # Runtime would spin while they wait.
        settings = {"Global.log_level": "critical", _THREADS: thread_count()}
        self._engine: Any = RapidOCR(params=settings)
        self._threshold = threshold
        self._lock = threading.Lock()

    def read(self, pixels: Pixels) -> list[TextLine]:
        """Read text, see :meth:`viper.models.vision.roles.TextReader.read`."""
        if min(pixels.shape[:2]) < 2:
            return []
        # It enlarges the shorter side to 736 pixels, which a strip would make gigabytes of.
        height, width = pixels.shape[:2]
        side = -(-max(height, width) // _MOST_SLENDER)
        missing = (max(0, side - height), max(0, side - width))
        pixels = np.pad(pixels, ((0, missing[0]), (0, missing[1]), (0, 0)), mode="edge")
        with self._lock:
            result = self._engine(np.ascontiguousarray(pixels[:, :, ::-1]))
        if result.boxes is None or not result.txts:
            return []
        lines = []
        for corners, text, score in zip(result.boxes, result.txts, result.scores, strict=True):
            if text.strip() and float(score) >= self._threshold:
                (x0, y0), (x1, y1) = np.min(corners, axis=0), np.max(corners, axis=0)
                box = (float(x0), float(y0), float(x1), float(y1))
                lines.append(TextLine(text, box, float(score)))
        return lines
