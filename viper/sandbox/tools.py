"""The two ends that a caller plugs into the sandbox: a tool client and a prelude."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class ToolClient(Protocol):
    """Answers the calls of a program, in the parent process.

    Arguments and results are plain values (None, bool, int, float, str, bytes,
    list, tuple, dict, set, numpy arrays) and :class:`viper.sandbox.wire.Ref` s. What comes
    in was written by an untrusted program: check names, counts, types and
    handles before using them.
    """

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None
    ) -> Any:
        """The result of one call.

        Args:
            name: which tool.
            line: line of the program the call came from, for the trace.

        Raises:
            viper.errors.ToolError: the call is refused or failed; the program sees an
                exception at that line. Any other exception ends the run and reaches
                the caller of ``Sandbox.run``.
        """
        ...


class NoTools:
    """A tool client without tools: every call is refused."""

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None
    ) -> Any:
        from viper.errors import ToolError

        raise ToolError(f"there is no tool {name!r}: this sandbox was given none")


@dataclass(frozen=True)
class Source:
    """Functions in text that programs may call, held to the same rules as a program.

    Its text runs once, before any child is locked, in a namespace of its own that holds what
    programs see: a program cannot change what its functions look up.

    Attributes:
        name: what messages call it, such as a file's name.
        text: Python as programs may write it.
        exports: the functions that programs see.
    """

    name: str
    text: str
    exports: tuple[str, ...]


@dataclass(frozen=True)
class Prelude:
    """The names that programs see, made by a trusted module inside the child.

    ``module`` is imported once, before any child exists; it must stay light. It defines

    - ``names(call, config) -> dict[str, object]``: the names. ``call(name, *args,
      **kwargs)`` asks the parent and blocks; ``call.derived(result, source)`` notes
      that ``result`` is empty because the tool result ``source`` is (optional);
      ``call.variables`` maps the program's outermost variables by name.
    - ``READABLE: Mapping[type, frozenset[str]]``: attributes that programs may read,
      by exact type; everything else is refused.
    - ``encode(obj) -> Ref | None`` and ``decode(ref, call) -> object``: its value types
      on the wire.

    ``sources`` add functions that are themselves held to the policy.
    """

    module: str
    config: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()

    @classmethod
    def functions(cls, *names: str) -> Prelude:
        """A prelude in which each name is a function that calls the tool of that name."""
        return cls("viper.sandbox.plain_prelude", {"functions": list(names)})
