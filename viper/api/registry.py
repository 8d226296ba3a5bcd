"""Registry of the names that programs may call, with the facts that a prompt needs about them.

A routine is a plain Python function with a typed signature and a docstring; its prompt text is
rendered from these (see :mod:`viper.api.spec`). A pure routine runs in the sandbox child; a tool
routine runs in the parent, with pixels and models.

``@routine`` adds a function to the current :class:`RoutineRegistry`, that of this package or one
that :func:`collecting` sets for a file; ``@method`` marks methods of the two API classes. Both say
by a :class:`Visibility` which prompts list the name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeVar, overload

from viper.errors import UnknownNameError, UsageError
from viper.schema import TASKS

Function = TypeVar("Function", bound=Callable[..., Any])

# Name of the first parameter that receives the client; programs never see it.
CLIENT_PARAMETER = "call"

# Name of the first parameter that receives the program's outermost variables, a read-only mapping
# by name; programs never see it.
VARIABLES_PARAMETER = "program_variables"

# Name of the first parameter that receives the profile's greatest ratio of two depths by routine;
# programs never see it.
RATIOS_PARAMETER = "depth_ratios"

# Name of the first parameter through which a tool routine receives pixels and models.
TOOLS_PARAMETER = "tools"

_RECEIVED = (CLIENT_PARAMETER, VARIABLES_PARAMETER, RATIOS_PARAMETER, TOOLS_PARAMETER)

# Parameters that programs never pass.
HIDDEN = ("self", *_RECEIVED)

# Tasks on pictures, those that answer in words, and all, with questions on videos (``choice``).
IMAGE_TASKS = ("ground", "question", "statement", "edit", "tag", "extract")
ANSWER_TASKS = ("question", "statement")
ALL_TASKS = (*IMAGE_TASKS, "choice")
# For names that programs can call but no prompt mentions (aliases, spellings of other systems).
UNLISTED: tuple[str, ...] = ()

# The API of the routines and listings that are ours, in addition to the papers'.
MORE = "more"

# Attribute of a method that holds its visibility, so that a class needs no second list.
_MARK = "__viper_method__"


@dataclass(frozen=True)
class Parameter:
    """One parameter as a prompt shows it; ``default`` is source text or None.

    ``hidden`` parameters are left out of the compact text.
    """

    name: str
    annotation: str
    default: str | None = None
    hidden: bool = False


@dataclass(frozen=True)
class Visibility:
    """How prompts list a name: for which APIs and tasks, and with what in the compact text.

    Attributes:
        hide: parameters that the compact text leaves out.
        summary: its words in the compact text; "" takes the first line of the docstring.
        needs: the role of the model that it asks, see :data:`viper.tools.models.ROLES`; "" if it
            asks none, or one of several.
        more: further tasks, for which only the API :data:`MORE` lists it.
    """

    tasks: tuple[str, ...]
    apis: tuple[str, ...]
    hide: tuple[str, ...] = ()
    summary: str = ""
    needs: str = ""
    more: tuple[str, ...] = ()

    def lists(self, apis: Collection[str], task: str) -> bool:
        """Return whether any of these APIs lists the name for a task."""
        in_more = MORE in apis and task in self.more
        return in_more or (task in self.tasks and not set(apis).isdisjoint(self.apis))


@dataclass(frozen=True)
class Routine:
    """A registered function. It runs in the parent if ``tool`` is set."""

    name: str
    function: Callable[..., Any]
    visibility: Visibility
    tool: bool = False

    @cached_property
    def receives(self) -> str | None:
        """Return the hidden parameter that the function takes first, if it takes one."""
        first = next(iter(inspect.signature(self.function).parameters), None)
        return first if first in _RECEIVED else None


class RoutineRegistry:
    """Routines by name. A duplicate raises; an error for an unknown name lists the known ones."""

    def __init__(self) -> None:
        self._routines: dict[str, Routine] = {}

    def add(self, routine: Routine) -> None:
        """Register a routine.

        Raises:
            UsageError: the name is in use, or an annotation or the docstring is missing.
        """
        if not inspect.isfunction(routine.function):
            raise UsageError(f"routine {routine.name!r} is no function; mark a plain function")
        if routine.name.startswith("_"):
            raise UsageError(
                f"routine {routine.name!r}: a name programs call has no underscore first"
            )
        if routine.name in self._routines:
            raise UsageError(f"routine {routine.name!r} is registered twice; choose another name")
        check_documented(routine.name, routine.function)
        unknown = set(routine.visibility.tasks) - set(TASKS)
        if unknown:
            raise UnknownNameError("task", sorted(unknown)[0], TASKS)
        self._routines[routine.name] = routine

    def get(self, name: str) -> Routine:
        """Return the routine of that name.

        Raises:
            UnknownNameError: no routine has that name.
        """
        if name not in self._routines:
            raise UnknownNameError("routine", name, self._routines)
        return self._routines[name]

    def all(self) -> tuple[Routine, ...]:
        """Return every routine, in the order of registration."""
        return tuple(self._routines.values())

    def apis(self) -> set[str]:
        """Return the names of the APIs that have a routine."""
        return {api for routine in self._routines.values() for api in routine.visibility.apis}

    @contextmanager
    def temporary(self) -> Iterator[RoutineRegistry]:
        """Undo every registration of the context at its end."""
        saved = dict(self._routines)
        try:
            yield self
        finally:
            self._routines = saved


# The routines of this package.
REGISTRY = RoutineRegistry()

# What ``@routine`` fills; a context variable, so that two threads may load files at once.
_CURRENT: ContextVar[RoutineRegistry] = ContextVar("registry", default=REGISTRY)


@contextmanager
def collecting() -> Iterator[RoutineRegistry]:
    """Let ``@routine`` fill a separate registry inside the context, for a file of routines."""
    registry = RoutineRegistry()
    token = _CURRENT.set(registry)
    try:
        yield registry
    finally:
        _CURRENT.reset(token)


@overload
def routine(tasks: Function) -> Function: ...
@overload
def routine(
    tasks: Sequence[str] = ...,
    *,
    tool: bool = ...,
    api: str | Sequence[str] = ...,
    more: Sequence[str] = ...,
    hide: Sequence[str] = ...,
    summary: str = ...,
    needs: str = ...,
) -> Callable[[Function], Function]: ...
def routine(
    tasks: Any = ALL_TASKS,
    *,
    tool: bool = False,
    api: str | Sequence[str] = MORE,
    more: Sequence[str] = (),
    hide: Sequence[str] = (),
    summary: str = "",
    needs: str = "",
) -> Any:
    """Register a function as a name that programs may call; plain ``@routine`` lists it always.

    Args:
        tasks: the tasks whose prompts list it; every task by default.
        tool: run it in the parent (trusted, with pixels and tools) instead of in the child.
        api: the API or APIs it belongs to.
        more: further tasks, for which only the API ``more`` lists it.
        hide: parameters that the compact text leaves out.
        summary: words of the compact text; the first line of the docstring by default.
        needs: the role of the model that it asks; prompts list it only if a model has the role.

    Raises:
        UsageError: the name is in use, or an annotation or the docstring is missing.
    """

    def register(function: Function) -> Function:
        listed = ALL_TASKS if callable(tasks) else _names(tasks)
        visibility = Visibility(listed, _names(api), tuple(hide), summary, needs, tuple(more))
        _CURRENT.get().add(Routine(function.__name__, function, visibility, tool))
        return function

    return register(tasks) if callable(tasks) else register


def method(
    tasks: Sequence[str],
    *,
    api: str | Sequence[str] = "vipergpt",
    more: Sequence[str] = (),
    hide: Sequence[str] = (),
    summary: str = "",
    needs: str = "",
) -> Callable[[Function], Function]:
    """Mark a method of an API class as listed in prompts; parameters as in :func:`routine`."""

    def mark(function: Function) -> Function:
        check_documented(function.__qualname__, function)
        visibility = Visibility(tuple(tasks), _names(api), tuple(hide), summary, needs, tuple(more))
        setattr(function, _MARK, visibility)
        return function

    return mark


def visibility_of(member: Any) -> Visibility | None:
    """Return how prompts list a method of an API class, or None if they do not."""
    return getattr(member, _MARK, None)


@cache
def listed_methods(owner: type) -> tuple[tuple[str, Callable[..., Any], Visibility], ...]:
    """Return the methods of a class that :func:`method` marks, in source order."""
    members = ((name, member, visibility_of(member)) for name, member in vars(owner).items())
    return tuple((name, member, mark) for name, member, mark in members if mark is not None)


def signature_of(
    function: Callable[..., Any], hide: Iterable[str] = ()
) -> tuple[tuple[Parameter, ...], str]:
    """Return the parameters that a program passes and the return annotation."""
    signature, hidden = inspect.signature(function), set(hide)
    parameters = tuple(
        Parameter(
            name,
            annotation_text(parameter.annotation),
            None if parameter.default is parameter.empty else repr(parameter.default),
            hidden=name in hidden,
        )
        for name, parameter in signature.parameters.items()
        if name not in HIDDEN
    )
    return parameters, annotation_text(signature.return_annotation)


def annotation_text(annotation: Any) -> str:
    """Return an annotation as source text; it may be a string or a type."""
    if isinstance(annotation, str):
        return annotation
    return getattr(annotation, "__name__", None) or str(annotation)


def check_documented(name: str, function: Callable[..., Any]) -> None:
    """Raise a UsageError unless all parameters are typed and there is a docstring."""
    signature = inspect.signature(function)
    untyped = [
        each
        for each, parameter in signature.parameters.items()
        if each not in ("self", TOOLS_PARAMETER) and parameter.annotation is parameter.empty
    ]
    if signature.return_annotation is inspect.Signature.empty:
        untyped.append("return")
    if untyped:
        raise UsageError(f"routine {name!r} lacks annotations: {', '.join(untyped)}")
    if not (inspect.getdoc(function) or "").strip():
        raise UsageError(f"routine {name!r} lacks a docstring; prompts are rendered from it")


def _names(api: str | Sequence[str]) -> tuple[str, ...]:
    return (api,) if isinstance(api, str) else tuple(api)
