"""Feedback of people on a run's answers: the right answer, or a comment in words.

Each remark is one line of JSON in ``feedback.jsonl`` in the run's folder. Lines are only appended.
Several processes may append at once; a process that is killed meanwhile loses only its own line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from viper.agreement import normalise_answer
from viper.errors import UsageError
from viper.evaluate.sample_result import SampleResult
from viper.storage.json_lines import append_line, read_lines
from viper.strategies.marked import box_of

FEEDBACK = "feedback.jsonl"

# Most characters of an answer or a comment: a page of text, so that a form posted by mistake cannot
# fill the run's folder or a prompt.
LONGEST = 4_000

# Form of the right answer by task. Other tasks take words.
RIGHT_IS = {
    "ground": "a box, x0,y0,x1,y1 in pixels from the top-left corner",
    "choice": "one of the options, or its number from 0",
    "statement": "true or false",
    "edit": "yes or no: was the picture right",
    "tag": "yes or no: were the tags right",
}

# The words of the two truth values by task.
_TRUTHS = {"statement": ("true", "false"), "edit": ("yes", "no"), "tag": ("yes", "no")}

COMMENT_ALONE = (
    "a comment alone, like the answer no, says that something is wrong but not what is right; "
    "viper learn --reflector llm learns from it, others need the right answer (--answer)"
)


@dataclass(frozen=True)
class Feedback:
    """One remark about one answer.

    Attributes:
        answer: the right answer in the form that the set's metric takes: text, a number, a truth
            value, the index of an option, or a box ``[x0, y0, x1, y1]`` in pixels from the
            top-left corner. For an edit or tags, whether they were right. None if the person gave
            only a comment.
        comment: the comment in words, or "".
        given: time in UTC, ISO 8601.

    Raises:
        UsageError: there is neither an answer nor a comment, or one of them is too long.
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
        StoreError: the file cannot be written.
    """
    append_line(run / FEEDBACK, feedback)


def give_feedback(run: Path, result: SampleResult, answer: str, comment: str) -> None:
    """Store what a person typed about a result; either text may be empty.

    Raises:
        UsageError: both are empty, one is too long, or the answer does not fit the result's task.
        StoreError: the file cannot be written.
    """
    right = answer_from(answer, result.task, result.options) if answer else None
    add_feedback(run, Feedback(result.sample_id, result.seed, right, comment))


def read_feedback(run: Path) -> list[Feedback]:
    """Read all remarks in order. A truncated last line is left out.

    Raises:
        StoreError: the file cannot be read, or one of its lines is not a remark.
    """
    return read_lines(run / FEEDBACK, Feedback, "a remark")


def answer_from(text: str, task: str, options: Sequence[str] = ()) -> Any:
    """Parse the right answer from typed text, in the form that metrics of the task take.

    Raises:
        UsageError: the text is not an answer to the task.
    """
    if task == "ground":
        return list(box_of(text, "answer"))
    if task == "choice" and options:
        if text in options:
            return list(options).index(text)
        if text.isdecimal() and int(text) < len(options):
            return int(text)
        raise UsageError(f"answer {text!r}: expected one of {', '.join(options)}")
    words = _TRUTHS.get(task)
    if words is None:
        return text
    truth = normalise_answer(text)  # yes and true are the same
    if truth not in ("yes", "no"):
        raise UsageError(f"answer {text!r}: expected {' or '.join(words)}")
    return truth == "yes"
