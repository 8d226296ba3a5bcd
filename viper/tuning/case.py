"""Case for a reflector: an answer and the desired answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viper.agreement import normalise_answer
from viper.errors import UsageError
from viper.evaluate.predictions import pixel_box
from viper.models.media import Media
from viper.schema import Answer, PixelBox, Query, Trace, Trial


@dataclass(frozen=True)
class Case:
    """A program's answer and the feedback on it.

    Attributes:
        query: the query. Its task is resolved, never ``auto``.
        media: media of the query.
        trial: the program with its call log, its thresholds, and its plan if there is one.
        answer: the program's answer; None if it failed.
        desired: the desired answer in the form that metrics take. ``ground``: a box ``(x0, y0, x1,
            y1)`` in pixels from the top-left corner. ``choice``: the index of the option.
            ``statement``: a truth value. ``question``: a text or number, or several accepted ones.
            ``tag``: pairs of label and box. ``edit``: the wanted picture in words. None if there is
            only a comment.
        comment: feedback in words.

    Raises:
        UsageError: the desired answer does not fit the task.
    """

    query: Query
    media: Media
    trial: Trial
    answer: Answer | None
    desired: Any = None
    comment: str = ""

    def __post_init__(self) -> None:
        desired, query, expected = self.desired, self.query, ""
        if query.task == "ground" and pixel_box(desired) is None:
            expected = "a box, x0, y0, x1, y1 in pixels"
        elif query.task == "tag" and not (
            isinstance(desired, list | tuple)
            and all(isinstance(tag, list | tuple) and len(tag) == 2 for tag in desired)
            and all(pixel_box(box) for _, box in desired)
        ):
            expected = "pairs of a label and a box, x0, y0, x1, y1 in pixels"
        elif query.task == "choice" and not (
            type(desired) is int and 0 <= desired < len(query.options)
        ):
            expected = f"the index of one of the {len(query.options)} options"
        elif query.task == "statement" and not isinstance(desired, bool):
            expected = "true or false"
        if desired is not None and expected:
            raise UsageError(f"the desired answer is {desired!r}; expected {expected}")

    @classmethod
    def of(cls, trace: Trace, media: Media, desired: Any = None, comment: str = "") -> Case | None:
        """Build the case of a run from the trial that answered, else from the last with a program.

        Return None if the run wrote no program.
        """
        trial = trace.answering
        if trial is None:
            return None
        return cls(trace.query, media, trial, trace.answer, desired, comment)


def desired_texts(case: Case) -> list[str]:
    """Return the desired answers as texts, of tags the labels; empty for boxes and pictures."""
    desired, task = case.desired, case.query.task
    if desired is None or task in ("ground", "edit"):
        return []
    if task == "tag":
        return [str(label) for label, _ in desired]
    if task == "choice":
        return [case.query.options[desired]]
    if isinstance(desired, Sequence) and not isinstance(desired, str):
        return [str(accepted) for accepted in desired]
    return [normalise_answer(desired) if isinstance(desired, bool) else str(desired)]


def desired_text(case: Case) -> str:
    """Return the desired answer in words, or "" if none is known.

    A box becomes ``[left, lower, right, upper]``, y up, as programs use it.
    """
    desired, task = case.desired, case.query.task
    if task == "ground" and desired is not None:
        return _box_text(desired, case.media)
    if task == "tag" and desired is not None:
        return tags_text(desired, case.media)
    return str(desired or "") if task == "edit" else " or ".join(desired_texts(case))


def tags_text(tags: Iterable[tuple[str, PixelBox]], media: Media) -> str:
    """Return pairs of label and box in words: ``cup at [3, 4, 20, 30]``."""
    return "; ".join(f"{label} at {_box_text(box, media)}" for label, box in tags) or "no tags"


def _box_text(box: Sequence[float], media: Media) -> str:
    x0, y0, x1, y1 = box
    if media.images:  # else its height is not known
        height = media.images[0].shape[0]
        y0, y1 = height - y1, height - y0
    return f"[{x0:.0f}, {y0:.0f}, {x1:.0f}, {y1:.0f}]"


def is_reference(value: Any) -> bool:
    """Return whether a value of a log is a patch, picture, segment or video."""
    return isinstance(value, Mapping) and set(value) == {"kind", "fields"}
