"""Right option, right truth value."""

from __future__ import annotations

from typing import Any


def choice_correct(prediction: int | None, target: int) -> bool:
    """Whether the chosen index is the target's."""
    return prediction is not None and prediction == target


def truth_of(value: Any) -> bool | None:
    """A truth value, or the word ``true`` or ``false`` in any case; None for all else.

    Source: NLVR's ``metrics_images.py`` compares the predicted word with the label without
    case and strips nothing: ``" true"`` and ``yes`` are no right answers there.
    """
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else None


def statement_correct(prediction: Any, target: Any) -> bool:
    """Whether prediction and target are the same truth value; see :func:`truth_of`."""
    said = truth_of(prediction)
    return said is not None and said == truth_of(target)
