"""Case for a reflector: an answer and the desired answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viper.agreement import normalise_answer
from viper.errors import UsageError
from viper.models.media import Media
from viper.schema import Answer, Query, Trace, Trial


@dataclass(frozen=True)
class Case:
    """A program's answer and the feedback on it.

    Attributes:
        query: the query. Its task is resolved, never ``auto``.
        media: media of the query.
        trial: the program with its call log and its thresholds.
        answer: the program's answer; None if it failed.
        desired: the desired answer in the form that metrics take. ``ground``: a box ``(x0, y0, x1,
            y1)`` in pixels from the top-left corner. ``choice``: the index of the option.
            ``statement``: a truth value. ``question``: a text or number, or several accepted ones.
            None if there is only a comment.
        comment: feedback in words.
        plan: the plan, if the strategy makes one.

    Raises:
        UsageError: the desired answer does not fit the task.
    """

    query: Query
    media: Media
    trial: Trial
    answer: Answer | None
    desired: Any = None
    comment: str = ""
    plan: str = ""

    def __post_init__(self) -> None:
        desired, query, expected = self.desired, self.query, ""
        if query.task == "ground" and not (
            isinstance(desired, list | tuple)
            and len(desired) == 4
            and all(isinstance(side, int | float) and math.isfinite(side) for side in desired)
        ):
            expected = "a box, x0, y0, x1, y1 in pixels"
        elif query.task == "choice" and not (
            type(desired) is int and 0 <= desired < len(query.options)
        ):
            expected = f"the index of one of the {len(query.options)} options"
        elif query.task == "statement" and not isinstance(desired, bool):
            expected = "true or false"
        if desired is not None and expected:
            raise UsageError(f"the desired answer is {desired!r}; expected {expected}")

    @classmethod
    def of(
        cls, trace: Trace, media: Media, desired: Any = None, comment: str = "", plan: str = ""
    ) -> Case | None:
        """Build the case of a run from the trial that answered, else from the last with a program.

        Return None if the run wrote no program.
        """
        trial = trace.answering
        if trial is None:
            return None
        return cls(trace.query, media, trial, trace.answer, desired, comment, plan)


def desired_texts(case: Case) -> list[str]:
    """Return the desired answers as texts; empty if none is known or the answer is a box."""
    desired, task = case.desired, case.query.task
    if desired is None or task == "ground":
        return []
    if task == "choice":
        return [case.query.options[desired]]
    if isinstance(desired, Sequence) and not isinstance(desired, str):
        return [str(accepted) for accepted in desired]
    return [normalise_answer(desired) if isinstance(desired, bool) else str(desired)]


def desired_text(case: Case) -> str:
    """Return the desired answer in words, or "" if none is known.

    A box becomes ``[left, lower, right, upper]``, y up, as programs use it.
    """
    if case.query.task == "ground" and case.desired is not None:
        x0, y0, x1, y1 = case.desired
        if case.media.images:  # else its height is not known
            height = case.media.images[0].shape[0]
            y0, y1 = height - y1, height - y0
        return f"[{x0:.0f}, {y0:.0f}, {x1:.0f}, {y1:.0f}]"
    return " or ".join(desired_texts(case))


def is_reference(value: Any) -> bool:
    """Return whether a value of a log is a patch, picture, segment or video."""
    return isinstance(value, Mapping) and set(value) == {"kind", "fields"}
