"""Classes that a program may name but not inspect, and the standard modules made of them.

A :class:`TypeToken` stands in for a real class. :mod:`viper.sandbox.modules` puts the parts of
``enum``, ``datetime``, ``time``, ``fractions`` and ``contextlib`` that are defined here into the
modules of programs; :mod:`viper.sandbox.guards` resolves the tokens in ``isinstance`` and ``type``.

Nothing here tells the time of day or measures it: a program could tell machines and runs apart, and
its answer would not repeat. The classes of ``datetime`` are stand-ins, because the real ones also
accept the bytes of a pickle, which they hardly check.
"""

from __future__ import annotations

import _strptime  # noqa: F401  (loaded on first use otherwise, which a locked child cannot do)
import datetime
import fractions
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from types import GeneratorType, MappingProxyType, NoneType
from typing import Any

from viper.sandbox.arrays import ndarray
from viper.sandbox.classes import BASES, Auto, Enum, ForbiddenTypeError, ProgramEnumMeta

# Characters of a list of names in a refusal: the longest list that a prompt can carry whole; of
# numpy's 200 names only the closest are told.
_MAX_LISTED = 380

# Digits of the exponent of a fraction that is written as a text: "1e9999" is already a number of
# 10,000 digits, and one more digit would fill the memory.
_MAX_EXPONENT = 4


class OrderedDict(dict[Any, Any]):
    """``collections.OrderedDict`` on a dict, which is ordered as well.

    That of CPython keeps a second list of keys, and ends the process if the ``__eq__`` of a key
    changes it.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def move_to_end(self, key: Any, last: bool = True) -> None:
        """Move a key to the end, or to the beginning."""
        value = self.pop(key)
        rest = [] if last else list(self.items())
        for name, _ in rest:
            del self[name]
        self[key] = value
        self.update(rest)

    def popitem(self, last: bool = True) -> tuple[Any, Any]:
        """Remove the last item, or the first one, and return it."""
        for key in reversed(self) if last else self:
            return key, self.pop(key)
        raise KeyError("dictionary is empty")

    def copy(self) -> OrderedDict:
        return OrderedDict(self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, OrderedDict):
            return list(self.items()) == list(other.items())
        return dict.__eq__(self, other)

    def __repr__(self) -> str:
        items = list(self.items())
        return f"OrderedDict({dict(items) if sys.version_info >= (3, 12) else items})"


class TypeToken:
    """One such type.

    Args:
        label: its printed name.
        matches: the type that ``isinstance`` tests for when a program names the token.
        make: what a call of the token does; by default it cannot be called.
        members: attributes that programs may read, such as alternative constructors.
    """

    __slots__ = ("label", "make", "matches", "members")

    def __init__(
        self,
        label: str,
        matches: type | tuple[Any, ...] = (),
        make: Callable[..., Any] | None = None,
        members: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.label, self.matches, self.make, self.members = label, matches, make, members

    def __repr__(self) -> str:
        return self.label

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.make is None:
            raise TypeError(f"{self.label} is for annotations and isinstance(); it makes no object")
        return self.make(*args, **kwargs)

    def __getitem__(self, key: Any) -> TypeToken:
        if self.label not in ("Union", "Optional"):
            return self
        parts = key if type(key) is tuple else (key,)
        return _union(*parts, *([None] if self.label == "Optional" else []))

    def __mro_entries__(self, bases: object) -> tuple[type, ...]:
        raise ForbiddenTypeError(f"a class cannot be derived from {self.label}; {BASES}")

    def __or__(self, other: object) -> TypeToken:
        return _union(self, other)

    def __ror__(self, other: object) -> TypeToken:
        return _union(other, self)


def _union(*parts: Any) -> TypeToken:
    matches = tuple(NoneType if part is None else actual_class(part) for part in parts)
    return TypeToken("Union", matches)


def actual_class(kind: Any) -> Any:
    """Return the type, or tuple of types, that a program means by a class or a stand-in."""
    return kind.matches if type(kind) is TypeToken else kind


def offered(names: Iterable[str], wanted: str = "") -> str:
    """Return the end of a refusal: the names that there are, or the closest of many."""
    names = sorted(names)
    if len(", ".join(names)) > _MAX_LISTED:
        names = get_close_matches(wanted, names, 5, cutoff=0.5)
        return f"; close to it: {', '.join(names)}" if names else ""
    return f"; it offers {', '.join(names)}" if names else ""


# Stand-in for ``numpy.ndarray``, whose constructor reads any memory; programs never get it.
NDARRAY = TypeToken("ndarray", ndarray)


class IntEnum(int, Enum):  # type: ignore[misc]
    """The ``IntEnum`` of programs."""

    def __str__(self) -> str:
        return str(self.value)


class StrEnum(str, Enum):  # type: ignore[misc]
    """The ``StrEnum`` of programs."""

    def __str__(self) -> str:
        return str(self.value)


def _unique(cls: Any) -> Any:
    """Implement ``enum.unique``."""
    if type(cls) is not ProgramEnumMeta:
        raise ForbiddenTypeError("@unique is only for your own enumerations")
    aliases = [name for name, member in cls._members.items() if member.name != name]
    if aliases:
        raise ValueError(f"duplicate values found in {cls!r}: {', '.join(aliases)}")
    return cls


ENUM = {"Enum": Enum, "IntEnum": IntEnum, "StrEnum": StrEnum, "auto": Auto, "unique": _unique}


def _token(kind: Any, members: str, make: Callable[..., Any] | None = None) -> TypeToken:
    chosen = {name: getattr(kind, name) for name in members.split()}
    return TypeToken(kind.__name__, kind, make or kind, chosen)


def _token_of_numbers(kind: Any, members: str) -> TypeToken:
    """Return the stand-in of a class of ``datetime``, without its form that reads a pickle."""

    def make(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            if isinstance(value, str | bytes):
                raise TypeError(f"{kind.__name__}() takes numbers, not {type(value).__name__}")
        return kind(*args, **kwargs)

    return _token(kind, members, make)


def _fraction(numerator: Any = 0, denominator: Any = None) -> fractions.Fraction:
    if type(numerator) is str:
        exponent = numerator.lower().partition("e")[2].strip(" +-_0")
        if len(exponent) > _MAX_EXPONENT:
            raise OverflowError("a fraction with such an exponent is too large")
    return fractions.Fraction(numerator, denominator)


_RANGE = "min max resolution"
_DATE = "isoformat strftime weekday isoweekday isocalendar toordinal timetuple ctime replace"
_TIME = "isoformat strftime replace"
_ON_DATE = f"{_RANGE} fromisoformat fromordinal fromisocalendar {_DATE}"
DATETIME = {
    "date": _token_of_numbers(datetime.date, _ON_DATE),
    "datetime": _token_of_numbers(datetime.datetime, f"{_ON_DATE} strptime combine date time"),
    "time": _token_of_numbers(datetime.time, f"{_RANGE} fromisoformat {_TIME}"),
    "timedelta": _token(datetime.timedelta, f"{_RANGE} total_seconds"),
    "timezone": _token(datetime.timezone, "utc min max"),
    "UTC": datetime.UTC,
}
FRACTIONS = {"Fraction": _token(fractions.Fraction, "from_float", _fraction)}
_STRUCT_TIME = TypeToken(
    "struct_time", time.struct_time, lambda parts: time.struct_time(tuple(parts)[:9])
)
# The stand-ins for classes of these modules.
TOKENS = (
    *(token for token in DATETIME.values() if type(token) is TypeToken),
    *FRACTIONS.values(),
    _STRUCT_TIME,
)

_FIELDS = "year month day hour minute second microsecond tzinfo fold"
# Readable attributes of the objects of these modules, by exact type.
READABLE: dict[type, frozenset[str]] = {
    kind: frozenset(names.split())
    for kind, names in {
        datetime.date: f"{_RANGE} {_DATE} year month day",
        datetime.datetime: (
            f"{_RANGE} {_DATE} {_FIELDS} date time timetz astimezone utcoffset tzname utctimetuple"
        ),
        datetime.time: f"{_RANGE} {_TIME} {_FIELDS} utcoffset tzname",
        datetime.timedelta: f"{_RANGE} days seconds microseconds total_seconds",
        datetime.timezone: "utcoffset tzname utc",
        type(datetime.date.min.isocalendar()): "year week weekday",
        fractions.Fraction: "numerator denominator limit_denominator as_integer_ratio",
        time.struct_time: (
            "tm_year tm_mon tm_mday tm_hour tm_min tm_sec tm_wday tm_yday tm_isdst count index"
        ),
    }.items()
}


def _sleep(seconds: float) -> None:
    """Implement ``time.sleep``: it checks its argument and does not wait."""
    if not seconds >= 0:
        raise ValueError("sleep length must be non-negative")


TIME = {
    "sleep": _sleep,
    "struct_time": _STRUCT_TIME,
    "strftime": lambda text, moment: time.strftime(text, moment),
    "strptime": lambda text, form="%a %b %d %H:%M:%S %Y": time.strptime(text, form),
    "gmtime": lambda seconds: time.gmtime(_given(seconds)),
    "asctime": lambda moment: time.asctime(_given(moment)),
}


def _given(value: Any) -> Any:
    if value is None:
        raise TypeError("programs have no clock: pass the time that is meant")
    return value


class _Manager:
    """What a call of a function marked with ``@contextmanager`` returns."""

    __slots__ = ("_steps",)

    def __init__(self, steps: Iterator[Any]) -> None:
        if type(steps) is not GeneratorType:
            raise TypeError("@contextmanager is for functions with one yield")
        self._steps = steps

    def __enter__(self) -> Any:
        for value in self._steps:
            return value
        raise RuntimeError("generator didn't yield")

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        steps: Any = self._steps
        if error is None:
            for _ in steps:
                raise RuntimeError("generator didn't stop")
            return False
        try:
            steps.throw(error)
        except StopIteration as stopped:
            return stopped is not error
        except RuntimeError as raised:
            if raised is error or isinstance(error, StopIteration) and raised.__cause__ is error:
                return False
            raise
        except BaseException as raised:
            if raised is error:
                return False
            raise
        raise RuntimeError("generator didn't stop after throw()")


class _Suppress:
    __slots__ = ("_kinds",)

    def __init__(self, *kinds: Any) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        return isinstance(error, Exception) and isinstance(error, self._kinds)


class _Entered:
    """The context manager of a value; ``close`` runs at its end."""

    __slots__ = ("_close", "_value")

    def __init__(self, value: Any, close: Callable[[], Any]) -> None:
        self._value, self._close = value, close

    def __enter__(self) -> Any:
        return self._value

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._close()


def contextlib_members(read_attribute: Callable[..., Any]) -> dict[str, Any]:
    """Return the names of ``contextlib``; those that keep callbacks or redirect output are out.

    Args:
        read_attribute: attribute access for ``closing``.
    """
    return {
        "contextmanager": lambda make: lambda *args, **kwargs: _Manager(make(*args, **kwargs)),
        "suppress": _Suppress,
        "closing": lambda value: _Entered(value, read_attribute(value, "close")),
        "nullcontext": lambda value=None: _Entered(value, lambda: None),
    }
