"""What people say of a run's answers: the right one, or a comment in words.

One line of JSON a remark in ``feedback.jsonl`` of the run's folder, only ever appended to. Several
processes may append at once; one that is killed while it does loses its own line alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from viper.errors import UsageError
from viper.evaluate.sample_result import SampleResult
from viper.storage.json_lines import append_line, read_lines

FEEDBACK = "feedback.jsonl"

LONGEST = 4_000
"""Characters of an answer or a comment."""

RIGHT_IS = {
    "ground": "a box, x0,y0,x1,y1 in pixels from the top-left corner",
    "choice": "one of the options, or its number from 0",
    "statement": "true or false",
}
"""What the right answer of a task looks like; in words otherwise."""

COMMENT_ALONE = (
    "a comment alone is kept for people to read and teaches nothing; "
    "say what would have been right with --answer"
)


@dataclass(frozen=True)
class Feedback:
    """One remark about one answer.

    Attributes:
        answer: what would have been right, as the metric of the set takes it: text, a number, a
            truth value, the index of an option, or a box ``[x0, y0, x1, y1]`` in pixels from the
            top-left corner.
        comment: in words.
        given: UTC, ISO 8601.

    Raises:
        UsageError: neither is there, or one is too long.
    """

    sample_id: str
    seed: int = field(default=0, metadata={"strict": True})
    answer: Any = None
    comment: str = ""
    given: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    def __post_init__(self) -> None:
        if self.answer is None and not self.comment.strip():
            raise UsageError("feedback needs the right answer, a comment, or both")
        for name, text in (("answer", self.answer), ("comment", self.comment)):
            if isinstance(text, str) and len(text) > LONGEST:
                raise UsageError(f"the {name} has {len(text):,} characters; at most {LONGEST:,}")


def add_feedback(run: Path, feedback: Feedback) -> None:
    """Append a remark. It is on disk when this returns.

    Raises:
        StoreError: it cannot be written.
    """
    append_line(run / FEEDBACK, feedback)


def read_feedback(run: Path) -> list[Feedback]:
    """Read all remarks in order. A last line that was cut off is left out.

    Raises:
        StoreError: the file cannot be read, or a line of it is no remark.
    """
    return read_lines(run / FEEDBACK, Feedback, "a remark")


def answer_from(text: str, row: SampleResult) -> Any:
    """Parse the right answer from typed text, in the form that the metric of the row takes.

    Raises:
        UsageError: it is no answer of the row's task.
    """
    if row.task == "ground":
        try:
            sides = [float(side) for side in text.split(",")]
        except ValueError:
            sides = []
        if len(sides) != 4 or not all(map(math.isfinite, sides)) or not _is_box(sides):
            raise UsageError(f"answer {text!r}: expected a box, x0,y0,x1,y1 in pixels")
        return sides
    if row.task == "choice" and row.options:
        if text in row.options:
            return row.options.index(text)
        if text.isdecimal() and int(text) < len(row.options):
            return int(text)
        raise UsageError(f"answer {text!r}: expected one of {', '.join(row.options)}")
    if row.task == "statement":
        if text.lower() not in ("true", "false"):
            raise UsageError(f"answer {text!r}: expected true or false")
        return text.lower() == "true"
    return text


def _is_box(sides: list[float]) -> bool:
    return sides[0] < sides[2] and sides[1] < sides[3]
