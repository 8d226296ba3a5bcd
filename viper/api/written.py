"""Values that documents print: amounts of money, dates and numbers in a line of text.

Dates are matched in the few forms that documents use. Parsers of free text such as ``dateutil``
take any number for a part of a date and do not tell its place in the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date

from viper.errors import UnknownNameError, UsageError

# A value in a line as plain text, read from the characters ``[start, end)``. An amount is a decimal
# number such as ``-1007.50``, a date is ISO 8601.
Written = tuple[str, int, int]

# Types of the fields of task ``extract``.
FIELD_TYPES = ("text", "money", "number", "date")

# A form with more fields than this is several documents.
MAX_FIELDS = 32

CURRENCY = "(?:RM|MYR|SGD|USD|EUR|GBP|[$€£])"

# Two decimals tell an amount from counts, times and codes. Text recognition puts spaces around the
# point. A percentage is no amount, nor is a part of a longer number, date or time. Accounts write
# negative amounts in parentheses or with the minus behind, unless that is the dash of a range.
_AMOUNT = re.compile(
    rf"(?<![0-9.,:/])(?P<open>\(\s?)?(?P<minus>[-−]?)\s?{CURRENCY}?\s?(?P<inner>[-−]?)"
    r"(?P<whole>"
    r"[0-9]{1,3}(?:,[0-9]{3}){1,3}(?=\s?\.)|[0-9]{1,3}(?:\.[0-9]{3}){1,3}(?=\s?,)|[0-9]{1,12})"
    r"\s?[.,]\s?(?P<cents>[0-9]{2})(?![0-9]|[.,:/][0-9]|\s?%)"
    r"(?:(?P<after>[-−])(?![-\w$€£]|\s*[0-9])|(?(open)(?P<close>\s?\))))?",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"(?P<minus>(?<!\w)[-−])?"
    r"(?P<digits>(?:[0-9]{1,3}(?:,[0-9]{3}){1,4}(?![0-9])|[0-9]{1,15})(?:\.[0-9]{1,15})?)"
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY, _MONTH, _NAME = r"(?P<day>[0-9]{1,2})", r"(?P<month>[0-9]{1,2})", r"(?P<name>[a-z]{3,9})"
_YEAR, _MARK, _SAME = r"(?P<year>(?:19|20)[0-9]{2})", r"(?P<mark>\s?[-/.]\s?)", r"(?P=mark)"
_ANY_YEAR = rf"(?:{_YEAR}|(?P<short>[0-9]{{2}}))"
# A time may follow without a space, because text recognition joins words.
_END = r"(?:(?![0-9])|(?=[0-9]{1,2}:[0-9]{2}))"
_DATES = (
    rf"(?<![0-9]){_YEAR}{_MARK}{_MONTH}{_SAME}{_DAY}{_END}",
    rf"(?<![0-9]){_DAY}{_MARK}{_MONTH}{_SAME}{_ANY_YEAR}{_END}",
    rf"(?<![0-9]){_DAY}[-/., ]{{0,2}}{_NAME}[-/., ]{{0,2}}{_ANY_YEAR}{_END}",
    rf"\b{_NAME}[-. ]{{0,2}}{_DAY}[-, ]{{1,2}}{_ANY_YEAR}{_END}",
)


def amounts_in(text: str) -> Iterator[Written]:
    """Yield the amounts of money in a line, from left to right."""
    for match in _AMOUNT.finditer(text):
        minus = "-" if any(match[at] for at in ("minus", "inner", "after", "close")) else ""
        whole = re.sub("[,.]", "", match["whole"]).lstrip("0") or "0"
        yield (f"{minus}{whole}.{match['cents']}", *match.span())


def dates_in(text: str) -> Iterator[Written]:
    """Yield the dates in a line. The day stands before the month unless only the other order is a
    date. Years of two digits are of this century.
    """
    for match in (each for form in _DATES for each in re.finditer(form, text, re.IGNORECASE)):
        parts = match.groupdict()
        month, day = parts.get("month"), int(parts["day"])
        name = (parts.get("name") or "")[:3].lower()
        months = int(month) if month else _MONTHS.index(name) + 1 if name in _MONTHS else 0
        order = (day, months) if month and months > 12 else (months, day)
        try:
            value = date(int(parts["year"] or f"20{parts['short']}"), *order)
        except ValueError:
            continue
        yield (value.isoformat(), *match.span())


def typed(kind: str, text: str) -> str | None:
    """Return the first value of a field's type in a text, or None if there is none.

    Money without decimals counts if the text is nothing but one number.
    """
    if kind == "text":
        return " ".join(text.split()) or None
    if kind in ("money", "date"):
        values = amounts_in(text) if kind == "money" else dates_in(text)
        if (value := next(values, None)) or kind == "date":
            return value and value[0]
    if not (number := _NUMBER.search(text)):
        return None
    minus = bool(number["minus"])
    if kind == "money":
        around = text[: number.start("digits")] + text[number.end("digits") :]
        if re.search(r"[\w%]", around):
            return None
        # The dash of "5,-" stands for no cents.
        minus = bool(re.search(r"(?<![.,])[-−]|\(.*\)", around))
    return "-" * minus + number["digits"].replace(",", "")


def field_types(fields: Sequence[str]) -> Mapping[str, str]:
    """Return the types of fields by name; each is a text ``name:type`` or the name of a text.

    Raises:
        UsageError: there are none or too many, a name twice, or no name.
        UnknownNameError: a type is not one of :data:`FIELD_TYPES`.
    """
    types: dict[str, str] = {}
    for name, _, kind in (map(str.strip, pair.partition(":")) for pair in fields):
        if not re.fullmatch(r"[A-Za-z]\w{0,39}", name) or name in types:
            raise UsageError(f"the field {name[:60]!r}: expected a name of letters, digits and _")
        if kind and kind not in FIELD_TYPES:
            raise UnknownNameError("type of a field", kind[:60], FIELD_TYPES)
        types[name] = kind or "text"
    if not 0 < len(types) <= MAX_FIELDS:
        example = "as in --schema total:money,date:date"
        raise UsageError(f"{len(types)} fields; expected 1 to {MAX_FIELDS}, {example}")
    return types
