"""Reads pickles that hold plain data, and refuses all others before anything is imported or called.

A pickle is a program, and :class:`pickle.Unpickler` with a strict ``find_class`` still runs parts
of it: objects that :mod:`copyreg` has cached for an extension code come without being looked up,
a put at a huge index or a length in the header of a truncated file allocates gigabytes, and
hashing deeply shared tuples takes for ever. So this is an interpreter of its own, of the opcodes
that plain data need; it has no way to name, import, build or call anything.

Admitted: dict, list, tuple, set, frozenset, str, bytes, int, float, bool, None, of protocols
0 to 5, Python 2's included (its byte strings become text, as Latin-1). Four names that older
protocols write plain data with are known by their spelling: set, frozenset, bytes, and
``_codecs.encode``. Keys and members of sets are scalars or tuples of scalars.
"""

from __future__ import annotations

from typing import Any, NoReturn

from viper.data.plain_opcodes import Machine
from viper.data.plain_values import NotPlainError
from viper.data.source import Source

MAX_BYTES = 256 * 2**20
"""Longest file; the refs of RefCOCO have tens of megabytes at most."""

MAX_DEPTH = 100
"""Deepest nesting."""

MAX_EXPANDED = 100_000_000
"""Most values, counted as often as they can be reached: a list may hold another one twice."""


def load_plain(source: Source) -> Any:
    """The plain data in a pickle file.

    Raises:
        DataError: missing, too long, cut short, or no pickle of plain data.
    """
    try:
        return loads_plain(source.read_bytes(MAX_BYTES))
    except NotPlainError as error:
        raise source.wrong("", str(error), "a pickle of plain data") from None


def loads_plain(data: bytes) -> Any:
    """The plain data in a pickle.

    Raises:
        NotPlainError: cut short, damaged, or not plain, too deep or too large; says which.
    """
    value = Machine(data).run()
    _check_shape(value)
    return value


def _check_shape(root: Any) -> None:
    """Refuses cycles, deep nesting, values that unfold to very many, and what is not plain.

    Each container is visited once, without recursion: ``sizes`` counts what it unfolds to.
    """
    sizes: dict[int, int] = {}
    path: list[tuple[Any, Any, int]] = []  # container, its remaining children, values so far
    open_ids: set[int] = set()
    value: Any = root
    while True:
        size = _leaf_size(value, sizes)
        if size is None:
            if id(value) in open_ids:
                _refuse("holds a list that holds itself")
            if len(path) == MAX_DEPTH:
                _refuse(f"is nested more than {MAX_DEPTH} deep")
            open_ids.add(id(value))
            path.append((value, iter(_children(value)), 1))
        while path:
            container, children, so_far = path.pop()
            so_far += size or 0
            if so_far > MAX_EXPANDED:
                _refuse(f"unfolds to more than {MAX_EXPANDED:,} values")
            value = next(children, _END)
            if value is not _END:
                path.append((container, children, so_far))
                break
            open_ids.discard(id(container))
            sizes[id(container)] = size = so_far
        else:
            return


_END = object()

_SCALARS = (str, int, float, bool, bytes, type(None))
_CONTAINERS = (dict, list, tuple, set, frozenset)


def _leaf_size(value: Any, sizes: dict[int, int]) -> int | None:
    """What a value unfolds to; None for a container that is yet to be visited."""
    if type(value) in _SCALARS:
        return 1
    if type(value) not in _CONTAINERS:
        _refuse(f"holds {value}")
    return sizes.get(id(value))


def _children(value: Any) -> Any:
    return value.values() if type(value) is dict else value


def _refuse(what: str) -> NoReturn:
    raise NotPlainError(what)
