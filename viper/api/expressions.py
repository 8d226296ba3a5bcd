"""The language of ``EVAL``: expressions over the answers of earlier lines.

This module has its own parser and interpreter: no text of a program, a model or a picture is
ever passed to Python. There are no calls and no attributes; size, depth and numbers are bounded.

:func:`evaluate` splits the text into tokens and evaluates them as it parses (:class:`_Parser`).
Answers of models are words ("yes", "2", "two"); :func:`is_true`, :func:`equal`, :func:`contains`
and :func:`arithmetic` read them as truth values and numbers when an operator needs those.

From loose to tight::

    VALUE if CONDITION else VALUE
    or, xor, and, not
    == != < <= > >= in, not in          chained as in Python
    + - * / // %                        and a sign
    'text', "text", 3, 2.5, yes, no, true, false, [a, b], (a)
    {NAME} or NAME                      a variable of the program

Source: VisProg (Gupta and Kembhavi 2023), whose ``EVAL`` puts values into text and runs it;
CLOVA (Gao et al. 2024), table 2. Differs: nothing is executed; words count as truth values and
numbers on both sides (``{ANSWER0} == 'yes'`` holds if the answer is yes; ``'two' == 2`` holds).
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np

# Greatest length of an expression; one line of a program is far shorter.
MAX_CHARACTERS = 2_000

# Deepest nesting of an expression: ten frames each, below Python's limit of 1,000.
MAX_DEPTH = 40

# A number has no sign: the sign is an operator.
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>\d+\.\d*(?:[eE][-+]?\d+)?|\.\d+|\d+(?:[eE][-+]?\d+)?)
      | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | \{\s*(?P<placeholder>\w+)\s*\}
      | (?P<name>[^\W\d]\w*)
      | (?P<symbol>==|!=|<=|>=|//|[-+*/%<>()\[\],])
    )""",
    re.VERBOSE,
)
_PLACEHOLDER = re.compile(r"\{\s*(\w+)\s*\}")
_ESCAPE = re.compile(r"\\(.)")
_WORDS = {"yes": True, "no": False, "true": True, "false": False, "none": None}

# Largest absolute value of a number: whole numbers up to here are exact as floats too, so mixing
# both loses nothing.
MAX_MAGNITUDE = 1e15

# Greatest length of a text or a list: longer than any answer of a model, and `+` of two of them on
# every line still fits the memory of a child.
MAX_TEXT = 10_000

# Models count in words up to about here; "twenty-one" they write in digits.
_COUNTS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty"
)
NUMBER_WORDS: Mapping[str, int] = {word: value for value, word in enumerate(_COUNTS.split())}

# Fifteen digits are exact in a float, and int() of more would take long.
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


class _Token(NamedTuple):
    """One token; ``position`` counts characters from 1."""

    kind: str
    text: str
    position: int


def evaluate(expression: str, variables: Mapping[str, Any]) -> Any:
    """Return the value of an expression: a truth value, a number, a text, or a list of those.

    Both branches of ``A if CONDITION else B`` are evaluated.

    Args:
        variables: values by name; only plain values, numbers of numpy and lists are accepted.

    Raises:
        ExpressionError: the expression breaks the rules above, or a value does not fit.
    """
    if len(expression) > MAX_CHARACTERS:
        raise ExpressionError(
            f"the expression has {len(expression)} characters; at most {MAX_CHARACTERS} are read"
        )
    return _Parser(_tokens(expression), variables).evaluate()


def _tokens(expression: str) -> list[_Token]:
    tokens, place = [], 0
    end = len(expression.rstrip())
    while place < end:
        match = _TOKEN.match(expression, place)
        if match is None:
            rest = expression[place:].strip()[:12]
            raise ExpressionError(f"{rest!r} is no part of an expression (at {place + 1})")
        kind = str(match.lastgroup)
        tokens.append(_Token(kind, match[kind], match.start(kind) + 1))
        place = match.end()
    return [*tokens, _Token("end", "", end + 1)]


class _Parser:
    """Parses and evaluates in one pass, one method per precedence level."""

    def __init__(self, tokens: list[_Token], variables: Mapping[str, Any]) -> None:
        self._tokens, self._variables = tokens, variables
        self._next = self._depth = 0

    def evaluate(self) -> Any:
        value = self._choice()
        if self._token.kind != "end":
            self._fail("an operator or the end")
        return value

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _accept(self, *texts: str) -> str | None:
        """Return the next token's text and move past it if it is one of ``texts``."""
        token = self._token
        if token.kind in ("name", "symbol") and token.text in texts:
            self._next += 1
            return token.text
        return None

    def _expect(self, text: str) -> None:
        if self._accept(text) is None:
            self._fail(repr(text))

    def _fail(self, expected: str) -> NoReturn:
        token = self._token
        if token.text == "(" and self._next and self._tokens[self._next - 1].kind == "name":
            name = self._tokens[self._next - 1].text
            raise ExpressionError(f"{name}(…) is a call; call it on a line of its own instead")
        actual = repr(token.text) if token.text else "the end"
        raise ExpressionError(f"expected {expected} at {token.position}, got {actual}")

    def _choice(self) -> Any:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ExpressionError(f"nested deeper than {MAX_DEPTH} levels")
        value = self._logic()
        if self._accept("if"):
            condition = is_true(self._logic())
            self._expect("else")
            other = self._choice()
            value = value if condition else other
        self._depth -= 1
        return value

    def _logic(self, level: int = 0) -> Any:
        """Return the value of ``or``, ``xor`` and ``and``, each looser than the next."""
        if level == len(_LOGIC):
            negations = 0
            while self._accept("not"):
                negations += 1
            value = self._comparison_chain()
            return is_true(value) != (negations % 2 == 1) if negations else value
        word, connect = _LOGIC[level]
        value = self._logic(level + 1)
        while self._accept(word):
            value = connect(is_true(value), is_true(self._logic(level + 1)))
        return value

    def _comparison_chain(self) -> Any:
        left = self._calculation()
        results: list[bool] = []
        while True:
            follows = self._tokens[min(self._next + 1, len(self._tokens) - 1)]
            if self._token.text == "not" and follows.text == "in" and follows.kind == "name":
                self._next += 2
                relation: str | None = "not in"
            else:
                relation = self._accept("==", "!=", "<", "<=", ">", ">=", "in")
            if relation is None:
                return all(results) if results else left
            right = self._calculation()
            results.append(_COMPARISONS[relation](left, right))
            left = right

    def _calculation(self, level: int = 0) -> Any:
        """Return the value of sums, and within them of products, from left to right."""
        if level == len(_ARITHMETIC):
            signs = []
            while (sign := self._accept("+", "-")) is not None:
                signs.append(sign)
            value = self._part()
            for sign in signs:
                value = arithmetic(sign, 0, value)
            return value
        value = self._calculation(level + 1)
        while (symbol := self._accept(*_ARITHMETIC[level])) is not None:
            value = arithmetic(symbol, value, self._calculation(level + 1))
        return value

    def _part(self) -> Any:
        token = self._token
        if self._accept("("):
            value = self._choice()
            self._expect(")")
            return value
        if self._accept("["):
            items: list[Any] = []
            while not self._accept("]"):
                if items:
                    self._expect(",")
                items.append(self._choice())
            return items
        if token.kind in ("end", "symbol") or token.kind == "name" and token.text in _RESERVED:
            self._fail("a value")
        self._next += 1
        if token.kind == "number":
            # numbers of more than 15 digits are refused, so int() need not read thousands of them
            whole = token.text.isdecimal() and len(token.text) < 40
            return accept_value(int(token.text) if whole else float(token.text))
        if token.kind == "text":
            return self._fill_placeholders(_ESCAPE.sub(r"\1", token.text[1:-1]))
        # a variable, or a word for a truth value that no variable has
        if token.text in self._variables:
            return self._value(token.text)
        if token.kind == "name" and token.text.lower() in _WORDS:
            return _WORDS[token.text.lower()]
        if self._token.text == "(":
            self._fail("an operator")
        raise ExpressionError(
            f"no line before sets {token.text!r}; text stands in quotes, as in '{token.text}'"
        )

    def _value(self, name: str) -> Any:
        try:
            return accept_value(self._variables[name])
        except ExpressionError as error:
            raise ExpressionError(f"{name}: {error}") from None

    def _fill_placeholders(self, text: str) -> Any:
        """Fill in the placeholders of a text; a lone placeholder becomes its value."""
        alone = _PLACEHOLDER.fullmatch(text)
        if alone is not None and alone[1] in self._variables:
            return self._value(alone[1])

        def value_of(match: re.Match[str]) -> str:
            name = match[1]
            return str(self._value(name)) if name in self._variables else match[0]

        return accept_value(_PLACEHOLDER.sub(value_of, text))


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
    return bool(_plain(value))


def equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal: as numbers, as truth values, or else as words."""
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        pairs = zip(left, right, strict=False)
        return len(left) == len(right) and all(_equal_items(*pair) for pair in pairs)
    first, second = _plain(left), _plain(right)
    if isinstance(first, str) != isinstance(second, str) or None in (first, second):
        return first is second
    return bool(first == second)


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
        # a quote stays short beside the words of the error
        return repr(value if len(value) <= 40 else value[:39] + "…")
    return "nothing" if value is None else f"a {type(value).__name__}"


_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": equal,
    "!=": lambda left, right: not equal(left, right),
    "<": lambda left, right: _as_number(left) < _as_number(right),
    "<=": lambda left, right: _as_number(left) <= _as_number(right),
    ">": lambda left, right: _as_number(left) > _as_number(right),
    ">=": lambda left, right: _as_number(left) >= _as_number(right),
    "in": contains,
    "not in": lambda left, right: not contains(left, right),
}
_RESERVED = frozenset({"if", "else", "or", "xor", "and", "not", "in"})

_LOGIC = (("or", operator.or_), ("xor", operator.xor), ("and", operator.and_))
_ARITHMETIC = (("+", "-"), ("*", "/", "//", "%"))
