"""The language of EVAL: what its expressions mean, and what they may not do."""

from __future__ import annotations

import numpy as np
import pytest

from viper.api.expressions import MAX_CHARACTERS, ExpressionError, evaluate

VARIABLES = {
    "ANSWER0": "yes",
    "ANSWER1": "No.",
    "COUNT0": 2,
    "COUNT1": "three",
    "COUNT2": np.int64(4),
    "COLOR": "Red",
    "BOX0": [object(), object()],
    "NOTHING": None,
    "LIST0": ["cat", "a dog"],
}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("'yes' if {ANSWER0} == 'yes' and {ANSWER1} == 'no' else 'no'", "yes"),
        ("'a' if {COUNT0} > 2 else 'b' if {COUNT0} == 2 else 'c'", "b"),
        ("{ANSWER0} xor {ANSWER1}", True),
        ("{ANSWER0} xor {ANSWER0}", False),
        ("not {ANSWER1} and ({ANSWER0} or {NOTHING})", True),
        ("{ANSWER1} or {ANSWER0} and {ANSWER1}", False),
        ("{COUNT0} + {COUNT1}", 5),
        ("({COUNT0}) + ({COUNT1}) == 5", True),
        ("COUNT2 // 3 + 7 % 4 - -1 * 2", 6),
        ("1 / 4", 0.25),
        ("1 < {COUNT0} <= {COUNT1} < COUNT2", True),
        ("1 < {COUNT0} < 2", False),
        ("{COUNT1} == 'three' and {COUNT1} == 3 and '3' == {COUNT1}", True),
        ("{COLOR} == 'red.' and {COLOR} != 'blue'", True),
        ("{ANSWER0} == True and {ANSWER1} == false", True),
        ("'{ANSWER0}' == 'yes'", True),
        ("'{COUNT0} cups'", "2 cups"),
        ("{BOX0} > 1 and {BOX0} == 2", True),
        ("'cat' in {LIST0} and 'cow' not in {LIST0}", True),
        ("'re' in {COLOR}", True),
        ("{COUNT0} in [1, 'two']", True),
        ("{NOTHING} == {NOTHING} and {NOTHING} != 0", True),
        ("'it\\'s' + \" so\"", "it's so"),
        ("'2' + '3'", 5),
        ("1000 == '1,000'", True),
    ],
)
def test_values(expression: str, value: object) -> None:
    found = evaluate(expression, VARIABLES)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("{MISSING} + 1", "no line before sets 'MISSING'"),
        ("red == {COLOR}", "text stands in quotes, as in 'red'"),
        ("len({BOX0})", "len(…) is a call"),
        ("__import__('os')", "__import__(…) is a call"),
        ("BOX0.append", "'.append' is no part of an expression (at 5)"),
        ("{BOX0}[0]", "expected an operator or the end at 7, got '['"),
        ("lambda: 1", "':"),
        ("(1 + 2", "expected ')' at 7, got the end"),
        ("'yes' if 1", "expected 'else'"),
        ("", "expected a value at 1, got the end"),
        ("9 ** 9", "expected a value"),
        ("1e15 * 10", "not within 1e+15"),
        ("1e999", "not within 1e+15"),
        ("1 / ({COUNT0} - 2)", "division by zero"),
        ("'red' > 1", "'red' is no number"),
        ("{COLOR} * 3", "'Red' is no number"),
        ("1 in 2", "'in' looks into a list or a text, not into a int"),
        ("(" * 60 + "1" + ")" * 60, "nested deeper than 40 levels"),
        ("1+" * MAX_CHARACTERS, f"at most {MAX_CHARACTERS} are read"),
    ],
)
def test_what_is_refused_in_one_line(expression: str, message: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        evaluate(expression, VARIABLES)
    assert message in str(raised.value) and "\n" not in str(raised.value)


def test_only_plain_values_take_part() -> None:
    class Sly(str):
        def lower(self) -> str:
            raise AssertionError("code of a program ran")

    for value in (Sly("yes"), object(), len, {"a": 1}, float("nan"), 10**40, "x" * 20_000):
        with pytest.raises(ExpressionError, match="^X: "):
            evaluate("{X} == 1", {"X": value})


def test_long_chains_end() -> None:
    assert evaluate("-" * 1_000 + "1", {}) == 1
    assert evaluate("not " * 400 + "yes", {}) is True
    with pytest.raises(ExpressionError, match="length 12"):
        evaluate("'a' + {X}", {"X": "b" * 9_999 + "c" * 2_001})
