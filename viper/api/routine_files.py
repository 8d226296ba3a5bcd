"""Routines in a user's own Python file, or in an installed package.

The file is imported here, in the parent, so it is as trusted as the code that calls viper. Only the
text of its pure routines goes to the sandbox's child, with the functions, values and imports of the
file that they need. It obeys the rules of programs.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from viper.api import registry
from viper.api.routine_source import MAX_BYTES, child_source
from viper.errors import UsageError
from viper.sandbox import Source


@dataclass(frozen=True)
class RoutineFile:
    """The routines of one file.

    Attributes:
        name: its name for ``--api``: the path as the user wrote it, or an entry point's name.
        routines: in the order of the file.
        source: the pure routines in the form for the child; None if there are none.
    """

    name: str
    path: Path
    routines: tuple[registry.Routine, ...]
    source: Source | None


def load_routine_file(path: Path, name: str | None = None) -> RoutineFile:
    """Import the file and prepare its pure routines for the child.

    Raises:
        UsageError: the file is missing, does not import, holds no routine, or a routine
            breaks the rules of programs; one line with file and line.
    """
    text = read_source(path)
    routines = _import_routines(path, text)
    if not routines:
        raise UsageError(f"{path}: holds no routine; mark a function with @routine from viper")
    _check_parameters(path, routines)
    return RoutineFile(name or str(path), path, routines, child_source(path, text, routines))


def read_source(path: Path) -> str:
    """Return the text of a user's Python file.

    Raises:
        UsageError: the file is missing, too large or no text.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror}); expected a Python file"
        ) from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"{path}: {len(data)} bytes; at most {MAX_BYTES} are read")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8 text; expected a Python file") from None


def _import_routines(path: Path, text: str) -> tuple[registry.Routine, ...]:
    """Run the file, anew each time, and return the routines that it registers."""
    with registry.collecting() as collected:
        run_file(path, text)
    return collected.all()


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
    with _importing_beside(path):
        try:
            exec(compile(text, str(path), "exec"), module.__dict__)  # noqa: S102 - the user's own
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the file raises
            raise UsageError(_import_error(path, error)) from error
    return module


@contextmanager
def _importing_beside(path: Path) -> Iterator[None]:
    """Let a file import the modules in its folder while it runs, as a script can."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _import_error(path: Path, error: BaseException) -> str:
    """Return one line that names the place in the file where an import failed."""
    line = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else None
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == str(path):
            line = frame.lineno
    where = f"{path}:{line}" if line else str(path)
    kind = "" if isinstance(error, UsageError) else f"{type(error).__name__}: "
    return f"{where}: {kind}{error.msg if isinstance(error, SyntaxError) else error}"


def _check_parameters(path: Path, routines: Iterable[registry.Routine]) -> None:
    for routine in routines:
        line = routine.function.__code__.co_firstlineno
        if routine.needs_client:
            raise UsageError(
                f"{path}:{line}: {routine.name}: a parameter called {registry.CLIENT_PARAMETER!r} "
                "is reserved; call the routines and methods of the API by their names"
            )
        if routine.needs_variables:
            raise UsageError(
                f"{path}:{line}: {routine.name}: a parameter called "
                f"{registry.VARIABLES_PARAMETER!r} is reserved; take what the routine "
                "needs as arguments"
            )
        if inspect.iscoroutinefunction(routine.function):
            raise UsageError(f"{path}:{line}: {routine.name}: a routine cannot be async")
        takes_tools = registry.TOOLS_PARAMETER in inspect.signature(routine.function).parameters
        if takes_tools and not routine.tool:
            raise UsageError(
                f"{path}:{line}: {routine.name}: only @routine(tool=True) gets tools; "
                "a pure routine runs in the sandbox, without them"
            )
        if takes_tools and not routine.needs_tools:
            raise UsageError(f"{path}:{line}: {routine.name}: tools must be the first parameter")
