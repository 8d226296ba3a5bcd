"""RapidOCR reads what is written, offline."""

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from viper.models.vision.ocr_rapid import RapidOcr
from viper.models.vision.roles import TextReader


@pytest.fixture(scope="module")
def reader():
    return RapidOcr()


def written(*lines):
    picture = Image.new("RGB", (320, 160), (120, 140, 120))
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(24)
    for place, text in enumerate(lines):
        draw.rectangle((20, 20 + 60 * place, 200, 55 + 60 * place), fill="white")
        draw.text((26, 22 + 60 * place), text, fill="black", font=font)
    return np.asarray(picture)


def test_it_reads_lines_with_their_boxes(reader, capfd):
    assert isinstance(reader, TextReader) and reader.model_id.startswith("rapidocr-3.")
    found = sorted(reader.read(written("VELORA 42", "MK 17")), key=lambda one: one.box[1])
    assert [one.text.replace(" ", "") for one in found] == ["VELORA42", "MK17"]
    x0, y0, x1, y1 = found[0].box
    assert 10 < x0 < 40 and 15 < y0 < 40 and x1 > 120 and y1 < 65 and found[0].score > 0.5
    assert capfd.readouterr().out == ""


def test_nothing_written_is_nothing_read(reader):
    assert reader.read(np.full((60, 80, 3), 90, np.uint8)) == []
    assert reader.read(np.zeros((1, 40, 3), np.uint8)) == []
