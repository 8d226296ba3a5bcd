"""How the plain values of a trace are spelled on a page."""

from __future__ import annotations

import pytest

from viper.web.trace_view import LONGEST_TEXT, DisplayValue, Sizes, display_value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (11.041620254516602, "11.0416"),
        (0.5, "0.5"),
        (3, "3"),
        (True, "true"),
        (None, "null"),
        ("two words", "two words"),
        (float("nan"), "nan"),
        ("x" * (LONGEST_TEXT + 1), "x" * LONGEST_TEXT + "…"),
    ],
)
def test_plain_values(value: object, text: str) -> None:
    assert display_value(value, Sizes()) == DisplayValue("text", text)


@pytest.mark.parametrize(
    ("kind", "fields", "shown"),
    [
        ("patch", ["image0", 10, 10, 20, 20], DisplayValue(
            "crop", "patch at (10, 40, 20, 50)", "image0", (10, 40, 20, 50))),
        ("image", ["image0", 100, 60], DisplayValue(
            "crop", "image0 (100 x 60)", "image0", (0, 0, 100, 60))),
        ("patch", ["image7", 1, 2, 3, 4], DisplayValue("text", "patch in image7")),
        ("segment", ["video0", 2, 4], DisplayValue("span", "frames 2 to 3", span=(2, 4))),
        ("segment", ["video0"], DisplayValue("span", "no frames")),
        ("video", ["video0", 8, 100, 60], DisplayValue("span", "video", span=(0, 8))),
    ],
)  # fmt: skip
def test_references_never_show_their_fields(kind: str, fields: list, shown: DisplayValue) -> None:
    sizes = Sizes({"image0": (100, 60)}, 8)
    assert display_value({"kind": kind, "fields": fields}, sizes) == shown


def test_a_mapping_of_a_program_is_no_reference() -> None:
    assert display_value({"kind": "patch"}, Sizes()).kind == "pairs"
