"""Static checks of an example. Nothing is run and no model is asked."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator

from viper.api.image_patch import ImagePatch
from viper.api.library import Library, called_names, reserved_names
from viper.api.prelude import READABLE
from viper.api.sets import api_names
from viper.api.spec import api_hash
from viper.api.video_segment import VideoSegment
from viper.errors import UnknownNameError
from viper.prompting.extract import used_and_bound
from viper.sandbox.modules import MODULES
from viper.sandbox.names import BUILTIN_NAMES
from viper.sandbox.policy import PolicyError, compile_program
from viper.schema import TASKS, Example

# Objects that programs handle without naming their type; a method of any of these is no mistake.
_PLAIN_TYPES = (
    str, bytes, int, float, complex, bool, list, tuple, dict, set, frozenset, slice, range,
)  # fmt: skip

_MODULE_NAMES = {name.partition(".")[0] for name in MODULES} | {"np"}


def problems(example: Example, library: Library, *, listed: bool = False) -> list[str]:
    """Return one line per reason why the example cannot work under today's API.

    A method counts as missing only if neither the API nor any built-in type has a method of that
    name, and the program neither defines it nor imports anything.

    Args:
        listed: also report names that programs may call but that the example's API does not list,
            because an example should use only the names in its prompt.
    """
    if example.task not in TASKS or example.task == "auto":
        return [f"no task {example.task!r}"]
    try:
        library.api_set(example.api)
    except UnknownNameError as error:
        return [str(error)]
    try:
        program = compile_program(example.program, "<example>")
    except PolicyError as error:
        where = "" if error.line is None else f" at line {error.line}"
        return [f"{error.kind}{where}: {error.message}"]
    lines = [
        f"calls {name}, which no API has{near}" for name, near in _missing(program.tree, library)
    ]
    if listed:
        here, elsewhere = (
            {entry.name for api in apis for entry in library.api_set(api).entries(example.task)}
            for apis in ([example.api], api_names())
        )
        called = called_names(example.program)
        unlisted = (called & elsewhere) - here - _own_names(program.tree)
        lines += [f"calls {name}, which {example.api} does not list" for name in sorted(unlisted)]
    if not program.defines("execute_command"):
        lines.append("defines no execute_command")
    return lines


def api_changed(example: Example, library: Library) -> bool:
    """Return whether the text of the example's API has changed since it was mined."""
    return example.api_hash != api_hash(library.api_set(example.api).entries(example.task))


def _missing(tree: ast.Module, library: Library) -> Iterator[tuple[str, str]]:
    """Return the called names that nothing defines, each with a hint at a similar name."""
    routines = {routine.name for file in library.files for routine in file.routines}
    functions = {*BUILTIN_NAMES, *reserved_names(), *routines}
    methods = {name for kind in _PLAIN_TYPES for name in dir(kind)}
    methods |= READABLE[ImagePatch] | READABLE[VideoSegment]
    own = _own_names(tree)
    imports = any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(tree))
    seen = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id not in own:
            name, names = called.id, functions
        elif isinstance(called, ast.Attribute) and not (imports or _is_of_module(called)):
            name, names = called.attr, methods | own
        else:
            continue
        if name not in names and name not in seen:
            seen.add(name)
            near = difflib.get_close_matches(name, names, 1)
            yield name, f"; near: {near[0]}" if near else ""


def _own_names(tree: ast.Module) -> set[str]:
    """Return every name that the program itself binds."""
    attributes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    stored = {node.attr for node in attributes if isinstance(node.ctx, ast.Store)}
    return used_and_bound(tree)[1] | stored


def _is_of_module(called: ast.Attribute) -> bool:
    """Return whether a method is of a module or its objects, so that its name says nothing."""
    base: ast.expr = called.value
    while isinstance(base, ast.Attribute):
        base = base.value
    return isinstance(base, ast.Name) and base.id in _MODULE_NAMES
