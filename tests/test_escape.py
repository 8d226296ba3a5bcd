"""Untrusted text stays text, wherever it is shown."""

from __future__ import annotations

import html
import re

import pytest

from viper.escape import (
    for_csv,
    for_html,
    for_markdown,
    for_terminal,
    python_lines,
    python_on_terminal,
)
from viper.evaluate.reports import page


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
    "text",
    ["=cmd|' /C calc'!A0", "+1", "-1+1", "-1\n", "@SUM(A1)", "\t=1", "\r=1", "  =1", "\n=1", "＝1"],
)
def test_a_cell_is_no_formula(text: str) -> None:
    assert for_csv(text).startswith("'")


@pytest.mark.parametrize("text", ["plain", "a=b", "1 - 2", "", "[1, 2]", "-5.00", "-1"])
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


PROGRAMS = (
    'def f(image):\n    """a\n    b"""\n\n    return 1 < 2  # c\n\n',
    "\n\n  x = 'a & b'\t\n",
    '</code><script>alert(1)</script>\x0c\r\n\u2028\'"""&amp; \\',
    "a = '\x1b[2J\u202e'\n",
    "",
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_colors_change_no_character_of_a_program(program: str) -> None:
    plain = [for_html(line) for line in program.splitlines()]
    lines = python_lines(program)
    texts = [re.sub(r'<span class="py-\w+">|</span>', "", line) for line in lines]
    assert not any("<" in text or ">" in text for text in texts)
    assert [html.unescape(text) for text in texts] == [html.unescape(line) for line in plain]
    assert all(line.count("<span") == line.count("</span>") for line in lines)
    shown = [html.unescape(line).expandtabs(4) for line in plain]
    assert python_on_terminal(program) == (shown or [""])


def test_a_program_is_colored_by_the_parts_of_speech() -> None:
    (line,) = python_lines("return len('a') + 1  # why")
    shown = dict(re.findall(r'<span class="py-(\w)\w*">([^<]+)</span>', line))
    assert shown["k"] == "return" and shown["s"] == "'a'" and shown["m"] == "1"
    assert shown["c"] == "# why" and '<span class="py-nb">len</span>' in line


def luminance(color: str) -> float:
    """The relative luminance of WCAG 2.1."""
    channels = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(part * weight for part, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


def test_the_colors_of_programs_stand_out_from_their_grounds() -> None:
    style = (page._TEMPLATES / "python.css").read_text("utf-8")
    pairs = re.findall(r"light-dark\((#\w{6}), (#\w{6})\)", style)
    assert len(pairs) == style.count("{") == 5
    for light, dark in pairs:
        assert (luminance("#f3f3f3") + 0.05) / (luminance(light) + 0.05) >= 4.5
        assert (luminance(dark) + 0.05) / (luminance("#23262b") + 0.05) >= 4.5
