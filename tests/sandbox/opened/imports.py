"""Every module can be imported, as a namespace of all that it holds."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from tests.sandbox.opened.base import READABLE, decode, encode, names
from viper.sandbox import child
from viper.sandbox.modules import Facade

__all__ = ["READABLE", "decode", "encode", "names"]

_MODULES = """
asyncio builtins code codecs contextlib copyreg ctypes dis encodings fractions functools gc
importlib inspect io linecache logging marshal multiprocessing operator os os.path pathlib pickle
pkgutil platform posix random runpy shutil signal site socket sqlite3 string struct subprocess
symtable tempfile threading timeit traceback types typing urllib.request warnings weakref zipfile
PIL.Image numpy numpy.ctypeslib numpy.f2py numpy.linalg numpy.testing
"""
for _name in _MODULES.split():
    importlib.import_module(_name)


def _whole(module: ModuleType) -> Facade:
    return Facade(module.__name__, vars(module))


def _import_guards(
    facades: Mapping[str, Facade], provided: Mapping[str, Any]
) -> dict[str, Callable[..., Any]]:
    def import_module(module: str, whole: bool) -> Facade:
        return _whole(sys.modules[module if whole else module.partition(".")[0]])

    def import_from(module: str, wanted: tuple[str, ...]) -> tuple[Any, ...]:
        found = sys.modules[module.lstrip(".")]
        return tuple(getattr(found, name) for name in wanted)

    return {"_import_": import_module, "_import_from_": import_from}


child.import_guards = _import_guards  # type: ignore[attr-defined]
