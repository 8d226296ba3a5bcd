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
