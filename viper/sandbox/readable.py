"""Attributes that a program may read, by exact type. Unlisted attributes are refused."""

from __future__ import annotations

import collections
import random
import re
from types import GeneratorType, NoneType

from viper.sandbox.arrays import HAS_NUMPY, ndarray
from viper.sandbox.classes import Auto, Field
from viper.sandbox.standard import READABLE, OrderedDict

if HAS_NUMPY:
    import numpy as np


def _public(kind: type, *without: str) -> frozenset[str]:
    return frozenset(n for n in dir(kind) if not n.startswith("_") and n not in without)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Plain facts of an array. ``base``, ``data``, ``ctypes`` and ``view`` lead to its memory.
_NDARRAY = _names("T shape ndim size dtype nbytes itemsize real imag flat")
# Methods of arrays. Arrays of objects have none (see :mod:`viper.sandbox.numpy_facade`).
ARRAY_METHODS = _names(
    "all any argmax argmin argpartition argsort astype clip conj copy cumprod cumsum diagonal dot "
    "fill flatten item max mean min nonzero partition prod ptp ravel repeat reshape round "
    "searchsorted sort squeeze std sum swapaxes take tolist trace transpose var"
)

# numpy's scalars are read like arrays of one number.
_SCALAR = _names(
    "all any astype clip conj conjugate copy dtype imag is_integer item max mean min ndim nbytes "
    "real reshape round shape size sum tolist"
)
# ``format`` goes through the guards (``Guards._format``); ``encode`` may load a codec from disk.
STRING = _public(str, "format", "format_map", "encode")

# Types of numpy, if it is there: its scalars, and the classes of its types of numbers.
_SCALARS: dict[type, frozenset[str]] = {}
_DTYPES: dict[type, frozenset[str]] = {}
if HAS_NUMPY:
    _SCALARS = dict.fromkeys(
        (
            np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32,
            np.uint64, np.float16, np.float32, np.float64, np.longlong, np.ulonglong,
        ),
        _SCALAR,
    ) | {np.str_: STRING}  # fmt: skip
    _DTYPES = dict.fromkeys(
        {np.dtype} | {type(np.dtype(code)) for code in np.typecodes["All"]},
        _names("name kind itemsize"),
    )

# Readable attributes of builtin types; programs may also ask ``type()`` for these types.
BUILTIN: dict[type, frozenset[str]] = {
    str: STRING,
    list: _public(list),
    tuple: _public(tuple),
    dict: _public(dict),
    set: _public(set),
    frozenset: _public(frozenset),
    bool: _names("real imag numerator denominator bit_length conjugate"),
    int: _names("real imag numerator denominator bit_length bit_count conjugate as_integer_ratio"),
    float: _names("real imag is_integer as_integer_ratio conjugate"),
    complex: _public(complex),
    range: _public(range),
    slice: _names("start stop step indices"),
    bytes: _names("decode hex"),
    NoneType: frozenset(),
    type(Ellipsis): frozenset(),
    type({}.keys()): _names("isdisjoint"),
    type({}.values()): frozenset(),
    type({}.items()): _names("isdisjoint"),
    collections.Counter: _public(collections.Counter),
    collections.defaultdict: _public(collections.defaultdict, "default_factory"),
    OrderedDict: _public(OrderedDict),
    collections.deque: _public(collections.deque),
    re.Match: _names(
        "group groups groupdict start end span string pos endpos lastgroup lastindex expand re"
    ),
    re.Pattern: _names(
        "match search fullmatch findall finditer split sub subn pattern flags groups groupindex"
    ),
    random.Random: _names(
        "random randint randrange choice choices sample shuffle uniform gauss normalvariate "
        "triangular betavariate expovariate seed"
    ),
    property: _names("setter getter deleter"),
    Field: frozenset(),
    Auto: frozenset(),
    GeneratorType: _names("send close"),
    **READABLE,
    ndarray: _NDARRAY,
    **_DTYPES,
    **_SCALARS,
}

# Types of the table that ``type()`` does not return, because they construct more than data.
UNNAMED = frozenset(
    [
        property, Field, Auto, GeneratorType, re.Match, re.Pattern, random.Random,
        *READABLE, *_DTYPES,
    ]
)  # fmt: skip

# Attributes of the builtin types themselves, such as ``key=str.lower``.
ON_TYPES: dict[type, frozenset[str]] = {
    str: STRING | {"maketrans"},
    list: BUILTIN[list],
    tuple: BUILTIN[tuple],
    dict: BUILTIN[dict] | {"fromkeys"},
    set: BUILTIN[set],
    int: frozenset({"bit_length"}),
    float: frozenset({"is_integer", "fromhex"}),
}

# Types whose items a program may assign and delete.
WRITABLE_ITEMS = frozenset(
    [
        list, dict, ndarray,
        collections.Counter, collections.defaultdict, OrderedDict, collections.deque,
    ]
)  # fmt: skip

# Types whose items a program may read, and classes, for ``list[int]``.
INDEXABLE = WRITABLE_ITEMS | frozenset(
    [str, tuple, range, bytes, re.Match, type(list[int]), *READABLE, *_SCALARS]
)

# Attributes that programs may read on any exception; ``obj`` is out, it returns arbitrary objects.
EXCEPTION_ATTRIBUTES = frozenset({"args", "value", "errno", "strerror", "code"})

# Attributes of builtin exceptions that programs do not get.
EXCEPTION_HIDDEN = (
    frozenset(
        name
        for cls in (
            BaseException, AttributeError, NameError, ImportError, OSError, SyntaxError,
            UnicodeDecodeError, UnicodeEncodeError, StopIteration, SystemExit,
        )
        for name in dir(cls)
        if not name.startswith("_")
    )
    - EXCEPTION_ATTRIBUTES
)  # fmt: skip
