"""The modules that programs may import: facades of chosen functions, never a module itself.

To allow a further module: add its name to ``_MODULES`` and its members to ``members`` in
:func:`build_facades`, the types of the objects that it returns to :mod:`viper.sandbox.readable`,
and attempts on it to ``tests/sandbox/abuse``; the list in ``docs/extending.md`` and the golden
prompts name it as well (their tests say how). A member is safe if it reads no file, clock or
memory, runs no text and hands out no object whose attributes lead further.

``import a.b`` of a program is compiled to a call of the functions of :func:`import_guards`, which
look up the facades that :func:`build_facades` made.
"""

from __future__ import annotations

import bisect
import collections
import collections.abc
import functools
import heapq
import itertools
import json
import math
import operator
import random
import re
import statistics
import string
import textwrap
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from viper.sandbox import classes, standard
from viper.sandbox.arrays import HAS_NUMPY
from viper.sandbox.numpy_facade import numpy_members, wide_numpy_members
from viper.sandbox.standard import OrderedDict, TypeToken, offered


class Facade:
    """A module as programs see it."""

    __slots__ = ("_label", "_members")

    def __init__(self, label: str, members: Mapping[str, Any]) -> None:
        self._label, self._members = label, dict(members)

    def __repr__(self) -> str:
        return f"<module {self._label!r}>"


def member(facade: Facade, name: str) -> Any:
    """Return the value of ``module.name`` for a program; only chosen members are available.

    Raises:
        AttributeError: ``name`` is not a chosen member.
    """
    try:
        return facade._members[name]
    except KeyError:
        label, names = facade._label, facade._members
        raise AttributeError(
            f"module {label!r} has no attribute {name!r} here{offered(names, name)}"
        ) from None


@cache
def import_of(name: str) -> str:
    """Return the statement with which a program gets a module or a member of one; "" if none."""
    if name == "np" or name in MODULES:
        return "import numpy as np" if name == "np" else f"import {name}"
    facades = build_facades(getattr, operator.getitem, lambda *_: None)
    homes = (label for label in _MODULES.split() if label in facades)
    found = next((label for label in homes if name in facades[label]._members), "")
    return f"from {found} import {name}" if found else ""


def _pick(module: object, names: str) -> dict[str, Any]:
    return {name: getattr(module, name) for name in names.split()}


_MODULES = (
    "math statistics itertools collections collections.abc functools re random string json heapq "
    "bisect copy operator dataclasses typing typing_extensions sys numpy numpy.linalg numpy.random "
    "contextlib datetime enum fractions textwrap time"
)

# Modules that programs may import.
MODULES = frozenset(_MODULES.split())

_STATISTICS = (
    "mean fmean geometric_mean harmonic_mean median median_low median_high mode multimode "
    "quantiles pstdev pvariance stdev variance"
)
_ITERTOOLS = (
    "accumulate chain combinations combinations_with_replacement compress count cycle dropwhile "
    "filterfalse groupby islice pairwise permutations product repeat starmap takewhile tee "
    "zip_longest"
)
_RE = "match search fullmatch findall finditer split sub subn compile escape"
_RE_FLAGS = "I IGNORECASE M MULTILINE S DOTALL X VERBOSE A ASCII"
_STRING = (
    "ascii_letters ascii_lowercase ascii_uppercase digits hexdigits punctuation whitespace capwords"
)
_RANDOM = (
    "random randint randrange choice choices sample shuffle uniform gauss normalvariate triangular "
    "betavariate expovariate seed"
)
_ABSTRACT = """
Callable Collection Container Generator Hashable Iterable Iterator Mapping MutableMapping
MutableSequence MutableSet Reversible Sequence Sized
"""
_TYPING: dict[str, type | tuple[type, ...]] = {
    **{name: getattr(collections.abc, name) for name in _ABSTRACT.split()},
    "Set": collections.abc.Set, "Any": object, "List": list, "Dict": dict, "Tuple": tuple,
    "FrozenSet": frozenset, "Type": type, "Optional": (), "Union": (), "Literal": (), "Final": (),
    "ClassVar": (), "Text": str, "NoReturn": (), "Number": (int, float), "TypeAlias": (),
    "Counter": collections.Counter, "DefaultDict": collections.defaultdict,
    "Deque": collections.deque,
}  # fmt: skip


def build_facades(
    guarded_getattr: Callable[..., Any],
    guarded_getitem: Callable[..., Any],
    allow: Callable[[type, frozenset[str]], None],
) -> dict[str, Facade]:
    """Return the facades of all modules that programs may import, by dotted name.

    Args:
        guarded_getattr: attribute access for ``operator.attrgetter``.
        guarded_getitem: item access for ``operator.itemgetter``.
        allow: makes the fields of a ``namedtuple`` readable.
    """
    types = {name: TypeToken(name, matches) for name, matches in _TYPING.items()}
    abstract = Facade("collections.abc", types)
    source = random.Random(0)

    def namedtuple(typename: str, field_names: Any, *, defaults: Any = None) -> type:
        cls = collections.namedtuple(typename, field_names, defaults=defaults)  # type: ignore[misc]
        allow(cls, frozenset(cls._fields) | {"count", "index"})
        return cls

    members: dict[str, dict[str, Any]] = {
        "math": {n: getattr(math, n) for n in dir(math) if not n.startswith("_")},
        "statistics": _pick(statistics, _STATISTICS),
        "itertools": _pick(itertools, _ITERTOOLS),
        "collections": {
            **_pick(collections, "Counter defaultdict deque"),
            "OrderedDict": OrderedDict,
            "namedtuple": namedtuple,
            "abc": abstract,
        },
        "functools": {
            **_pick(functools, "reduce partial cmp_to_key lru_cache cache"),
            "wraps": lambda *_, **__: lambda function: function,
        },
        "re": {
            **_pick(re, f"{_RE} {_RE_FLAGS}"),
            "Pattern": TypeToken("Pattern", re.Pattern),
            "Match": TypeToken("Match", re.Match),
        },
        "random": {**_pick(source, _RANDOM), "Random": lambda seed=0: random.Random(seed)},
        "string": _pick(string, _STRING),
        "json": {"dumps": _dumps, "loads": lambda text: json.loads(text)},
        "heapq": _pick(
            heapq, "heappush heappop heapify nlargest nsmallest heappushpop heapreplace"
        ),
        "bisect": _pick(bisect, "bisect bisect_left bisect_right insort insort_left insort_right"),
        "copy": {"copy": _copy, "deepcopy": _deepcopy},
        "operator": _operator_members(guarded_getattr, guarded_getitem),
        "dataclasses": _pick(classes, "dataclass field asdict"),
        "typing": {
            **types,
            "Set": TypeToken("Set", set),
            "cast": lambda kind, value: value,
            "TypeVar": lambda name, *_, **__: TypeToken(str(name)),
            "NewType": lambda name, kind: kind,
        },
        "sys": {"maxsize": 2**63 - 1},
        "enum": standard.ENUM,
        "datetime": standard.DATETIME,
        "time": standard.TIME,
        "fractions": standard.FRACTIONS,
        "textwrap": _pick(textwrap, "wrap fill shorten dedent indent"),
        "contextlib": standard.contextlib_members(guarded_getattr),
    }
    facades = {name: Facade(name, chosen) for name, chosen in members.items()}
    facades["collections.abc"] = abstract
    facades["typing_extensions"] = facades["typing"]
    return facades | (_as_facades("numpy", numpy_members()) if HAS_NUMPY else {})


def wide_numpy() -> dict[str, Facade]:
    """Return the facades of numpy for programs that work on shared arrays, by dotted name."""
    return _as_facades("numpy", wide_numpy_members()) if HAS_NUMPY else {}


def _as_facades(label: str, members: Mapping[str, Any]) -> dict[str, Facade]:
    """Return the facade of a module and of those that its members hold as dicts."""
    facades: dict[str, Facade] = {}
    own: dict[str, Any] = {}
    for name, value in members.items():
        if isinstance(value, dict):
            facades |= _as_facades(f"{label}.{name}", value)
            value = facades[f"{label}.{name}"]
        own[name] = value
    return {**facades, label: Facade(label, own)}


def import_guards(
    facades: Mapping[str, Facade], provided: Mapping[str, Any]
) -> dict[str, Callable[..., Any]]:
    """Return the functions that ``import a.b`` and ``from a import b`` are compiled to.

    Args:
        provided: the prelude's names; importing them from a module of any name is allowed,
            as models like to write ``from image_patch import ImagePatch``.
    """

    def find(module: str) -> Facade:
        if module in facades:
            return facades[module]
        names = ", ".join(sorted(facades))
        raise classes.ForbiddenImportError(
            f"the module {module!r} is not available to programs; they may import {names}"
        )

    def import_module(module: str, whole: bool) -> Facade:
        facade = find(module)
        return facade if whole else facades[module.partition(".")[0]]

    def import_from(module: str, names: tuple[str, ...]) -> tuple[Any, ...]:
        if module not in facades and all(name in provided for name in names):
            return tuple(provided[name] for name in names)
        facade = find(module)
        try:
            return tuple(member(facade, name) for name in names)
        except AttributeError as error:
            raise classes.ForbiddenImportError(str(error)) from None

    return {"_import_": import_module, "_import_from_": import_from}


def _dumps(obj: Any, *, default: Any = None, **options: Any) -> str:
    for name in options.keys() - {"indent", "sort_keys", "separators", "ensure_ascii"}:
        raise TypeError(f"dumps() got an unexpected keyword argument {name!r}")
    encoder = json.JSONEncoder(default=default, **options)
    # The encoder in C must not run code of the program while it reads a list.
    return encoder.encode(obj) if default is None else "".join(encoder.iterencode(obj))


def _copy(value: Any) -> Any:
    if type(value) in (list, dict, set, collections.Counter, collections.deque):
        return value.copy()
    return _duplicate(value) if type(type(value)) is classes.ProgramMeta else value


def _deepcopy(value: Any) -> Any:
    kind = type(value)
    if kind in (list, tuple, set):
        return kind(_deepcopy(item) for item in value)
    if kind is dict:
        return {key: _deepcopy(item) for key, item in value.items()}
    if type(kind) is classes.ProgramMeta:
        twin = _duplicate(value)
        for name, item in value.__dict__.items():
            setattr(twin, name, _deepcopy(item))
        return twin
    return _copy(value)


def _duplicate(value: Any) -> Any:
    if isinstance(value, Exception):
        return value
    twin = object.__new__(type(value))
    twin.__dict__.update(value.__dict__)
    return twin


def _operator_members(
    read_attribute: Callable[..., Any], read_item: Callable[..., Any]
) -> dict[str, Any]:
    def itemgetter(*keys: Any) -> Callable[[Any], Any]:
        if len(keys) == 1:
            return lambda obj: read_item(obj, keys[0])
        return lambda obj: tuple(read_item(obj, key) for key in keys)

    def attrgetter(*names: str) -> Callable[[Any], Any]:
        def read_path(obj: Any, name: str) -> Any:
            for part in name.split("."):
                obj = read_attribute(obj, part)
            return obj

        if len(names) == 1:
            return lambda obj: read_path(obj, names[0])
        return lambda obj: tuple(read_path(obj, name) for name in names)

    plain = _pick(operator, "add sub mul truediv lt le gt ge eq ne")
    return {**plain, "itemgetter": itemgetter, "attrgetter": attrgetter}
