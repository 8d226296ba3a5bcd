"""The result of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from viper.models.media import Media
from viper.models.vision.roles import Pixels
from viper.schema import Answer, Failure, RunWarning, Trace


@dataclass(frozen=True, repr=False)
class RunResult:
    """Result of a run: the trace, the media of the query, and the raw value returned.

    ``value`` may hold arrays and references; ``trace`` is plain data.
    """

    trace: Trace
    media: Media
    value: Any = None

    def __repr__(self) -> str:
        """Return the answer, or the kind of failure, and the kinds of warnings in one line."""
        answer, failure = self.answer, self.failure
        shown = f"no answer ({failure.kind})" if failure else "no answer"
        if answer is not None:
            box = [round(side, 1) for side in answer.box or ()]
            shown = f"{answer.kind} {box or answer.value!r}"
        doubts = "".join(f", {warning.kind}" for warning in self.warnings)
        return f"<RunResult {self.trace.query.text!r}: {shown}{doubts}>"

    @property
    def answer(self) -> Answer | None:
        return self.trace.answer

    @property
    def failure(self) -> Failure | None:
        return self.trace.failure

    @property
    def picture(self) -> Pixels | None:
        """Return the picture of the answer, ``uint8 [H, W, 3]``; None for other answers."""
        if self.answer is None or self.answer.kind != "image":
            return None
        return self.media.edits.picture(self.answer.value["picture"]).pixels

    @property
    def program(self) -> str | None:
        return self.trace.program

    @property
    def warnings(self) -> tuple[RunWarning, ...]:
        return self.trace.warnings

    def withheld(self) -> RunResult:
        """Return the result without its answer if a warning says that the profile withholds it."""
        trace = self.trace.withheld()
        return self if trace is self.trace else replace(self, trace=trace, value=None)
