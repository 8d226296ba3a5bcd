"""Each rule for face detectors fires on one that breaks it, and none on a good one."""

from __future__ import annotations

import numpy as np
import pytest
from breaking import blackens, broken, broken_identities, differs_by_thread, refuses_threads, writes

from viper.models.vision.roles import Detection
from viper.testing.conformance import check_faces


class GoodFaces:
    """Takes the brightest row for a face, and the darkest for a less likely one."""

    model_id = "good"

    def faces(self, pixels):
        rows = self.keep(pixels).mean(axis=(1, 2))
        places = (float(np.argmax(rows)), float(np.argmin(rows)))
        width = float(pixels.shape[1])
        scores = (0.9, 0.4)
        return [
            Detection((0.0, row, width, row + 1), score)
            for row, score in zip(places, scores, strict=True)
        ]

    def keep(self, image):
        return image.copy()


def finding(*faces):
    return broken(GoodFaces, faces=lambda self, pixels: [Detection(*face) for face in faces])


@pytest.mark.parametrize(
    ("rule", "backend"),
    [
        *broken_identities(GoodFaces),
        ("lacks a method of the role", type("Half", (), {"model_id": "half"})()),
        ("must not be changed", broken(GoodFaces, keep=staticmethod(blackens))),
        ("read-only arrays must be accepted", broken(GoodFaces, keep=staticmethod(writes))),
        ("same answer", broken(GoodFaces, keep=staticmethod(differs_by_thread))),
        (
            "another thread must get an answer",
            broken(GoodFaces, keep=staticmethod(refuses_threads)),
        ),
        ("must lie in their picture .64 x 48.", finding(((0.0, 0.0, 65.0, 2.0), 0.5))),
        ("must lie in their picture", finding(((2.0, 0.0, 2.0, 2.0), 0.5))),
        (r"scores must lie in \[0, 1\], not at 1.5", finding(((0.0, 0.0, 9.0, 2.0), 1.5))),
        (
            "boxes must come best first",
            finding(((0.0, 0.0, 9.0, 2.0), 0.2), ((0.0, 1.0, 9.0, 3.0), 0.3)),
        ),
    ],
)
def test_a_broken_rule_is_named(rule, backend) -> None:
    with pytest.raises(AssertionError, match=rule):
        check_faces(backend)


def test_a_good_one_passes() -> None:
    check_faces(GoodFaces())
