"""Error attribution of a wrong answer as a record that programs can act on.

Source: CLOVA (Gao et al. 2024, sec. 3.3): reflection names the tool that needs an update. Differs:
the critique is typed, so that learning never has to search prose.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from viper.errors import ViperError

LOCATIONS = ("plan", "program", "none")
TOOL = "tool:"


class CritiqueError(ViperError, ValueError):
    """A text that cannot be parsed as a critique."""

    code = "critique"


@dataclass(frozen=True)
class Critique:
    """Cause of a wrong answer.

    Attributes:
        location: ``plan``, ``program``, ``tool:NAME``, or ``none`` if the error cannot be
            attributed.
        step: index of the call at fault, from 0; None if no single call is.
        reason: the reason in words.
        desired: the result that the call should have had, as a JSON value (patches as in the call
            log); for ``program`` and ``plan`` a text or None.

    Raises:
        CritiqueError: the location is another one, or the step is below 0.
    """

    location: str
    step: int | None = field(default=None, metadata={"strict": True})
    reason: str = ""
    desired: Any = None

    def __post_init__(self) -> None:
        if self.location not in LOCATIONS and not self.location.removeprefix(TOOL).isidentifier():
            raise CritiqueError(
                f"location {self.location!r}; expected plan, program, none or tool:NAME"
            )
        if self.location not in LOCATIONS and not self.location.startswith(TOOL):
            raise CritiqueError(f"location {self.location!r}; a tool is written tool:NAME")
        if self.step is not None and self.step < 0:
            raise CritiqueError(f"step is {self.step}; calls count from 0")

    @property
    def tool(self) -> str | None:
        """Return the name of the tool at fault, or None if no tool is."""
        name = self.location.removeprefix(TOOL)
        return name if name != self.location else None

    @property
    def speaks(self) -> bool:
        """Return whether the critique attributes the error to anything."""
        return self.location != "none"

    @classmethod
    def of_tool(cls, name: str, step: int | None, reason: str, desired: Any = None) -> Critique:
        """Build a critique that attributes the error to a tool."""
        return cls(TOOL + name, step, reason, desired)
