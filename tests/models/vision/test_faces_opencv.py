"""OpenCV's face detector with the model that its package carries."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter

from viper.errors import ModelError
from viper.models.vision.faces_opencv import OpenCvFaces
from viper.testing.conformance import check_faces


def face(side: int = 220) -> np.ndarray:
    """A schematic face: what the cascade looks for is where light and dark areas meet."""
    picture = Image.new("RGB", (side * 2, side * 2), (120, 140, 150))
    draw = ImageDraw.Draw(picture)
    u = side / 100

    def oval(x: float, y: float, w: float, h: float, colour: tuple[int, int, int]) -> None:
        x, y = x + 50, y + 50
        draw.ellipse([(x - w) * u, (y - h) * u, (x + w) * u, (y + h) * u], fill=colour)

    oval(50, 44, 44, 56, (60, 40, 30))
    oval(50, 54, 36, 46, (222, 184, 160))
    for x in (34, 66):
        oval(x, 46, 11, 6, (150, 110, 95))
        oval(x, 46, 8, 4, (245, 245, 245))
        oval(x, 46, 4, 4, (40, 25, 20))
        oval(x, 36, 12, 2.5, (70, 45, 35))
    oval(50, 60, 5, 11, (235, 200, 178))
    oval(45, 70, 2.5, 1.6, (120, 75, 65))
    oval(55, 70, 2.5, 1.6, (120, 75, 65))
    oval(50, 82, 14, 4, (150, 60, 60))
    return np.asarray(picture.filter(ImageFilter.GaussianBlur(side / 60)))


def test_a_face_is_found() -> None:
    found = OpenCvFaces().faces(face())
    assert found, "no face at all"
    x0, y0, x1, y1 = found[0].box
    assert x0 < 220 < x1 and y0 < 220 < y1 and 0 < found[0].score <= 1
    assert [each.score for each in found] == sorted((e.score for e in found), reverse=True)


def test_it_keeps_to_its_role() -> None:
    check_faces(OpenCvFaces())
    check_faces(OpenCvFaces(), [face(), face(90)])


@pytest.mark.parametrize("shape", [(60, 80, 3), (1, 1, 3), (3, 200, 3)])
def test_no_face_where_there_is_none(shape: tuple[int, int, int]) -> None:
    pixels = np.full(shape, 90, np.uint8)
    pixels.flags.writeable = False
    assert OpenCvFaces().faces(pixels) == []


def test_the_id_says_what_finds_them() -> None:
    assert "haarcascade_frontalface_default" in OpenCvFaces().model_id
    assert OpenCvFaces().model_id != OpenCvFaces(neighbours=9).model_id


def test_a_file_that_is_no_cascade(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file"):
        OpenCvFaces(str(tmp_path / "none.xml"))
    (tmp_path / "bad.xml").write_text("<opencv_storage></opencv_storage>")
    with pytest.raises(ModelError, match="holds no cascade"):
        OpenCvFaces(str(tmp_path / "bad.xml"))


def test_opencv_without_cascades_is_one_line_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr("cv2.CascadeClassifier")
    with pytest.raises(ModelError, match="opencv-python-headless<5") as caught:
        OpenCvFaces()
    monkeypatch.setitem(sys.modules, "cv2.data", None)
    with pytest.raises(ModelError, match="opencv-python-headless<5"):
        OpenCvFaces()
    assert "\n" not in str(caught.value)


def test_extras_ask_for_an_opencv_with_cascades() -> None:
    text = (Path(__file__).parents[3] / "setup.cfg").read_text()
    asked = [line.strip() for line in text.splitlines() if "opencv-python-headless" in line]
    assert asked and all(line.endswith("<5") for line in asked)
