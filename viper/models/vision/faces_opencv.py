"""Faces by OpenCV's cascade of Haar features, whose model is part of the package.

Source: Viola and Jones 2001, "Rapid Object Detection using a Boosted Cascade of Simple
Features". Differs from CLOVA's DSFD: no weights to download and a few milliseconds per picture, but
only frontal faces.
"""

from __future__ import annotations

import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from viper.errors import ModelError
from viper.models.libraries import cv2
from viper.models.vision.roles import Detection, Pixels

CASCADE = "haarcascade_frontalface_default"


class OpenCvFaces:
    """The ``faces`` role.

    Args:
        source: an XML file of a cascade; None takes the frontal one that OpenCV ships.
        scale_step: growth factor of the search window; the default is OpenCV's own.
        neighbours: windows that must agree on a face; OpenCV's default is 3, where single shadows
            still pass.
        min_share: smallest face as a share of the picture's shorter side. Most of the time goes
            into the smallest windows.

    Raises:
        ModelError: the file holds no cascade.
    """

    def __init__(
        self,
        source: str | None = None,
        *,
        scale_step: float = 1.1,
        neighbours: int = 4,
        min_share: float = 0.05,
    ) -> None:
        if not hasattr(cv2, "CascadeClassifier") or find_spec("cv2.data") is None:
            raise ModelError(
                f"OpenCV {cv2.__version__} has no cascades, which find faces; "
                'run: pip install "opencv-python-headless<5"'
            )
        from cv2 import data

        path = Path(source) if source else Path(data.haarcascades) / f"{CASCADE}.xml"
        if not path.is_file():
            raise ModelError(f"{path}: no such file; expected a cascade of OpenCV's (.xml)")
        try:
            self._cascade: Any = cv2.CascadeClassifier(str(path))
        except (cv2.error, SystemError):
            self._cascade = None
        if self._cascade is None or self._cascade.empty():
            raise ModelError(f"{path}: holds no cascade; expected one of OpenCV's (.xml)")
        self.model_id = f"opencv-{cv2.__version__}:{path.stem}:{scale_step}:{neighbours}"
        self._options = (scale_step, neighbours, min_share)
        self._lock = threading.Lock()

    def faces(self, pixels: Pixels) -> list[Detection]:
        """Return boxes of frontal faces; the score is ``n / (n + 4)`` if n windows agreed."""
        scale_step, neighbours, min_share = self._options
        height, width = pixels.shape[:2]
        if min(height, width) < 2:
            return []
        grey = cv2.equalizeHist(cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2GRAY))
        # The cascade's own window has 24 pixels, so smaller faces are never found.
        smallest = max(20, round(min_share * min(height, width)))
        with self._lock:  # a cascade keeps its own buffers
            boxes, counts = self._cascade.detectMultiScale2(
                grey, scaleFactor=scale_step, minNeighbors=neighbours, minSize=(smallest, smallest)
            )
        # n / (n + 4) grows with the votes, stays below 1, and is 1/2 for the least that pass.
        faces = [
            Detection((float(x), float(y), float(x + w), float(y + h)), float(n / (n + 4)))
            for (x, y, w, h), n in zip(boxes, np.ravel(counts), strict=True)
        ]
        return sorted(faces, key=lambda face: -face.score)
