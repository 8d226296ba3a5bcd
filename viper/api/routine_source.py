"""What of a file of routines goes to the sandbox: the pure ones and what they need.

Decorators, annotations, imports from viper and everything that only tool routines need
stay behind, so that a file may mix both kinds.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from viper.api.registry import REGISTRY, Routine
from viper.errors import UsageError
from viper.sandbox.facades import MODULES
from viper.sandbox.names import BUILTIN_NAMES
from viper.sandbox.policy import PolicyError, compile_program
from viper.sandbox.tools import Source

MAX_BYTES = 256 * 1024
"""Longest file of routines."""


def child_source(path: Path, text: str, routines: Iterable[Routine]) -> Source | None:
    """The pure routines and what they need of their file, every line where it was.

    None where there is no pure one.

    Raises:
        UsageError: they use what programs may not; one line with file and line.
    """
    routines = list(routines)
    pure = [routine.name for routine in routines if not routine.tool]
    if not pure:
        return None
    tree = ast.parse(text, str(path))
    kept = _needed(tree, pure, {routine.name for routine in routines if routine.tool})
    lines = text.splitlines()
    shown = [""] * len(lines)
    for node in kept:
        parts: list[ast.stmt | ast.expr] = [node, *_decorators(node)]
        for part in parts:
            for number in range(part.lineno - 1, part.end_lineno or part.lineno):
                shown[number] = lines[number]
    source = Source(path.name, "\n".join(shown) + "\n", tuple(pure))
    _check_names(path, kept, {routine.name for routine in routines})
    try:
        compile_program(source.text, path.name, MAX_BYTES)
    except PolicyError as error:
        raise UsageError(f"{path}:{error.line}: {error.message}; {_PURE_RULES}") from None
    return source


_PURE_RULES = (
    "a pure routine runs in the sandbox under the rules of programs: "
    "mark it @routine(tool=True) to run it in the parent"
)


def _check_names(path: Path, kept: Iterable[ast.stmt], routines: set[str]) -> None:
    """Refuses imports and names that will not be there in the child."""
    kept = list(kept)
    known = (
        BUILTIN_NAMES | {"super"} | routines | {name for node in kept for name in _defined(node)}
    )
    known |= {routine.name for routine in REGISTRY.all()} | {"ImagePatch", "VideoSegment"}
    for statement in kept:
        for module in _modules(statement):
            if module not in MODULES:
                raise UsageError(
                    f"{path}:{statement.lineno}: programs cannot import {module!r}; {_PURE_RULES}"
                )
        for node in _loaded(statement):
            if node.id not in known:
                raise UsageError(
                    f"{path}:{node.lineno}: the name {node.id!r} is not there in the sandbox; "
                    + _PURE_RULES
                )


def _modules(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.ImportFrom):
        return [statement.module or "."]
    return [a.name for a in statement.names] if isinstance(statement, ast.Import) else []


def _loaded(statement: ast.stmt) -> Iterator[ast.Name]:
    """Names that a statement reads and does not bind itself."""
    nodes = [node for part in _executed(statement) for node in ast.walk(part)]
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and _binds(node)}
    bound |= {node.arg for node in ast.walk(statement) if isinstance(node, ast.arg)}
    bound |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    bound |= {node.name for node in nodes if isinstance(node, ast.ExceptHandler) and node.name}
    bound |= {name for node in nodes if isinstance(node, ast.stmt) for name in _imports(node)}
    bound |= {node.name for node in nodes if isinstance(node, ast.MatchAs) and node.name}
    for node in nodes:
        if isinstance(node, ast.Name) and not _binds(node) and node.id not in bound:
            yield node


def _binds(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _imports(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            yield alias.asname or alias.name.partition(".")[0]


def _decorators(statement: ast.stmt) -> list[ast.expr]:
    """The decorators that reach the child: all but ``@routine``."""
    found = getattr(statement, "decorator_list", [])
    return [decorator for decorator in found if not _is_mark(decorator)]


def _is_mark(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name == "routine"


def _executed(statement: ast.stmt) -> list[ast.AST]:
    """The parts that run: ``@routine`` and annotations do not reach the child."""
    if not isinstance(statement, ast.FunctionDef):
        return (
            [statement.value]
            if isinstance(statement, ast.AnnAssign) and statement.value
            else [statement]
        )
    parts: list[ast.AST] = [*statement.body, *statement.args.defaults, *_decorators(statement)]
    return parts + [default for default in statement.args.kw_defaults if default is not None]


def _needed(tree: ast.Module, names: Iterable[str], tools: set[str]) -> list[ast.stmt]:
    """The top-level statements that these names need, in the order of the file.

    Imports from viper and tool routines are left out: the child has those names of its own.
    """
    defines: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        for name in _defined(statement):
            if name not in tools:
                defines.setdefault(name, []).append(statement)
    wanted, reached, kept = list(names), set(names), set()
    while wanted:
        for statement in defines.get(wanted.pop(), []):
            if statement in kept or _is_own_import(statement):
                continue
            kept.add(statement)
            new = _used(statement) - reached
            reached |= new
            wanted += new
    return [statement for statement in tree.body if statement in kept]


def _defined(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from _imports(statement)
    else:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _used(statement: ast.stmt) -> set[str]:
    """Names of the file that a statement may read."""
    return {
        node.id
        for part in _executed(statement)
        for node in ast.walk(part)
        if isinstance(node, ast.Name)
    }


def _is_own_import(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return (statement.module or "").partition(".")[0] in ("viper", "__future__")
    if isinstance(statement, ast.Import):
        return any(alias.name.partition(".")[0] == "viper" for alias in statement.names)
    return False
