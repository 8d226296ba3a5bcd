"""Classes that a program defines: their metaclass, ``super`` and ``dataclass``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from viper.sandbox.prepass import FIELDS, PREFIX, authored


class Forbidden:
    """Mixin for exceptions that mean "not allowed here"; it is combined with builtin exceptions."""


class ForbiddenTypeError(Forbidden, TypeError):
    """A value of this type may not be used in this way."""


class ForbiddenAttributeError(Forbidden, AttributeError):
    """An attribute exists but programs may not read it."""


class ForbiddenImportError(Forbidden, ImportError):
    """Programs may not import this module."""


_EXCEPTION_BASES = frozenset(
    [
        Exception, ValueError, TypeError, KeyError, IndexError, LookupError, RuntimeError,
        ArithmeticError, ZeroDivisionError, AssertionError, NotImplementedError,
    ]
)  # fmt: skip


def _no_array(self: object, *_: Any, **__: Any) -> Any:
    raise ForbiddenTypeError("arrays of objects are not available to programs: use a list")


NEVER_IN_ARRAYS: dict[str, Any] = {"__array__": _no_array, "__array_ufunc__": None}
"""Attributes of every class of a program; numpy asks elements for them and then refuses these."""


class ProgramMeta(type):
    """Metaclass of every class of a program.

    Bases may be ``object``, plain exceptions, and the program's own classes. A subclass of ``str``
    or of an API class would inherit methods that bypass the guards.
    """

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> ProgramMeta:
        for base in bases:
            if (
                base is not object
                and base not in _EXCEPTION_BASES
                and type(base) is not ProgramMeta
            ):
                label = getattr(base, "__name__", type(base).__name__)
                raise ForbiddenTypeError(f"a class cannot be derived from {label}")
        return super().__new__(mcs, name, bases, {**namespace, **NEVER_IN_ARRAYS})


def owns(cls: type, name: str) -> bool:
    """Return whether the class, or a class of the program above it, defines ``name``."""
    return any(type(base) is ProgramMeta and name in base.__dict__ for base in cls.__mro__)


def program_super(cls: type, obj: object) -> super:
    """Return ``super()`` for a method of a program's class."""
    if type(cls) is not ProgramMeta or not isinstance(obj, cls):
        raise ForbiddenTypeError("super() is only for methods of your own classes")
    return super(cls, obj)


def program_super_init(cls: type, obj: object) -> Callable[..., None]:
    """Return ``super().__init__`` for a method of a program's class."""
    return program_super(cls, obj).__init__  # type: ignore[misc]


class _Missing:
    def __repr__(self) -> str:
        return "<missing>"


MISSING = _Missing()
_DEFAULTS = PREFIX + ".defaults"


class Field:
    """The value of ``field(...)`` inside a dataclass body."""

    __slots__ = ("default", "factory")

    def __init__(self, default: Any, factory: Any) -> None:
        self.default, self.factory = default, factory


def field(*, default: Any = MISSING, default_factory: Any = MISSING, **_: Any) -> Field:
    """Return a dataclass field with a default value or a default factory."""
    return Field(default, default_factory)


def dataclass(cls: Any = None, /, *, frozen: bool = False, order: bool = False, **_: Any) -> Any:
    """Turn a program's class into a dataclass, as ``@dataclass`` does.

    Differs: the standard decorator builds source text and runs it with ``exec``; this one uses
    closures. ``frozen`` is accepted and not enforced.
    """
    if cls is None:
        return lambda actual: dataclass(actual, frozen=frozen, order=order)
    if type(cls) is not ProgramMeta:
        raise ForbiddenTypeError("@dataclass is only for your own classes")
    names = _field_names(cls)
    defaults = {name: getattr(cls, name) for name in names if hasattr(cls, name)}
    for name, default in defaults.items():
        if type(default) is Field and name in cls.__dict__:
            if default.default is MISSING:
                type.__delattr__(cls, name)
            else:
                setattr(cls, name, default.default)
    defaults = {**getattr(cls, _DEFAULTS, {}), **defaults}
    setattr(cls, _DEFAULTS, defaults)
    _add_methods(cls, names, defaults, frozen, order)
    return cls


def _field_names(cls: type) -> list[str]:
    names: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        names.update(dict.fromkeys(base.__dict__.get(FIELDS, ())))
    return list(names)


def _add_methods(
    cls: Any, names: list[str], defaults: dict[str, Any], frozen: bool, order: bool
) -> None:
    def values(obj: Any) -> tuple[Any, ...]:
        return tuple(getattr(obj, name) for name in names)

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if len(args) > len(names):
            raise TypeError(f"{cls.__name__}() takes {len(names)} arguments, got {len(args)}")
        arguments = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in names or name in arguments:
                raise TypeError(f"{cls.__name__}() got an unexpected argument {authored(name)!r}")
            arguments[name] = value
        for name in names:
            value = arguments[name] if name in arguments else _default(cls, name, defaults)
            setattr(self, name, value)
        after = getattr(self, "__post_init__", None)
        if after is not None:
            after()

    def represent(self: Any) -> str:
        fields = ", ".join(f"{authored(name)}={getattr(self, name)!r}" for name in names)
        return f"{authored(cls.__name__)}({fields})"

    def equal(self: Any, other: Any) -> Any:
        return values(self) == values(other) if type(other) is type(self) else NotImplemented

    def less(self: Any, other: Any) -> Any:
        return values(self) < values(other) if type(other) is type(self) else NotImplemented

    methods: dict[str, Any] = {"__init__": init, "__repr__": represent, "__eq__": equal}
    if order:
        methods["__lt__"] = less
    if frozen:
        methods["__hash__"] = lambda self: hash(values(self))
    for name, method in methods.items():
        if name not in cls.__dict__ or name == "__hash__":
            setattr(cls, name, method)


def _default(cls: type, name: str, defaults: dict[str, Any]) -> Any:
    value = defaults.get(name, MISSING)
    if type(value) is Field:
        value = value.factory() if value.factory is not MISSING else value.default
    if value is MISSING:
        raise TypeError(f"{cls.__name__}() is missing the argument {authored(name)!r}")
    return value


def asdict(obj: Any) -> dict[str, Any]:
    """Return the fields of a program's dataclass instance, nested instances included."""
    if type(type(obj)) is not ProgramMeta:
        raise ForbiddenTypeError("asdict() is only for instances of your own dataclasses")
    return {authored(name): _plain(getattr(obj, name)) for name in _field_names(type(obj))}


def _plain(value: Any) -> Any:
    if type(type(value)) is ProgramMeta and hasattr(type(value), FIELDS):
        return asdict(value)
    if type(value) in (list, tuple):
        return type(value)(_plain(item) for item in value)
    if type(value) is dict:
        return {key: _plain(item) for key, item in value.items()}
    return value
