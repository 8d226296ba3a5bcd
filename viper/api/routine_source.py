"""Extracts from a file of routines the source for the sandbox: pure routines and what they need.

Decorators, annotations, imports from viper and everything that only tool routines need are left
out, so a file may mix both kinds.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from viper.api.registry import REGISTRY, Routine
from viper.errors import UsageError
from viper.sandbox import Source
from viper.sandbox.modules import MODULES
from viper.sandbox.names import BUILTIN_NAMES
from viper.sandbox.policy import PolicyError, compile_program

# Greatest size of a file of routines.
MAX_BYTES = 256 * 1024


def child_source(path: Path, text: str, routines: Iterable[Routine]) -> Source | None:
    """Return the pure routines and the statements they need, every line at its place in the file.

    Return None if the file has no pure routine.

    Raises:
        UsageError: they break the rules of programs; one line with file and line.
    """
    routines = list(routines)
    pure = [routine.name for routine in routines if not routine.tool]
    if not pure:
        return None
    tree = ast.parse(text, str(path))
    statements = _needed_statements(tree, pure, {each.name for each in routines if each.tool})
    lines = text.splitlines()
    kept_lines = [""] * len(lines)
    for node in statements:
        parts: list[ast.stmt | ast.expr] = [node, *_decorators(node)]
        for part in parts:
            for number in range(part.lineno - 1, part.end_lineno or part.lineno):
                kept_lines[number] = lines[number]
    source = Source(path.name, "\n".join(kept_lines) + "\n", tuple(pure))
    _check_names(path, statements, {routine.name for routine in routines})
    try:
        compile_program(source.text, path.name, MAX_BYTES)
    except PolicyError as error:
        raise UsageError(f"{path}:{error.line}: {error.message}; {_PURE_RULES}") from None
    return source


_PURE_RULES = (
    "a pure routine runs in the sandbox under the rules of programs: "
    "mark it @routine(tool=True) to run it in the parent"
)


def _check_names(path: Path, statements: Iterable[ast.stmt], routines: set[str]) -> None:
    """Refuse imports and names that the child does not have."""
    statements = list(statements)
    available = BUILTIN_NAMES | {"super"} | routines
    available |= {name for statement in statements for name in _names_defined(statement)}
    available |= {routine.name for routine in REGISTRY.all()} | {"ImagePatch", "VideoSegment"}
    for statement in statements:
        for module in _modules(statement):
            if module not in MODULES:
                raise UsageError(
                    f"{path}:{statement.lineno}: programs cannot import {module!r}; {_PURE_RULES}"
                )
        for node in _free_names(statement):
            if node.id not in available:
                raise UsageError(
                    f"{path}:{node.lineno}: the name {node.id!r} is not there in the sandbox; "
                    + _PURE_RULES
                )


def _modules(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.ImportFrom):
        return [statement.module or "."]
    return [a.name for a in statement.names] if isinstance(statement, ast.Import) else []


def _free_names(statement: ast.stmt) -> Iterator[ast.Name]:
    """Yield the names that a statement reads and does not bind itself."""
    nodes = [node for part in _executed_parts(statement) for node in ast.walk(part)]
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
    """Return the decorators that reach the child: all except ``@routine``."""
    decorators = getattr(statement, "decorator_list", [])
    return [decorator for decorator in decorators if not _is_mark(decorator)]


def _is_mark(decorator: ast.expr) -> bool:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name == "routine"


def _executed_parts(statement: ast.stmt) -> list[ast.AST]:
    """Return the parts that run; ``@routine`` and annotations do not reach the child."""
    if not isinstance(statement, ast.FunctionDef):
        return (
            [statement.value]
            if isinstance(statement, ast.AnnAssign) and statement.value
            else [statement]
        )
    parts: list[ast.AST] = [*statement.body, *statement.args.defaults, *_decorators(statement)]
    return parts + [default for default in statement.args.kw_defaults if default is not None]


def _needed_statements(tree: ast.Module, names: Iterable[str], tools: set[str]) -> list[ast.stmt]:
    """Return the top-level statements that these names need, in the order of the file.

    Imports from viper and tool routines are left out, because the child already has those names.
    """
    defines: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        for name in _names_defined(statement):
            if name not in tools:
                defines.setdefault(name, []).append(statement)
    pending, reached, needed = list(names), set(names), set()
    while pending:
        for statement in defines.get(pending.pop(), []):
            if statement in needed or _is_own_import(statement):
                continue
            needed.add(statement)
            new = _names_read(statement) - reached
            reached |= new
            pending += new
    return [statement for statement in tree.body if statement in needed]


def _names_defined(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from _imports(statement)
    else:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _names_read(statement: ast.stmt) -> set[str]:
    """Return the names of the file that a statement may read."""
    return {
        node.id
        for part in _executed_parts(statement)
        for node in ast.walk(part)
        if isinstance(node, ast.Name)
    }


def _is_own_import(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return (statement.module or "").partition(".")[0] in ("viper", "__future__")
    if isinstance(statement, ast.Import):
        return any(alias.name.partition(".")[0] == "viper" for alias in statement.names)
    return False
