"""Untrusted text stays text, wherever it is shown."""

from __future__ import annotations

import pytest

from viper.evaluate.reports.escape import for_csv, for_html, for_markdown, for_terminal


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\n lines\tand  spaces", "two lines and spaces"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("abc\u202edef", "abc\\u202edef"),
        ("half \ud800", "half \\ud800"),
        ("ünïcödé 象", "ünïcödé 象"),
    ],
)
def test_a_terminal_gets_one_line_without_control_characters(text: str, shown: str) -> None:
    assert for_terminal(text) == shown


def test_a_terminal_line_is_cut() -> None:
    assert for_terminal("a" * 50, 10) == "a" * 9 + "…"


@pytest.mark.parametrize(
    "text", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", "\n=1", "＝1"]
)
def test_a_cell_is_no_formula(text: str) -> None:
    assert for_csv(text).startswith("'")


@pytest.mark.parametrize("text", ["plain", "a=b", "1 - 2", "", "[1, 2]"])
def test_other_cells_are_left_alone(text: str) -> None:
    assert for_csv(text) == text


def test_markdown_has_no_markup() -> None:
    shown = for_markdown("a|b\n[x](http://e) <img src=x> `c` **d** &amp;")
    assert shown == (
        "a\\|b \\[x\\]\\(http://e\\) &lt;img src=x&gt; \\`c\\` \\*\\*d\\*\\* &amp;amp;"
    )


def test_html_has_no_element_and_ends_no_attribute() -> None:
    shown = for_html("</pre><script>alert('1')</script>\" onload=\x00")
    assert not set("<>\"'\x00") & set(shown)
