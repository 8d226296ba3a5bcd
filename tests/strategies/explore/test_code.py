"""Names that code reads and assigns."""

from __future__ import annotations

import ast

import pytest

from viper.strategies.explore.code import names_of


@pytest.mark.parametrize(
    ("code", "stored", "sure", "loaded"),
    [
        ("a = b", "a", "a", "b"),
        ("a = b\nc = a", "a c", "a c", "b"),
        ("a, (b, *c) = d", "a b c", "a b c", "d"),
        ("a += 1", "a", "a", "a"),
        ("a.b = c", "", "", "a c"),
        ("a[b] = c", "", "", "a b c"),
        ("a: int = b", "a", "a", "b int"),
        ("[p.name for p in people if p.tall]", "", "", "people"),
        ("{k: v for k, v in rows for rows in k}", "", "", "rows"),
        ("sum(p for row in rows for p in row)", "", "", "rows sum"),
        ("max(patches, key=lambda p: distance(p, anchor))", "", "", "anchor distance max patches"),
        ("for p in people:\n    print(p)", "", "", "people print"),
        ("for p in people:\n    n += p.n", "n", "", "n people"),
        ("n = 0\nfor p in people:\n    n += p.n", "n", "n", "people"),
        ("if a:\n    b = 1", "b", "", "a"),
        ("if a:\n    b = 1\nelse:\n    b = c", "b", "b", "a c"),
        ("if a:\n    b = 1\nc = b", "b c", "c", "a b"),
        ("while a:\n    a = b", "a", "", "a b"),
        ("def f(x, y=z):\n    t = x\n    return t + g", "f", "f", "g z"),
        ("try:\n    a = b\nexcept E:\n    a = c", "a", "", "b c"),
        ("with f() as g:\n    a = g", "a g", "a g", "f"),
        ("if (n := f()):\n    a = n", "a n", "n", "f"),
        ("import math as m", "m", "m", ""),
        ("class A(B):\n    x = y", "A", "A", "B y"),
    ],
)
def test_names(code: str, stored: str, sure: str, loaded: str) -> None:
    found = names_of(ast.parse(code).body)
    assert (found.stored, found.sure) == (set(stored.split()), set(sure.split()))
    assert found.loaded == set(loaded.split())
