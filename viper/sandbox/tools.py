"""The two parts that a caller plugs into the sandbox: a tool client and a prelude."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class ToolClient(Protocol):
    """Answers the calls of a program, in the parent process.

    Arguments and results are plain values (None, bool, int, float, str, bytes, list, tuple, dict,
    set, numpy arrays) and :class:`viper.sandbox.wire.Ref` s. The arguments come from an untrusted
    program: check names, counts, types and handles before using them.
    """

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None
    ) -> Any:
        """Return the result of one call.

        Args:
            name: name of the tool.
            line: line of the program that made the call, for the trace.

        Raises:
            viper.errors.ToolError: the call is refused or failed; the program sees an
                exception at that line. Any other exception ends the run and reaches
                the caller of ``Sandbox.run``.
        """


class NoTools:
    """A tool client without tools: it refuses every call."""

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None
    ) -> Any:
        from viper.errors import ToolError

        raise ToolError(f"there is no tool {name!r}: this sandbox was given none")


@dataclass(frozen=True)
class Source:
    """Source text of functions that programs may call; it obeys the same rules as a program.

    The text runs once, before any child is locked, in its own namespace with the names that
    programs see. A program cannot change the names that its functions look up.

    Attributes:
        name: name for messages, such as the name of a file.
        text: Python as programs may write it.
        exports: the functions that programs see.
    """

    name: str
    text: str
    exports: tuple[str, ...]


@dataclass(frozen=True)
class Prelude:
    """The names that programs see, provided by a trusted module inside the child.

    ``module`` is imported once, before any child exists, and must stay light. It defines

    - ``names(call, config) -> dict[str, object]``: the names. ``call(name, *args,
      **kwargs)`` asks the parent and blocks; ``call.derived(result, source)`` notes
      that ``result`` is empty because the tool result ``source`` is (optional);
      ``call.variables`` maps the program's outermost variables by name; ``call.arrays`` maps the
      read-only arrays that the parent shares.
    - ``READABLE: Mapping[type, frozenset[str]]``: attributes that programs may read,
      by exact type; everything else is refused.
    - ``encode(obj) -> Ref | None`` and ``decode(ref, call) -> object``: how its value types
      cross the wire.

    ``sources`` add functions that obey the policy themselves.
    """

    module: str
    config: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()

    @classmethod
    def functions(cls, *names: str) -> Prelude:
        """Return a prelude in which each name is a function that calls the tool of that name."""
        return cls("viper.sandbox.plain_prelude", {"functions": list(names)})
