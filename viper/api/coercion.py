"""What the values of ``EVAL`` mean: words as truth values and numbers, within bounds.

Answers of models are words: "yes", "2", "two". They count as what they say wherever a truth
value or a number is needed.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

MAX_MAGNITUDE = 1e15
"""Largest number, either way."""

MAX_TEXT = 10_000
"""Characters of a text, items of a list."""

_COUNTS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty"
)
NUMBER_WORDS: Mapping[str, int] = {word: value for value, word in enumerate(_COUNTS.split())}

_DIGITS = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d{1,15})(?:\.\d{1,15})?|[-+]?\.\d{1,15}")
_TRUE, _FALSE = frozenset({"yes", "true"}), frozenset({"no", "false"})
_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}


class ExpressionError(ValueError):
    """An expression that cannot be worked out; one line that says why."""


def bounded(value: Any) -> Any:
    """The value if it may take part in expressions; numbers of numpy become plain.

    Raises:
        ExpressionError: it is of another kind, too large or no finite number.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value) is bool:
        return value
    if type(value) in (int, float):
        if not abs(value) <= MAX_MAGNITUDE:
            raise ExpressionError(f"the number is not within {MAX_MAGNITUDE:.0e} either way")
        return value
    if type(value) not in (str, list, tuple):
        raise ExpressionError(f"a {type(value).__name__} cannot take part in an expression")
    if len(value) > MAX_TEXT:
        raise ExpressionError(f"of length {len(value)}; at most {MAX_TEXT} can take part")
    return value


def is_true(value: Any) -> bool:
    """Whether the value counts as true: yes and true do, no, false, 0 and nothing do not."""
    if isinstance(value, str):
        word = _word(value)
        number = _number(word)
        return word in _TRUE or (word not in _FALSE and word != "" and number != 0)
    return len(value) > 0 if isinstance(value, list | tuple) else bool(value)


def equal(left: Any, right: Any) -> bool:
    """Whether two values say the same: as numbers, as truth values, else as words."""
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        pairs = zip(left, right, strict=False)
        return len(left) == len(right) and all(_equal_items(*pair) for pair in pairs)
    first, second = _plain(left), _plain(right)
    if isinstance(first, str) != isinstance(second, str) or None in (first, second):
        return first is second
    return bool(first == second)


def ordered(left: Any, right: Any) -> float:
    """Below 0, 0 or above 0 as left is less than, equal to or greater than right, as numbers.

    Raises:
        ExpressionError: one of them is no number.
    """
    return _needed(left) - _needed(right)


def contains(item: Any, container: Any) -> bool:
    """Whether a list has an equal item, or a text the words.

    Raises:
        ExpressionError: the container is neither.
    """
    if isinstance(container, list | tuple):
        return any(_equal_items(item, each) for each in container)
    if isinstance(container, str) and isinstance(item, str):
        return _word(item) in _word(container)
    raise ExpressionError(f"'in' looks into a list or a text, not into {_described(container)}")


def arithmetic(symbol: str, left: Any, right: Any) -> Any:
    """``left symbol right`` as numbers; ``+`` also joins two texts that are no numbers, or lists.

    Raises:
        ExpressionError: not numbers, a division by zero, or too large a result.
    """
    if symbol == "+" and isinstance(left, list) and isinstance(right, list):
        return bounded(left + right)
    texts = isinstance(left, str) and isinstance(right, str)
    if symbol == "+" and texts and None in (_number(_word(left)), _number(_word(right))):
        return bounded(left + right)
    first, second = _needed(left), _needed(right)
    if symbol in ("/", "//", "%") and second == 0:
        raise ExpressionError(f"{first:g} {symbol} 0: division by zero")
    return bounded(_OPERATORS[symbol](first, second))


def _needed(value: Any) -> int | float:
    """The value as a number; a list counts as its length."""
    if isinstance(value, list | tuple):
        return len(value)
    found = _plain(value)
    if isinstance(found, bool | int | float):
        return found + 0
    raise ExpressionError(f"{_described(value)} is no number")


def _plain(value: Any) -> Any:
    """A value as what it says: a number, a truth value, None, or folded words."""
    if isinstance(value, list | tuple):
        return len(value)
    if not isinstance(value, str):
        return value
    word = _word(value)
    if word in _TRUE | _FALSE:
        return word in _TRUE
    number = _number(word)
    return word if number is None else number


def _equal_items(left: Any, right: Any) -> bool:
    """As :func:`equal` for plain items; others, such as patches, are equal to nothing."""
    plain = (str, int, float, bool)
    return type(left) in plain and type(right) in plain and equal(left, right)


def _number(word: str) -> int | float | None:
    if word in NUMBER_WORDS:
        return NUMBER_WORDS[word]
    if _DIGITS.fullmatch(word) is None:
        return None
    digits = word.replace(",", "")
    found = float(digits) if "." in digits else int(digits)
    return found if math.isfinite(found) else None


def _word(text: str) -> str:
    """Folded for comparing: lower case, single spaces, no final period."""
    return " ".join(text.lower().split()).rstrip(".").strip()


def _described(value: Any) -> str:
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:39] + "…")
    return "nothing" if value is None else f"a {type(value).__name__}"
