"""Classes that a program defines: their metaclass, ``super``, enumerations and ``dataclass``.

The policy gives every class statement the metaclass :class:`ProgramMeta`, which refuses bases that
would bring methods past the guards. The guards recognise a program's own objects by it. Python's
``Enum`` and ``dataclass`` reach too far into the interpreter, so both are written anew here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from viper.sandbox.prepass import FIELDS, MATCH_ARGS, PREFIX, authored, hidden, is_special


class Forbidden:
    """Mixin for exceptions that mean "not allowed here"; it is combined with builtin exceptions."""


class ForbiddenTypeError(Forbidden, TypeError):
    """A value of this type may not be used in this way."""


class ForbiddenAttributeError(Forbidden, AttributeError):
    """An attribute exists but programs may not read it."""


class ForbiddenImportError(Forbidden, ImportError):
    """Programs may not import this module."""


# Of exceptions only those without fields of their own: OSError and others carry objects and files.
_PLAIN_BASES = frozenset(
    [
        object, Exception, ValueError, TypeError, KeyError, IndexError, LookupError, RuntimeError,
        ArithmeticError, ZeroDivisionError, AssertionError, NotImplementedError,
    ]
)  # fmt: skip


def _no_array(self: object, *_: Any, **__: Any) -> Any:
    raise ForbiddenTypeError("arrays of objects are not available to programs: use a list")


# Attributes of every class of a program; numpy asks elements for them and then refuses these.
NEVER_IN_ARRAYS: dict[str, Any] = {"__array__": _no_array, "__array_ufunc__": None}


class ProgramMeta(type):
    """Metaclass of every class of a program.

    Bases may be ``object``, plain exceptions, and the program's own classes. A subclass of ``str``
    or of an API class would inherit methods that bypass the guards.
    """

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> ProgramMeta:
        for base in bases:
            if base not in _PLAIN_BASES and type(base) not in METACLASSES:
                label = getattr(base, "__name__", type(base).__name__)
                raise ForbiddenTypeError(f"a class cannot be derived from {label}; {BASES}")
        namespace = {**namespace, **NEVER_IN_ARRAYS}
        if "__exit__" in namespace:
            namespace["__exit__"] = _without_traceback(namespace["__exit__"])
        if MATCH_ARGS in namespace:  # the attributes that positional patterns read
            names = namespace[MATCH_ARGS]
            if type(names) is not tuple or not all(
                type(each) is str and each.isidentifier() and not is_special(each) for each in names
            ):
                raise ForbiddenTypeError("__match_args__ must be a tuple of names of attributes")
            namespace["__match_args__"] = tuple(map(hidden, names))
        return super().__new__(mcs, name, bases, namespace)


class ProgramEnumMeta(ProgramMeta):
    """Metaclass of a program's enumerations.

    Differs: ``class Color(str, Enum)`` does not derive from ``str``, whose methods would bypass the
    guards; its members compare and add like their value, and pass its methods on.
    """

    _members: dict[str, Any]

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]
    ) -> ProgramEnumMeta:
        bases = tuple(_MIXINS.get(base, base) for base in bases)
        for base in bases:
            if getattr(base, "_members", None):
                raise TypeError(f"{authored(base.__name__)} has members and cannot be extended")
        rest, values = dict[str, Any](), dict[str, Any]()
        for key, value in namespace.items():
            is_reserved = key.startswith(("_", PREFIX + "_", PREFIX + "."))
            (rest if is_reserved or hasattr(type(value), "__get__") else values)[key] = value
        cls: Any = super().__new__(mcs, name, bases, rest)
        type.__setattr__(cls, "_members", {})
        plain = next((kind for kind, mixin in _MIXINS.items() if issubclass(cls, mixin)), None)
        last = 0
        for key, value in values.items():
            if type(value) is Auto:
                value = key.lower() if plain is str else last + 1
            last = value if type(value) is int else last
            if plain is not None and type(value) is not plain:
                must = f"must be of type {plain.__name__}"
                raise TypeError(f"the value of {key} {must}, not {value!r}")
            member = next((each for each in cls._members.values() if each.value == value), None)
            if member is None:
                member = object.__new__(cls)
                pair = {"name": key, "value": value}
                member.__dict__.update(pair | {hidden(f"_{k}_"): item for k, item in pair.items()})
                if owns(cls, "__init__"):
                    cls.__init__(member, *(value if type(value) is tuple else (value,)))
            cls._members[key] = member
            type.__setattr__(cls, key, member)
        return cls  # type: ignore[no-any-return]

    def __call__(cls, value: Any, names: Any = None) -> Any:
        if names is not None:
            return _functional(cls, value, names)
        for member in cls._members.values():
            if member is value or member.value == value:
                return member
        missing = getattr(cls, hidden("_missing_"), None)
        member = missing(value) if missing is not None else None
        if type(member) is cls:
            return member
        raise ValueError(f"{value!r} is not a valid {authored(cls.__name__)}")

    def __getitem__(cls, name: str) -> Any:
        return cls._members[name]

    def __iter__(cls) -> Iterator[Any]:
        return iter([member for name, member in cls._members.items() if member.name == name])

    def __len__(cls) -> int:
        return sum(1 for _ in cls)

    def __bool__(cls) -> bool:
        return True

    def __contains__(cls, value: Any) -> bool:
        return any(member is value or member.value == value for member in cls)

    def __setattr__(cls, name: str, value: Any) -> None:
        if name in cls._members:
            raise AttributeError(f"cannot reassign member {name!r}")
        super().__setattr__(name, value)

    def __repr__(cls) -> str:
        return f"<enum {authored(cls.__name__)!r}>"


# The types of a program's classes.
METACLASSES = frozenset([ProgramMeta, ProgramEnumMeta])

BASES = "derive it from your own classes, from exceptions such as ValueError, or from Enum"


class Auto:
    """The value of ``auto()`` in the body of an enumeration."""

    __slots__ = ()


def _functional(cls: Any, label: Any, names: Any) -> Any:
    """Return the enumeration of ``Enum("Color", "RED GREEN")``; also lists, pairs and dicts."""
    if type(names) is str:
        names = names.replace(",", " ").split()
    pairs = names.items() if type(names) is dict else names
    if type(label) is not str or type(names) not in (list, tuple, dict):
        raise TypeError("write Enum('Color', ['RED', 'GREEN'])")
    pairs = [(pair, Auto()) if type(pair) is str else tuple(pair) for pair in pairs]
    for name, _ in pairs:
        if type(name) is not str or not name.isidentifier() or name.startswith("_"):
            raise ForbiddenTypeError(f"{name!r} is no name for a member; begin it with a letter")
    return ProgramEnumMeta(label, (cls,), dict(pairs))


def _by_value(words: str) -> dict[str, Any]:
    """Return special methods that do to the value of a member what they are called for."""

    def delegate(word: str) -> Callable[..., Any]:
        def method(self: Any, *others: Any) -> Any:
            plain = [o.value if isinstance(o, Enum) else o for o in others]
            return getattr(self.value, word)(*plain)

        return method

    return {f"__{word}__": delegate(f"__{word}__") for word in words.split()}


# Members of ``(str, Enum)`` and ``(int, Enum)`` do to their value what these methods say.
_ORDER = "eq ne lt le gt ge hash add"
TextMember = ProgramMeta("TextMember", (), _by_value(f"{_ORDER} mod mul rmul len contains getitem"))
NumberMember = ProgramMeta(
    "NumberMember",
    (),
    _by_value(
        f"{_ORDER} radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod neg abs "
        "bool int float index and or xor"
    ),
)
_MIXINS: dict[type, type] = {str: TextMember, int: NumberMember}


class Enum(metaclass=ProgramEnumMeta):
    """The ``Enum`` of programs."""

    name: str
    value: Any

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("name", "value", hidden("_name_"), hidden("_value_")):
            raise AttributeError(f"cannot set attribute {authored(name)!r}")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError("attributes of a member cannot be deleted")

    def __repr__(self) -> str:
        return f"<{self}: {self.value!r}>"

    def __str__(self) -> str:
        return f"{authored(type(self).__name__)}.{self.name}"

    def __format__(self, text: str) -> str:
        return format(str(self), text)

    def __hash__(self) -> int:
        return hash(self.name)


def _without_traceback(leave: Any) -> Callable[..., Any]:
    """Return an ``__exit__`` that hides tracebacks, and the end of the program's process."""

    def __exit__(self: Any, kind: Any, error: Any, trace: Any) -> Any:  # noqa: N807
        if error is not None and not isinstance(error, Exception | GeneratorExit):
            return False
        return leave(self, kind, error, None)

    return __exit__


def owns(cls: type, name: str) -> bool:
    """Return whether the class, or a class of the program above it, defines ``name``."""
    return any(type(base) in METACLASSES and name in base.__dict__ for base in cls.__mro__)


def program_super(cls: type, obj: object) -> super:
    """Return ``super()`` for a method of a program's class."""
    if type(cls) not in METACLASSES or not isinstance(obj, cls):
        raise ForbiddenTypeError("super() is only for methods of your own classes")
    return super(cls, obj)


def program_super_init(cls: type, obj: object) -> Callable[..., None]:
    """Return ``super().__init__`` for a method of a program's class."""
    return program_super(cls, obj).__init__  # type: ignore[misc]


MISSING: Any = object()
# Not an identifier either, see ``FIELDS``.
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
            value = arguments.get(name, MISSING)
            if name not in arguments:
                value = defaults.get(name, MISSING)
                if type(value) is Field:
                    value = value.factory() if value.factory is not MISSING else value.default
            if value is MISSING:
                raise TypeError(f"{cls.__name__}() is missing the argument {authored(name)!r}")
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
    if "__match_args__" not in cls.__dict__:
        type.__setattr__(cls, "__match_args__", tuple(names))
    for name, method in methods.items():
        if name not in cls.__dict__ or name == "__hash__":
            setattr(cls, name, method)
    return cls


def _field_names(cls: type) -> list[str]:
    """Return the names of a class's fields, those of its bases first."""
    names = [name for base in reversed(cls.__mro__) for name in base.__dict__.get(FIELDS, ())]
    return list(dict.fromkeys(names))


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
