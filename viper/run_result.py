"""The result of a run, with its picture and its page; a notebook displays them."""

from __future__ import annotations

import html
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

from viper.draw import draw_answer, save_picture
from viper.errors import UsageError
from viper.models.media import Media
from viper.models.vision.roles import Pixels
from viper.record import outside
from viper.schema import Answer, Failure, RunWarning, Trace, Trial, to_json
from viper.storage.files import check_is_no_input, write_file


@dataclass(frozen=True, repr=False)
class RunResult:
    """Result of a run: the trace, the media of the query, and the value returned.

    ``value`` is None without an answer; else its type depends on the task, see
    :func:`viper.strategies.answers.value_for`. It may be an array, while ``trace`` is plain data.
    ``page`` renders the page of the trace with a command line; None if the reasoner's components
    have no page, and in copies, because it holds models.
    """

    trace: Trace
    media: Media
    value: Any = None
    page: Callable[[Trace, Media, str], str] | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        """Return the answer, or the kind of failure, and the kinds of warnings in one line."""
        answer, failure = self.answer, self.failure
        shown = f"no answer ({failure.kind})" if failure else "no answer"
        if answer is not None:
            box = [round(side, 1) for side in answer.box or ()]
            shown = f"{answer.kind} {box or answer.value!r}"
        doubts = "".join(f", {warning.kind}" for warning in self.warnings)
        return f"<RunResult {self.trace.query.text!r}: {shown}{doubts}>"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "page": None}

    @property
    def answer(self) -> Answer | None:
        return self.trace.answer

    @property
    def failure(self) -> Failure | None:
        return self.trace.failure

    @property
    def confidence(self) -> float | None:
        """Return the probability that the answer is right; None if it is not known."""
        return None if self.answer is None else self.answer.confidence

    @property
    def trials(self) -> tuple[Trial, ...]:
        return self.trace.trials

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        """Return the calls of the answering trial as ``--json`` prints them."""
        return [outside(to_json(call), self.trace.sizes) for call in self.trace.tool_calls]

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

    def show(self) -> None:
        """Display the picture with the answer, in a notebook below the cell, else in a window."""
        image = self._drawn()
        ipython = sys.modules.get("IPython")  # imported wherever a notebook runs
        if getattr(ipython and ipython.get_ipython(), "kernel", None) is None:
            image.show()
        else:
            from IPython.display import display

            display(image)

    def save(self, path: str | Path) -> None:
        """Write the picture with the answer, or the edited picture, completely or not at all.

        Raises:
            UsageError: the suffix names no format of pictures, or the file is that of the query.
            StoreError: the file cannot be written.
        """
        check_is_no_input(Path(path), self.media.paths)
        save_picture(self._drawn(), Path(path))

    def html(self, path: str | Path, command: str = "") -> None:
        """Write the page of the trace; its programs run again, without asking a model.

        Args:
            command: a command line that repeats the run, for the page.

        Raises:
            UsageError: the result has no page, or the file is that of the query.
            StoreError: the file cannot be written.
        """
        if self.page is None:
            raise UsageError("this result has no page; answer with the Reasoner of a profile")
        check_is_no_input(Path(path), self.media.paths)
        write_file(Path(path), self.page(self.trace, self.media, command))

    def _drawn(self) -> Any:
        return draw_answer(self.trace, self.media, self.picture)

    def _repr_png_(self) -> bytes | None:
        """Return the picture with the answer as PNG, or None without an answer."""
        if self.answer is None:
            return None
        content = BytesIO()
        self._drawn().save(content, "PNG")
        return content.getvalue()

    def _repr_html_(self) -> str | None:
        """Return the page in a frame that shares nothing with the notebook."""
        if self.page is None:
            return None
        page = html.escape(self.page(self.trace, self.media, ""))
        style = "width: 100%; height: 45em; border: 0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{page}"></iframe>'
