"""The language of ``EVAL``: expressions over the answers of earlier lines.

This module has its own parser and interpreter: no text of a program, a model or a picture is
ever passed to Python. There are no calls and no attributes; size, depth and numbers are bounded.

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

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from viper.api import coercion

# Greatest length of an expression.
MAX_CHARACTERS = 2_000

# Deepest nesting of an expression.
MAX_DEPTH = 40

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
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": coercion.equal,
    "!=": lambda left, right: not coercion.equal(left, right),
    "<": lambda left, right: coercion.compare(left, right) < 0,
    "<=": lambda left, right: coercion.compare(left, right) <= 0,
    ">": lambda left, right: coercion.compare(left, right) > 0,
    ">=": lambda left, right: coercion.compare(left, right) >= 0,
    "in": coercion.contains,
    "not in": lambda left, right: not coercion.contains(left, right),
}
_RESERVED = frozenset({"if", "else", "or", "xor", "and", "not", "in"})


@dataclass(frozen=True)
class _Token:
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
        raise coercion.ExpressionError(
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
            raise coercion.ExpressionError(f"{rest!r} is no part of an expression (at {place + 1})")
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
            raise coercion.ExpressionError(
                f"{name}(…) is a call; call it on a line of its own instead"
            )
        actual = repr(token.text) if token.text else "the end"
        raise coercion.ExpressionError(f"expected {expected} at {token.position}, got {actual}")

    def _choice(self) -> Any:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise coercion.ExpressionError(f"nested deeper than {MAX_DEPTH} levels")
        value = self._either()
        if self._accept("if"):
            condition = coercion.is_true(self._either())
            self._expect("else")
            other = self._choice()
            value = value if condition else other
        self._depth -= 1
        return value

    def _either(self) -> Any:
        value = self._exclusive()
        while self._accept("or"):
            other = self._exclusive()
            value = coercion.is_true(value) or coercion.is_true(other)
        return value

    def _exclusive(self) -> Any:
        value = self._both()
        while self._accept("xor"):
            value = coercion.is_true(value) != coercion.is_true(self._both())
        return value

    def _both(self) -> Any:
        value = self._negation()
        while self._accept("and"):
            other = self._negation()
            value = coercion.is_true(value) and coercion.is_true(other)
        return value

    def _negation(self) -> Any:
        inverted, any_not = False, False
        while self._accept("not"):
            inverted, any_not = not inverted, True
        value = self._comparison_chain()
        return coercion.is_true(value) != inverted if any_not else value

    def _comparison_chain(self) -> Any:
        left = self._sum()
        holds, compared = True, False
        while (operator := self._comparison()) is not None:
            right = self._sum()
            holds, compared = _COMPARISONS[operator](left, right) and holds, True
            left = right
        return holds if compared else left

    def _comparison(self) -> str | None:
        follows = self._tokens[min(self._next + 1, len(self._tokens) - 1)]
        if self._token.text == "not" and follows.text == "in" and follows.kind == "name":
            self._next += 2
            return "not in"
        return self._accept("==", "!=", "<", "<=", ">", ">=", "in")

    def _sum(self) -> Any:
        value = self._product()
        while (operator := self._accept("+", "-")) is not None:
            value = coercion.arithmetic(operator, value, self._product())
        return value

    def _product(self) -> Any:
        value = self._signed_value()
        while (operator := self._accept("*", "/", "//", "%")) is not None:
            value = coercion.arithmetic(operator, value, self._signed_value())
        return value

    def _signed_value(self) -> Any:
        signs = []
        while (sign := self._accept("+", "-")) is not None:
            signs.append(sign)
        value = self._part()
        for sign in signs:
            value = coercion.arithmetic(sign, 0, value)
        return value

    def _part(self) -> Any:
        token = self._token
        if self._accept("("):
            value = self._choice()
            self._expect(")")
            return value
        if self._accept("["):
            return self._list()
        if token.kind == "number":
            self._next += 1
            whole = token.text.isdecimal()
            return coercion.accept_value(
                int(token.text) if whole and len(token.text) < 40 else float(token.text)
            )
        if token.kind == "text":
            self._next += 1
            return self._fill_placeholders(_ESCAPE.sub(r"\1", token.text[1:-1]))
        if token.kind == "placeholder" or (token.kind == "name" and token.text not in _RESERVED):
            self._next += 1
            return self._variable_or_word(token)
        return self._fail("a value")

    def _list(self) -> list[Any]:
        items: list[Any] = []
        while not self._accept("]"):
            if items:
                self._expect(",")
            items.append(self._choice())
        return items

    def _variable_or_word(self, token: _Token) -> Any:
        """Return the value of a variable, or the truth value of a word that no variable has."""
        if token.text in self._variables:
            return self._value(token.text)
        if token.kind == "name" and token.text.lower() in _WORDS:
            return _WORDS[token.text.lower()]
        if self._token.text == "(":
            self._fail("an operator")
        raise coercion.ExpressionError(
            f"no line before sets {token.text!r}; text stands in quotes, as in '{token.text}'"
        )

    def _value(self, name: str) -> Any:
        try:
            return coercion.accept_value(self._variables[name])
        except coercion.ExpressionError as error:
            raise coercion.ExpressionError(f"{name}: {error}") from None

    def _fill_placeholders(self, text: str) -> Any:
        """Fill in the placeholders of a text; a lone placeholder becomes its value."""
        alone = _PLACEHOLDER.fullmatch(text)
        if alone is not None and alone[1] in self._variables:
            return self._value(alone[1])

        def value_of(match: re.Match[str]) -> str:
            name = match[1]
            return str(self._value(name)) if name in self._variables else match[0]

        return coercion.accept_value(_PLACEHOLDER.sub(value_of, text))
