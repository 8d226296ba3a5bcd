"""The names that the programs of one reasoner may call: shipped names and those of files.

``--api abstract+more+my_routines.py`` names API sets, files and entry points, joined by ``+``.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from viper.api import prelude as shipped
from viper.api.registry import RATIOS_PARAMETER, REGISTRY, Routine
from viper.api.routine_files import RoutineFile, StoredRoutines, load_routine_file
from viper.api.sets import OWNERS, ApiSet, api_names, api_set, split_api
from viper.errors import PARSE_ERRORS, UnknownNameError, UsageError
from viper.plugins import Registry, module_path
from viper.sandbox import Prelude
from viper.sandbox.names import BUILTIN_NAMES


@dataclass(frozen=True)
class Library:
    """The names that programs may call; the default holds only the shipped routines.

    Raises:
        UsageError: two routines share a name, or one uses a name of the API.
    """

    files: tuple[RoutineFile, ...] = ()
    depth_ratios: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        owners = dict(reserved_names())
        for file in self.files:
            lines = {each.name: each.function.__code__.co_firstlineno for each in file.routines}
            for name in (*file.tools, *(file.source.exports if file.source else ())):
                if name in owners:
                    place = f"{file.path}:{lines[name]}" if name in lines else file.path
                    owner = owners[name]
                    raise UsageError(
                        f"{place}: the name {name!r} is taken by {owner}; choose another name"
                    )
                owners[name] = str(file.path)

    def api_set(self, name: str) -> ApiSet:
        """Return the set of that name, as :func:`viper.api.sets.api_set`; parts may be files.

        Raises:
            UnknownNameError: a part is neither a set nor a file of this library.
        """
        return api_set(name, {file.name: file.routines for file in self.files})

    def stored(self) -> tuple[StoredRoutines, ...]:
        """Return the files as data, which differ if a routine does."""
        return tuple(file.stored() for file in self.files)

    @cached_property
    def tool_routines(self) -> Mapping[str, Routine]:
        """Return the routines of files that run in the parent, by name."""
        routines = [routine for file in self.files for routine in file.routines]
        return {routine.name: routine for routine in routines if routine.tool}

    def prelude(self) -> Prelude:
        """Return the prelude that gives the sandbox all of these names."""
        config: dict[str, Any] = {}
        if self.files:
            config["tools"] = sorted(name for file in self.files for name in file.tools)
        if self.depth_ratios:
            config[RATIOS_PARAMETER] = dict(self.depth_ratios)
        return Prelude(
            shipped.PRELUDE.module,
            config,
            tuple(file.source for file in self.files if file.source is not None),
        )


def reserved_names() -> dict[str, str]:
    """Return the names that routines of files may not use, with their owners."""
    owners = dict.fromkeys(BUILTIN_NAMES, "Python") | {"execute_command": "the entry point"}
    owners |= {owner.__name__: "viper" for owner in OWNERS}
    return owners | {routine.name: "viper" for routine in REGISTRY.all()}


def known_apis() -> list[str]:
    """Return the names of API sets and of the modules of routines of installed packages.

    A package may not use the name of an API set.
    """
    return _modules().names()


def _modules() -> Registry:
    sets = dict.fromkeys(sorted(api_names()), "viper.api.sets")
    return Registry("viper.routines", "API", sets)


def library_for(
    api: str, base: Path | None = None, stored: Sequence[StoredRoutines] | None = None
) -> Library:
    """Return the library that an API name needs.

    Args:
        base: folder in which files are looked up; by default the working folder.
        stored: given if the API is named by data, such as a run or a bank: what they hold of files.
            No file is run then.

    Raises:
        UsageError: a file cannot be used as a file of routines, or data name one that they do not
            hold.
        UnknownNameError: a part is neither a set, nor a file, nor an entry point.
    """
    folder, files = base or Path(), []
    sets, modules = api_names(), _modules()
    texts = None if stored is None else {each.name: each for each in stored}
    for part in dict.fromkeys(split_api(api)):
        point = None if part.endswith(".py") else modules.find(part)
        if part in sets:
            continue
        if part.endswith(".py") and texts is not None:
            if part not in texts:
                raise UsageError(
                    f"the file of routines {part!r} is named by data, which do not hold its text "
                    "and run no files; give --trust if you know who wrote both"
                )
            files.append(texts[part].file())
            continue
        if part.endswith(".py"):
            path = folder / Path(part).expanduser()
        elif point is not None:
            path = module_path(point)
        elif (folder / f"{part}.py").is_file():
            raise UsageError(f"unknown API {part!r}; did you mean {part}.py?")
        else:
            raise UnknownNameError("API", part, [*modules.names(), "a path ending in .py"])
        files.append(load_routine_file(path, part))
    return Library(tuple(files))


def called_names(program: str) -> set[str]:
    """Return the names of the functions and methods that a program calls; empty if it does not
    parse.
    """
    try:
        tree = ast.parse(program)
    except PARSE_ERRORS:
        return set()
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    functions = {call.id for call in calls if isinstance(call, ast.Name)}
    return functions | {call.attr for call in calls if isinstance(call, ast.Attribute)}
