"""Plug-ins: the named parts that viper ships and that installed packages add by entry points.

Each kind of part has one `Registry`: ``viper.backends``, ``viper.commands``, ``viper.datasets``,
``viper.demo_scenes``, ``viper.exact_inputs``, ``viper.judges``, ``viper.learning_data``,
``viper.metrics``, ``viper.page_parts``, ``viper.profiles``, ``viper.routines`` and
``viper.strategies``. The laboratory, ``viper_lab``, reaches the product through them as any plug-in
does.

One rule holds for all: a name has one provider. Two providers of a name are an error as soon as
somebody looks the name up or lists the names, whether viper itself or a package provides it. No
part is imported before it is loaded.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from viper.errors import MissingExtraError, UnknownNameError, UsageError


@dataclass(frozen=True)
class Registry:
    """The parts of one kind by name, shipped ones before those of installed packages.

    Attributes:
        group: group of the entry points.
        kind: word for a part in error messages, such as ``data set``.
        shipped: ``module:attribute`` of each part of this package, or any text about a name that
            packages may not use.
    """

    group: str
    kind: str
    shipped: Mapping[str, str] = field(default_factory=dict)

    def find(self, name: str) -> EntryPoint | None:
        """Return the part of this name, not imported yet, or None.

        Raises:
            UsageError: the name has two providers; the message names both.
        """
        found = [EntryPoint(name, self.shipped[name], self.group)] if name in self.shipped else []
        found += [point for point in _installed(self.group) if point.name == name]
        if len(found) > 1:
            raise UsageError(
                f"the {self.kind} {name!r} of {_provider(found[1])} is taken by "
                f"{'viper' if name in self.shipped else _provider(found[0])}; "
                "uninstall one of the packages or rename it"
            )
        return found[0] if found else None

    def load(self, name: str, beside: Collection[str] = ()) -> Any:
        """Import the part of this name.

        Args:
            beside: what else the user may write in place of a name, for the error.

        Raises:
            UnknownNameError: there is no such part; lists the known ones.
            UsageError: a name that matters here has two providers.
        """
        point = self.find(name)
        if point is None:
            raise UnknownNameError(self.kind, name, [*self.names(), *beside])
        return point.load()

    def names(self) -> list[str]:
        """Return all names.

        Raises:
            UsageError: one of them has two providers.
        """
        return [*self.shipped, *self.installed()]

    def installed(self, names: str = "") -> dict[str, EntryPoint]:
        """Return the parts of installed packages by name.

        Args:
            names: regular expression of the names that matter; all by default.

        Raises:
            UsageError: one of the names has two providers.
        """
        found = dict.fromkeys(point.name for point in _installed(self.group))
        matching = [name for name in found if re.match(names, name)]
        return {name: point for name in matching if (point := self.find(name))}


@contextmanager
def offered(group: str, parts: Mapping[str, str]) -> Iterator[None]:
    """Offer parts, from name to ``module:attribute``, within the block, as a package would."""
    added = [EntryPoint(name, target, group) for name, target in parts.items()]
    _offered.extend(added)
    try:
        yield
    finally:
        for point in added:
            _offered.remove(point)


# Parts of the blocks of `offered` that are running.
_offered: list[EntryPoint] = []


def need_packages(packages: Collection[str], needed_for: str) -> None:
    """Check that optional packages are installed, without importing them.

    Raises:
        MissingExtraError: one of them is not; the message holds the pip command.
    """
    for package in packages:
        if not is_installed(package):
            raise MissingExtraError(package, needed_for)


def is_installed(package: str) -> bool:
    """Return whether a package can be imported, without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):  # hidden by a finder, or half imported
        return False


def module_path(point: EntryPoint) -> Path:
    """Return the file of a part's module without running it.

    Raises:
        UsageError: the module has no file.
    """
    spec = importlib.util.find_spec(point.module)
    if spec is None or spec.origin is None:
        raise UsageError(f"the entry point {point.name!r} names {point.module}, which has no file")
    return Path(spec.origin)


def _installed(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, one for each provider of a name.

    A package may be found twice, and the laboratory's entry points outlive its removal from an
    editable installation.
    """
    points = dict.fromkeys([*_entry_points(group), *_offered])
    return [point for point in points if point.group == group and _is_there(point)]


@cache  # each query asks
def _entry_points(group: str) -> tuple[EntryPoint, ...]:
    return tuple(_all_entry_points().select(group=group))


_all_entry_points = cache(entry_points)  # a look through all packages takes some 20 ms


@cache
def _is_there(point: EntryPoint) -> bool:
    return is_installed(point.module.partition(".")[0])


def _provider(point: EntryPoint) -> str:
    package = getattr(point, "dist", None)
    return point.value if package is None else f"{point.value} ({package.name})"
