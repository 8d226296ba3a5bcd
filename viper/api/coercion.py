"""The semantics of ``EVAL``: words as truth values and numbers, within bounds.

Answers of models are words: "yes", "2", "two". They are converted when an expression needs a truth
value or a number.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

# Largest absolute value of a number.
MAX_MAGNITUDE = 1e15

# Greatest length of a text or a list.
MAX_TEXT = 10_000

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
    """An expression cannot be evaluated; the message gives the reason in one line."""


def accept_value(value: Any) -> Any:
    """Return the value if expressions accept it; numbers of numpy become plain numbers.

    Raises:
        ExpressionError: it is of another kind, too large or not a finite number.
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
    """Return the truth value; "yes" and "true" are true; "no", "false", 0 and "" are false."""
    if isinstance(value, str):
        word = _word(value)
        number = _number(word)
        return word in _TRUE or (word not in _FALSE and word != "" and number != 0)
    return len(value) > 0 if isinstance(value, list | tuple) else bool(value)


def equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal: as numbers, as truth values, or else as words."""
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        pairs = zip(left, right, strict=False)
        return len(left) == len(right) and all(_equal_items(*pair) for pair in pairs)
    first, second = _plain(left), _plain(right)
    if isinstance(first, str) != isinstance(second, str) or None in (first, second):
        return first is second
    return bool(first == second)


def compare(left: Any, right: Any) -> float:
    """Return a number below 0, 0 or above 0 if left is less than, equal to or greater than right.

    Raises:
        ExpressionError: one of them is not a number.
    """
    return _as_number(left) - _as_number(right)


def contains(item: Any, container: Any) -> bool:
    """Return whether a list has an equal item, or a text contains the words.

    Raises:
        ExpressionError: the container is neither a list nor a text.
    """
    if isinstance(container, list | tuple):
        return any(_equal_items(item, each) for each in container)
    if isinstance(container, str) and isinstance(item, str):
        return _word(item) in _word(container)
    raise ExpressionError(f"'in' looks into a list or a text, not into {_describe(container)}")


def arithmetic(symbol: str, left: Any, right: Any) -> Any:
    """Return ``left symbol right`` as numbers; ``+`` also joins lists, and texts that are no
    numbers.

    Raises:
        ExpressionError: not numbers, a division by zero, or a result that is too large.
    """
    if symbol == "+" and isinstance(left, list) and isinstance(right, list):
        return accept_value(left + right)
    texts = isinstance(left, str) and isinstance(right, str)
    if symbol == "+" and texts and None in (_number(_word(left)), _number(_word(right))):
        return accept_value(left + right)
    first, second = _as_number(left), _as_number(right)
    if symbol in ("/", "//", "%") and second == 0:
        raise ExpressionError(f"{first:g} {symbol} 0: division by zero")
    return accept_value(_OPERATORS[symbol](first, second))


def _as_number(value: Any) -> int | float:
    """Return the value as a number; a list counts as its length."""
    if isinstance(value, list | tuple):
        return len(value)
    converted = _plain(value)
    if isinstance(converted, bool | int | float):
        return converted + 0
    raise ExpressionError(f"{_describe(value)} is no number")


def _plain(value: Any) -> Any:
    """Return the meaning of a value: a number, a truth value, None, or folded words."""
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
    """Compare plain items as :func:`equal`; other items, such as patches, equal nothing."""
    plain = (str, int, float, bool)
    return type(left) in plain and type(right) in plain and equal(left, right)


def _number(word: str) -> int | float | None:
    if word in NUMBER_WORDS:
        return NUMBER_WORDS[word]
    if _DIGITS.fullmatch(word) is None:
        return None
    digits = word.replace(",", "")
    number = float(digits) if "." in digits else int(digits)
    return number if math.isfinite(number) else None


def _word(text: str) -> str:
    """Fold a text for comparison: lower case, single spaces, no final period."""
    return " ".join(text.lower().split()).rstrip(".").strip()


def _describe(value: Any) -> str:
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:39] + "…")
    return "nothing" if value is None else f"a {type(value).__name__}"
