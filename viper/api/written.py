"""Values that documents print: amounts of money, dates and numbers in a line of text.

Dates are matched in the few forms that documents use. Parsers of free text such as ``dateutil``
take any number for a part of a date and do not tell its place in the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from viper.errors import UnknownNameError, UsageError

# Types of the fields of task ``extract``.
FIELD_TYPES = ("text", "money", "number", "date")

# A form of more fields than this is several documents.
MAX_FIELDS = 32

_NAME = re.compile(r"[A-Za-z]\w{0,39}")


class Written(NamedTuple):
    """A value in a line as plain text, read from the characters ``[start, end)``.

    An amount is a decimal number such as ``-1007.50``, a date is ISO 8601.
    """

    value: str
    start: int
    end: int


# Two decimals tell an amount from counts, times and codes. Text recognition puts spaces around the
# point. A percentage is no amount, nor is a part of a longer number, date or time.
_AMOUNT = re.compile(
    r"(?<![0-9.,:/])(?P<minus>-?)\s?(?:RM|MYR|SGD|USD|EUR|GBP|[$€£])?\s?(?P<inner>-?)(?P<whole>"
    r"[0-9]{1,3}(?:,[0-9]{3}){1,3}(?=\s?\.)|[0-9]{1,3}(?:\.[0-9]{3}){1,3}(?=\s?,)|[0-9]{1,12})"
    r"\s?[.,]\s?(?P<cents>[0-9]{2})(?![0-9]|[.,:/][0-9]|\s?%)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# A time may follow without a space, because text recognition joins words.
_END = r"(?:(?![0-9])|(?=[0-9]{1,2}:[0-9]{2}))"
_FULL_YEAR, _DAY, _MONTH = (
    r"(?P<year>(?:19|20)[0-9]{2})",
    r"(?P<day>[0-9]{1,2})",
    r"(?P<month>[0-9]{1,2})",
)
_YEAR, _NAMED = r"(?P<year>(?:19|20)[0-9]{2}|[0-9]{2})", r"(?P<name>[a-z]{3,9})"
_FIRST, _SAME = r"(?P<mark>\s?[-/.]\s?)", r"(?P=mark)"
_DATES = [
    re.compile(pattern + _END, re.IGNORECASE)
    for pattern in (
        rf"(?<![0-9]){_FULL_YEAR}{_FIRST}{_MONTH}{_SAME}{_DAY}",
        rf"(?<![0-9]){_DAY}{_FIRST}{_MONTH}{_SAME}{_YEAR}",
        rf"(?<![0-9]){_DAY}[-/., ]{{0,2}}{_NAMED}[-/., ]{{0,2}}{_YEAR}",
        rf"\b{_NAMED}[-. ]{{0,2}}{_DAY}[-, ]{{1,2}}{_YEAR}",
    )
]


def amounts_in(text: str) -> Iterator[Written]:
    """Yield the amounts of money in a line, from left to right."""
    for match in _AMOUNT.finditer(text):
        minus = "-" if match["minus"] or match["inner"] else ""
        whole = re.sub("[,.]", "", match["whole"]).lstrip("0") or "0"
        yield Written(f"{minus}{whole}.{match['cents']}", *match.span())


def dates_in(text: str) -> Iterator[Written]:
    """Yield the dates in a line. The day stands before the month unless only the other order is a
    date. Years of two digits are of this century.
    """
    for match in (each for form in _DATES for each in form.finditer(text)):
        parts = match.groupdict()
        year, day = int(parts["year"]), int(parts["day"])
        name = (parts.get("name") or "")[:3].lower()
        month = int(parts.get("month") or (_MONTHS.index(name) + 1 if name in _MONTHS else 0))
        month, day = (day, month) if month > 12 and not name else (month, day)
        try:
            value = date(year + 2000 * (year < 100), month, day)
        except ValueError:
            continue
        yield Written(value.isoformat(), *match.span())


def typed(kind: str, text: str) -> str | None:
    """Return the first value of a field's type in a text, or None if there is none.

    Money without decimals counts if the text is nothing but one number.
    """
    if kind == "text":
        return " ".join(text.split()) or None
    if kind == "date":
        return next((found.value for found in dates_in(text)), None)
    if kind == "money" and (amount := next(amounts_in(text), None)):
        return amount.value
    number = _NUMBER.search(text)
    if number is None or (kind == "money" and re.search(r"\w", text.replace(number[0], ""))):
        return None
    return number[0]


def field_types(fields: Sequence[str]) -> Mapping[str, str]:
    """Return the types of fields by name; each is a text ``name:type``.

    Raises:
        UsageError: there are none or too many, a name twice, or no name.
        UnknownNameError: a type is not one of :data:`FIELD_TYPES`.
    """
    types: dict[str, str] = {}
    for pair in fields:
        name, _, kind = (part.strip() for part in pair.partition(":"))
        if not _NAME.fullmatch(name) or name in types:
            expected = "each name once, of letters, digits and _, as in total:money,date:date"
            raise UsageError(f"the field {pair[:60]!r}: expected {expected}")
        if (kind or "text") not in FIELD_TYPES:
            raise UnknownNameError("type of a field", kind[:60], FIELD_TYPES)
        types[name] = kind or "text"
    if not 0 < len(types) <= MAX_FIELDS:
        raise UsageError(
            f"{len(types)} fields; expected 1 to {MAX_FIELDS}, as in --schema total:money,date:date"
        )
    return types
