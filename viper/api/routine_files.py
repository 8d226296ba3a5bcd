"""Routines in a user's own Python file, or in an installed package.

:func:`load_routine_file` imports the file here, in the parent, so it is as trusted as the code that
calls viper. Only the text of its pure routines goes to the sandbox's child
(:func:`_child_source`), with the functions, values and imports of the file that they need; it obeys
the rules of programs. Decorators, annotations, imports from viper and everything that only tool
routines need are left out, so a file may mix both kinds.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from viper.api import registry
from viper.errors import UsageError
from viper.sandbox import Source
from viper.sandbox.modules import MODULES
from viper.sandbox.names import BUILTIN_NAMES
from viper.sandbox.policy import PolicyError, compile_program

# Greatest size of a file of routines: four times that of a program, as a file holds many functions.
MAX_BYTES = 256 * 1024


_PURE_RULES = (
    "a pure routine runs in the sandbox under the rules of programs: "
    "mark it @routine(tool=True) to run it in the parent"
)


@dataclass(frozen=True)
class RoutineFile:
    """The routines of one file.

    Attributes:
        name: its name for ``--api``: the path as the user wrote it, or an entry point's name.
        routines: in the order of the file; none if only its stored text is known.
        source: the pure routines in the form for the child; None if there are none.
        tools: names of the routines that run in the parent.
        digest: of the whole text of the file.
    """

    name: str
    path: Path
    routines: tuple[registry.Routine, ...]
    source: Source | None
    tools: tuple[str, ...] = ()
    digest: str = ""

    def stored(self) -> StoredRoutines:
        """Return what a run stores of the file."""
        source = self.source or Source(self.path.name, "", ())
        return StoredRoutines(self.name, source.text, source.exports, self.tools, self.digest)


@dataclass(frozen=True)
class StoredRoutines:
    """The routines of a file as data: whoever reads them runs nothing of it outside the sandbox.

    Attributes:
        name: its name in the API.
        text: the pure routines in the form for the child.
        exports: their names.
        tools: names of the routines that ran in the parent. Their results can be replayed.
        digest: of the whole text of the file, with the routines that ran in the parent; runs of
            earlier versions hold none.
    """

    name: str
    text: str
    exports: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    digest: str = ""

    def __post_init__(self) -> None:
        for name in (*self.exports, *self.tools):
            if not name.isidentifier() or name.startswith("_"):
                raise UsageError(f"{self.name!r}: {name!r} is not the name of a routine")

    def file(self) -> RoutineFile:
        """Return the file without its own code: its text runs in locked children only."""
        path = Path(self.name)
        text = Source(path.name, self.text, self.exports, trusted=False)
        source = text if self.exports else None
        return RoutineFile(self.name, path, (), source, self.tools, self.digest)


def load_routine_file(path: Path, name: str | None = None) -> RoutineFile:
    """Import the file and prepare its pure routines for the child.

    Raises:
        UsageError: the file is missing, does not import, holds no routine, or a routine
            breaks the rules of programs; one line with file and line.
    """
    text = read_source(path)
    with registry.collecting() as collected:
        run_file(path, text)
    routines = collected.all()
    if not routines:
        raise UsageError(f"{path}: holds no routine; mark a function with @routine from viper")
    for routine in routines:
        if problem := _problem(routine):
            line = routine.function.__code__.co_firstlineno
            raise UsageError(f"{path}:{line}: {routine.name}: {problem}")
    source = _child_source(path, text, routines)
    tools = tuple(routine.name for routine in routines if routine.tool)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return RoutineFile(name or str(path), path, routines, source, tools, digest)


def read_source(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """Return the text of a user's Python file, or of standard input for the path ``-``.

    Raises:
        UsageError: the file is missing, too large or no text.
    """
    try:
        if str(path) == "-":
            data = sys.stdin.buffer.read(max_bytes + 1)
        else:
            with path.open("rb") as file:
                data = file.read(max_bytes + 1)
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror}); expected a Python file"
        ) from None
    if len(data) > max_bytes:
        raise UsageError(f"{path}: more than {max_bytes:,} bytes; expected a Python file")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8 text; expected a Python file") from None


def run_file(path: Path, text: str) -> ModuleType:
    """Run a user's Python file, which may import the modules beside it, and return its module.

    Raises:
        UsageError: whatever the file raises; names file and line.
    """
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
    module = ModuleType(f"viper_file_{path.stem}_{digest}")
    module.__file__ = str(path)
    module.__spec__ = importlib.util.spec_from_file_location(module.__name__, path)
    # dataclasses and typing look up the module of a class by its name
    sys.modules[module.__name__] = module
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        exec(compile(text, str(path), "exec"), module.__dict__)  # noqa: S102 - the user's own
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the file raises
        line, message = None, str(error)
        if isinstance(error, SyntaxError):
            line, message = error.lineno, error.msg
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename == str(path):
                line = frame.lineno
        where = f"{path}:{line}" if line else str(path)
        kind = "" if isinstance(error, UsageError) else f"{type(error).__name__}: "
        raise UsageError(f"{where}: {kind}{message}") from error
    finally:
        sys.path.remove(folder)
    return module


def _problem(routine: registry.Routine) -> str:
    """Return what is wrong with the parameters of a routine, or ""."""
    reserved = f"a parameter called {routine.receives!r} is reserved; "
    if routine.receives == registry.CLIENT_PARAMETER:
        return reserved + "call the routines and methods of the API by their names"
    if routine.receives == registry.VARIABLES_PARAMETER:
        return reserved + "take what the routine needs as arguments"
    if inspect.iscoroutinefunction(routine.function):
        return "a routine cannot be async"
    if registry.TOOLS_PARAMETER in inspect.signature(routine.function).parameters:
        if not routine.tool:
            only = "only @routine(tool=True) gets tools"
            return f"{only}; a pure routine runs in the sandbox, without them"
        if routine.receives != registry.TOOLS_PARAMETER:
            return "tools must be the first parameter"
    return ""


def _child_source(path: Path, text: str, routines: Sequence[registry.Routine]) -> Source | None:
    """Return the pure routines and the statements they need, every line at its place in the file.

    Return None if the file has no pure routine.

    Raises:
        UsageError: they break the rules of programs; one line with file and line.
    """
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
            place = slice(part.lineno - 1, part.end_lineno)
            kept_lines[place] = lines[place]
    source = Source(path.name, "\n".join(kept_lines) + "\n", tuple(pure))
    _check_names(path, statements, {routine.name for routine in routines})
    try:
        compile_program(source.text, path.name, MAX_BYTES)
    except PolicyError as error:
        raise UsageError(f"{path}:{error.line}: {error.message}; {_PURE_RULES}") from None
    return source


def _check_names(path: Path, statements: Sequence[ast.stmt], routines: set[str]) -> None:
    """Refuse imports and names that the child does not have."""
    available = BUILTIN_NAMES | routines | {"super", "ImagePatch", "VideoSegment"}
    available |= {name for statement in statements for name in _names_defined(statement)}
    available |= {routine.name for routine in registry.REGISTRY.all()}
    for statement in statements:
        for module in _modules(statement):
            if module not in MODULES:
                message = f"programs cannot import {module!r}; {_PURE_RULES}"
                raise UsageError(f"{path}:{statement.lineno}: {message}")
        for node in _free_names(statement):
            if node.id not in available:
                missing = f"the name {node.id!r} is not there in the sandbox"
                raise UsageError(f"{path}:{node.lineno}: {missing}; {_PURE_RULES}")


def _free_names(statement: ast.stmt) -> list[ast.Name]:
    """Return the names that a statement reads and does not bind itself."""
    nodes = [node for part in _executed_parts(statement) for node in ast.walk(part)]
    bound = {node.arg for node in ast.walk(statement) if isinstance(node, ast.arg)}
    reads = []
    for node in nodes:
        match node:
            case ast.Name(ctx=ast.Load()):
                reads.append(node)
            case ast.Name(name) | ast.FunctionDef(name) | ast.ClassDef(name):
                bound.add(name)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                bound.add(name)
            case ast.stmt():
                bound.update(_imports(node))
    return [node for node in reads if node.id not in bound]


def _modules(statement: ast.stmt) -> list[str]:
    """Return the modules that a statement imports."""
    if isinstance(statement, ast.ImportFrom):
        return [statement.module or "."]
    return [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else []


def _imports(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement imports."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            yield alias.asname or alias.name.partition(".")[0]


def _decorators(statement: ast.stmt) -> list[ast.expr]:
    """Return the decorators that reach the child: all except ``@routine``."""

    def name_of(decorator: Any) -> str:
        function = getattr(decorator, "func", decorator)
        return str(getattr(function, "attr", None) or getattr(function, "id", ""))

    decorators = getattr(statement, "decorator_list", [])
    return [decorator for decorator in decorators if name_of(decorator) != "routine"]


def _executed_parts(statement: ast.stmt) -> list[ast.AST]:
    """Return the parts that run; ``@routine`` and annotations do not reach the child."""
    if isinstance(statement, ast.AnnAssign) and statement.value:
        return [statement.value]
    if not isinstance(statement, ast.FunctionDef):
        return [statement]
    defaults = [*statement.args.defaults, *filter(None, statement.args.kw_defaults)]
    return [*statement.body, *defaults, *_decorators(statement)]


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
            packages = {name.partition(".")[0] for name in _modules(statement)}
            is_own = not packages.isdisjoint(("viper", "__future__"))
            if statement in needed or is_own:
                continue
            needed.add(statement)
            nodes = (node for part in _executed_parts(statement) for node in ast.walk(part))
            new = {node.id for node in nodes if isinstance(node, ast.Name)} - reached
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
