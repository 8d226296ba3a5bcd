"""Guards that a compiled program calls at every access: default deny, by exact type.

:meth:`Guards.namespace` lists them by the names that :mod:`viper.sandbox.policy` compiles calls to.
Reading an attribute looks up the exact type in the table of :mod:`viper.sandbox.readable`; what is
not there goes through ``_rare_attribute``, which knows the program's own classes, facades and
stand-ins, and refuses the rest. Writing is for the program's own objects and plain containers.
"""

from __future__ import annotations

import _string
import operator
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from viper.sandbox import readable
from viper.sandbox.arrays import ndarray
from viper.sandbox.classes import (
    METACLASSES,
    ForbiddenAttributeError,
    ForbiddenTypeError,
    ProgramEnumMeta,
    ProgramMeta,
    TextMember,
    owns,
    program_super,
    program_super_init,
)
from viper.sandbox.modules import Facade, member
from viper.sandbox.numpy_facade import plain, refuse_objects
from viper.sandbox.prepass import PREFIX, authored, hidden, is_special
from viper.sandbox.standard import NDARRAY, TOKENS, TypeToken, actual_class, offered

# Greatest number of bits of a whole number that ``**`` and ``<<`` may produce: far
# more than an answer; a step, which nothing interrupts, then stays below a second.
MAX_INT_BITS = 1 << 20

_EXACT: Any = (int, Fraction)
_AUGMENT: dict[str, Callable[[Any, Any], Any]] = {
    "+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv,
    "//=": operator.ifloordiv, "%=": operator.imod, "@=": operator.imatmul, "&=": operator.iand,
    "|=": operator.ior, "^=": operator.ixor, ">>=": operator.irshift,
}  # fmt: skip

# What ``type()`` returns for objects whose own type constructs more than programs may.
STAND_INS = {token.matches: token for token in (NDARRAY, *TOKENS)}

# Parts of an exception's arguments that are looked at: errors hold a few texts and numbers.
_MOST_VALUES = 1_000

# Types whose ``__name__`` a program may read: nothing else that has one is data.
_FUNCTIONS = frozenset([type(lambda: 0), type(len), type([].append), type(str.lower)])


class Guards:
    """The guards of one child.

    Args:
        attributes: those that the prelude allows besides the builtin ones, by exact type.
        provided: what the prelude provides as names. ``type()`` returns the classes among it; of
            its other classes, such as handles, programs may construct none.
    """

    def __init__(
        self, attributes: Mapping[type, frozenset[str]], provided: Iterable[object] = ()
    ) -> None:
        self._table: dict[type, frozenset[str]] = {**readable.BUILTIN, **attributes}
        self._known_types = set(readable.BUILTIN) - readable.UNNAMED
        self._known_types |= {value for value in provided if isinstance(value, type)}
        self._indexable = {*readable.INDEXABLE, *attributes}
        self.allowed: list[type] = []
        self.getattr = self._make_getattr()
        self._formatter = _GuardedFormatter(self)

    def allow(self, kind: type, names: frozenset[str]) -> None:
        """Let programs read these attributes on instances of a type that is created at run time.

        :attr:`allowed` lists such types; :meth:`forget` takes them back.
        """
        self.allowed.append(kind)
        self._table[kind] = names
        self._known_types.add(kind)
        self._indexable.add(kind)

    def forget(self) -> None:
        """Forget the types that were allowed since :attr:`allowed` was emptied."""
        while self.allowed:
            kind = self.allowed.pop()
            self._table.pop(kind, None)
            self._known_types.discard(kind)
            self._indexable.discard(kind)

    def namespace(self) -> dict[str, Any]:
        """Return the names that the rewritten code calls."""
        return {
            "_getattr_": self.getattr,
            "_getitem_": self.getitem,
            "_write_attr_": self.write_attr,
            "_write_item_": self.write_item,
            "_aug_attr_": self.aug_attr,
            "_aug_item_": self.aug_item,
            "_pow_": bounded_pow,
            "_shift_": bounded_shift,
            "_type_": self.type_of,
            "_match_class_": self.match_class,
            "_match_value_": match_value,
            "_name_of_": name_of,
            "_super_": program_super,
            "_super_init_": program_super_init,
            "__metaclass__": ProgramMeta,
        }

    # Reading

    def _make_getattr(self) -> Callable[[Any, str], Any]:
        table, read, rare = self._table, getattr, self._rare_attribute

        def guarded_getattr(obj: Any, name: str) -> Any:
            allowed = table.get(type(obj))
            if allowed is not None and name in allowed:
                return read(obj, name)
            return rare(obj, name)

        return guarded_getattr

    def _rare_attribute(self, obj: Any, name: str) -> Any:
        kind = type(obj)
        if type(name) is not str:
            raise TypeError("an attribute name must be a string")
        if name.startswith("_"):
            raise ForbiddenAttributeError(f"the attribute {name!r} is not allowed")
        if type(kind) in METACLASSES:  # an object of the program's own
            if name in obj.__dict__ or owns(kind, name):
                return getattr(obj, name)
            if isinstance(obj, BaseException):
                if name in readable.EXCEPTION_ATTRIBUTES:
                    return self._of_exception(obj, name)
                if name in readable.EXCEPTION_HIDDEN:
                    return self._refuse(obj, name)
            if isinstance(obj, TextMember):
                return self.getattr(obj.value, name)
            label = authored(kind.__name__)
            message = f"{label!r} object has no attribute {authored(name)!r}"
            raise AttributeError(message, name=name, obj=obj)
        if kind is str and name in ("format", "format_map"):
            return self._format(obj, name)
        if kind is ndarray and name in readable.ARRAY_METHODS and not obj.dtype.hasobject:
            return plain(getattr(obj, name))
        if kind is Facade:
            return member(obj, name)
        if kind in METACLASSES:
            if owns(obj, name):
                return getattr(obj, name)
        elif kind is TypeToken:
            if name in obj.members:
                return obj.members[name]
        elif kind is type:
            if name in readable.ON_TYPES.get(obj, ()):
                return getattr(obj, name)
        elif kind is super:
            if owns(type(obj.__self__), name):
                return getattr(obj, name)
        elif isinstance(obj, BaseException) and name in readable.EXCEPTION_ATTRIBUTES:
            return self._of_exception(obj, name)
        return self._refuse(obj, name)

    def _of_exception(self, obj: Any, name: str) -> Any:
        """Return an attribute of an exception if programs may hold all of it.

        A library puts its own objects into some exceptions, such as a ufunc of numpy.
        """
        pending, values = 0, [getattr(obj, name)]
        while pending < len(values):
            value = values[pending]
            pending += 1
            kind = type(value)
            if pending > _MOST_VALUES or not (
                kind in self._table
                or kind in (list, tuple, set, frozenset, dict)
                or type(kind) in METACLASSES
                or isinstance(value, BaseException)
                or (kind is ndarray and not value.dtype.hasobject)
            ):
                label = authored(type(obj).__name__)
                raise ForbiddenAttributeError(
                    f"{label!r} object: {name!r} holds what is no plain data; use str() of it"
                )
            if kind in (list, tuple, set, frozenset):
                values.extend(value)
            elif kind is dict:
                values.extend((*value.keys(), *value.values()))
        return values[0]

    def _refuse(self, obj: Any, name: str) -> Any:
        """Raise for an attribute: missing is the author's mistake, present is forbidden."""
        if isinstance(obj, type):
            label, exists = f"type object {obj.__name__!r}", hasattr(obj, name)
            allowed = readable.ON_TYPES.get(obj, frozenset())
        elif type(obj) is TypeToken:
            label, exists = f"type object {obj.label!r}", True
            allowed = frozenset(obj.members)
        else:
            label, exists = f"{authored(type(obj).__name__)!r} object", hasattr(type(obj), name)
            allowed = self._table.get(type(obj), frozenset())
            if isinstance(obj, BaseException):
                allowed = readable.EXCEPTION_ATTRIBUTES
        if exists:
            raise ForbiddenAttributeError(
                f"{label}: the attribute {authored(name)!r} is not allowed{offered(allowed)}"
            )
        message = f"{label} has no attribute {authored(name)!r}"
        raise AttributeError(message, name=name, obj=obj)

    def _format(self, template: str, name: str) -> Callable[..., str]:
        formatter = self._formatter
        if name == "format_map":
            return lambda mapping: formatter.vformat(template, (), mapping)
        return lambda *args, **kwargs: formatter.vformat(template, args, kwargs)

    def getitem(self, obj: Any, key: Any) -> Any:
        """Return ``obj[key]``."""
        kind = type(obj)
        if kind in self._indexable or type(kind) in METACLASSES:
            return obj[key]
        if kind is ProgramEnumMeta or kind is TypeToken:
            return obj[key]
        if kind is type:
            if obj in (list, dict, tuple, set, frozenset, type):
                return obj[key]
            raise TypeError(f"type {obj.__name__!r} is not subscriptable")
        raise TypeError(f"{authored(kind.__name__)!r} object is not subscriptable")

    # Writing

    def write_attr(self, obj: Any) -> Any:
        """Return ``obj`` if its attributes may be assigned, which holds only for the program's own
        objects.
        """
        if type(type(obj)) in METACLASSES or type(obj) in METACLASSES:
            return obj
        raise ForbiddenAttributeError(
            f"attributes of {_a(type(obj).__name__)} cannot be assigned; those of "
            "objects of your own classes can"
        )

    def write_item(self, obj: Any) -> Any:
        """Return ``obj`` if its items may be assigned."""
        kind = type(obj)
        if kind is ndarray:
            return refuse_objects(obj)
        if kind in readable.WRITABLE_ITEMS or type(kind) in METACLASSES:
            return obj
        raise ForbiddenTypeError(
            f"items of {_a(kind.__name__)} cannot be assigned; those of lists, dicts and arrays can"
        )

    def aug_attr(self, obj: Any, name: str, op: str, value: Any) -> None:
        """Execute ``obj.name op value``."""
        setattr(self.write_attr(obj), name, augment(op, self.getattr(obj, name), value))

    def aug_item(self, obj: Any, key: Any, op: str, value: Any) -> None:
        """Execute ``obj[key] op value``."""
        self.write_item(obj)[key] = augment(op, self.getitem(obj, key), value)

    # Builtins that take names or types

    def builtin_getattr(self, obj: Any, name: str, *default: Any) -> Any:
        """Implement ``getattr`` for programs."""
        if len(default) > 1:
            raise TypeError("getattr takes at most 3 arguments")
        try:
            return self.getattr(obj, _own_name(name))
        except AttributeError:
            if default:
                return default[0]
            raise

    def builtin_hasattr(self, obj: Any, name: str) -> bool:
        """Implement ``hasattr`` for programs; attributes they may not read count as missing."""
        missing = object()
        return self.builtin_getattr(obj, name, missing) is not missing

    def builtin_setattr(self, obj: Any, name: str, value: Any) -> None:
        """Implement ``setattr`` for programs."""
        setattr(self.write_attr(obj), _own_name(name), value)

    def builtin_delattr(self, obj: Any, name: str) -> None:
        """Implement ``delattr`` for programs."""
        delattr(self.write_attr(obj), _own_name(name))

    def type_of(self, obj: Any) -> Any:
        """Return ``type(obj)``, for data and the program's own objects."""
        kind = type(obj)
        if kind in STAND_INS:
            return STAND_INS[kind]
        if kind in self._known_types or type(kind) in METACLASSES or isinstance(obj, Exception):
            return kind
        raise ForbiddenTypeError(
            f"type() of {_a(kind.__name__)} is not allowed; it is for data and for "
            "objects of your own classes"
        )

    # Patterns of match, which the interpreter compares without asking

    def match_class(self, cls: Any, positions: int, names: tuple[str, ...]) -> type:
        """Return the class of a class pattern that may read these attributes."""
        kind = actual_class(cls)
        if not isinstance(kind, type):
            raise TypeError("a class pattern needs a class, such as str or one of your own")
        names += tuple(getattr(kind, "__match_args__", ())[:positions])
        if type(kind) in METACLASSES:
            builtin = readable.EXCEPTION_HIDDEN if issubclass(kind, BaseException) else frozenset()
            refused = [name for name in names if name in builtin]
        elif issubclass(kind, BaseException):
            refused = [name for name in names if name not in readable.EXCEPTION_ATTRIBUTES]
        else:
            allowed = self._table.get(kind, frozenset()) if kind is not ndarray else ()
            refused = [name for name in names if name not in allowed]
        if refused:
            raise ForbiddenAttributeError(
                f"a pattern of {authored(kind.__name__)} cannot read {authored(refused[0])!r}; "
                "match the type alone and read attributes in the body"
            )
        if issubclass(kind, BaseException):
            read = [name for name in names if name in readable.EXCEPTION_ATTRIBUTES]
            if read:
                check = partial(self._may_be_read, kind, read)
                members = {"holder": [check], "__match_args__": getattr(kind, "__match_args__", ())}
                return _Checked("exception", (), members)
        return kind

    def _may_be_read(self, kind: type, names: Sequence[str], obj: Any) -> bool:
        return isinstance(obj, kind) and all(
            hasattr(obj, name) and (self._of_exception(obj, name), True)[1] for name in names
        )


class _Checked(type):
    """Metaclass of a class whose instances are the objects that a function accepts."""

    holder: list[Callable[[Any], bool]]

    def __instancecheck__(cls, obj: Any) -> bool:
        return cls.holder[0](obj)


def match_value(value: Any) -> type:
    """Return a class for a pattern that stands for a value, such as ``Color.RED``."""
    return _Checked("value", (), {"holder": [lambda obj: bool(obj == value)]})


def _own_name(name: Any) -> str:
    """Return the rewritten form of an attribute name that a program built at run time."""
    if type(name) is not str:
        raise TypeError("an attribute name must be a string")
    if is_special(name) or name.startswith(PREFIX):
        raise ForbiddenAttributeError(
            f"the attribute {name!r} is not allowed; names must not begin with __ or {PREFIX}"
        )
    return hidden(name)


def name_of(obj: Any) -> str:
    """Return ``obj.__name__`` of a class or function."""
    if type(obj) is TypeToken:
        return obj.label
    if isinstance(obj, type) or type(obj) in _FUNCTIONS:
        return authored(str(obj.__name__))
    raise AttributeError(f"{authored(type(obj).__name__)!r} object has no attribute '__name__'")


def augment(op: str, left: Any, right: Any) -> Any:
    """Return ``left op right``, in place if the left side supports it."""
    if op == "**=":
        return bounded_pow(left, right)
    if op == "<<=":
        return bounded_shift(left, right)
    return _AUGMENT[op](left, right)


def bounded_pow(base: Any, exponent: Any, *modulus: Any) -> Any:
    """Return ``base ** exponent``, but refuse whole numbers beyond ``MAX_INT_BITS`` bits."""
    if (
        not modulus
        and isinstance(base, _EXACT)
        and isinstance(exponent, _EXACT)
        and exponent.denominator == 1
        and (exponent > 0 or type(base) is Fraction)
        and _bits(base) * abs(exponent) > MAX_INT_BITS
        and abs(base) != 1
    ):
        raise OverflowError(f"{_short(base)} ** {_short(exponent)} is too large")
    return pow(base, exponent, *modulus)


def bounded_shift(left: Any, right: Any) -> Any:
    """Return ``left << right``, with the same bound."""
    are_whole = isinstance(left, int) and isinstance(right, int)
    if are_whole and left.bit_length() + right > MAX_INT_BITS:
        raise OverflowError(f"a shift by {_short(right)} bits is too large")
    return left << right


def _bits(number: int | Fraction) -> int:
    return max(number.numerator.bit_length(), number.denominator.bit_length())


def _short(number: int | Fraction) -> str:
    # 30 digits still fit a message, and Python refuses to print more than 4,300
    return str(number) if _bits(number) < 100 else "a huge number"


def _a(type_name: str) -> str:
    """Return the name of a type, as the program wrote it, with its article."""
    name = authored(type_name)
    return f"an {name}" if name[:1] in "AEIOaeio" else f"a {name}"


class _GuardedFormatter(string.Formatter):
    """A ``str.format`` that passes field names through the guards."""

    def __init__(self, guards: Guards) -> None:
        self._guards = guards

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        first, rest = _string.formatter_field_name_split(field_name)
        if type(first) is str and first not in kwargs:
            first = hidden(first)  # a keyword argument _x of the author
        obj = self.get_value(first, args, kwargs)
        for is_attribute, key in rest:
            if is_attribute:
                obj = self._guards.getattr(obj, _own_name(key))
            else:
                obj = self._guards.getitem(obj, key)
        return obj, first
