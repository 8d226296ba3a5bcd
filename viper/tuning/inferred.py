"""Training data for a visual answerer: the question that failed with the answer it should have had.

Source: CLOVA (Gao et al. 2024), sec. 3.4: the right output of the VQA tool is inferred from the
desired answer of the task and the results of its steps. Who inferred it is the reflection's matter;
here its ``desired`` becomes an answer as such tools give them, or none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from viper.errors import UsageError
from viper.schema import PixelBox
from viper.tools.crops import object_crop
from viper.tools.roles import Pixels

MOST_ANSWER = 60
"""Characters of an answer: a word or a few, never an explanation."""

MOST_QUESTION = 300
"""Characters of a question."""


@dataclass(frozen=True, eq=False)
class InferredAnswer:
    """A question about a region with the answer that would have been right.

    Attributes:
        picture_id: names the picture in its trace, as ``image0``.
        box: the region, ``(x0, y0, x1, y1)`` in pixels from the top-left corner; None: all of it.
        evidence: JSON values on how the answer was inferred.
        load: reads the whole picture, uint8 [H, W, 3], RGB.
    """

    picture_id: str
    box: PixelBox | None
    question: str
    answer: str
    evidence: Mapping[str, Any]
    load: Callable[[], Pixels] = field(repr=False)

    def pixels(self) -> Pixels:
        """The region as the tool is shown it: uint8 [S, S, 3], or the whole picture [H, W, 3]."""
        image = self.load()
        return image if self.box is None else object_crop(image, self.box)


def inferred_answer(
    picture_id: str,
    load: Callable[[], Pixels],
    question: str,
    desired: Any,
    *,
    box: PixelBox | None = None,
    step: int | None = None,
    reason: str = "",
) -> InferredAnswer | None:
    """What a critique of an answer teaches; None if its desired result is no short answer.

    Args:
        desired: what the call should have returned: a text, a truth value or a number.
        step: of the program, that the critique is about.
        reason: the critique's own words.

    Raises:
        UsageError: the question is blank or too long.
    """
    asked = " ".join(question.split())
    if not asked or len(asked) > MOST_QUESTION:
        raise UsageError(
            f"a question of {len(asked)} characters cannot be learned; "
            f"expected 1 to {MOST_QUESTION}"
        )
    answer = answer_text(desired)
    if answer is None:
        return None
    evidence = {
        "manner": "inferred",
        "picture": picture_id,
        "box": None if box is None else list(box),
        "question": asked,
        "answer": answer,
        "step": step,
        "reason": reason,
    }
    return InferredAnswer(picture_id, box, asked, answer, evidence, load)


def answer_text(desired: Any) -> str | None:
    """A desired result as visual answerers say it: small letters, yes or no, digits; else None."""
    if isinstance(desired, bool):
        return "yes" if desired else "no"
    if isinstance(desired, int | float):
        if isinstance(desired, float) and not math.isfinite(desired):
            return None
        whole = int(desired) == desired
        text = str(int(desired)) if whole and abs(desired) < 1e15 else f"{desired:g}"
    elif isinstance(desired, str):
        text = " ".join(desired.split()).rstrip(".").lower()
    else:
        return None
    return text if 0 < len(text) <= MOST_ANSWER else None
