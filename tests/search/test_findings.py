"""Strangers' texts in one plain line."""

import pytest

from viper.search.findings import MAX_TEXT, plain


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("  a\tlamp\n\nof brass ", "a lamp of brass"),
        ("a\x00b\x1b[31mred\u202egnp.exe\u200b!", "a b [31mred gnp.exe !"),
        (None, ""),
        (17, ""),
        (["x"], ""),
        ("x" * (MAX_TEXT + 9), "x" * MAX_TEXT),
        (" " * 100_000 + "late", ""),
    ],
)
def test_a_text_becomes_one_plain_line(given, shown):
    assert plain(given) == shown


def test_it_is_cut_where_it_is_told_to_be():
    assert plain("one two three", 7) == "one two" and plain("one two three", 4) == "one"
