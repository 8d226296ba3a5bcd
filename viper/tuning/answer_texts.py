"""What a visual answerer should have said, as such tools say it.

Source: CLOVA (Gao et al. 2024), sec. 3.4: the right output of the VQA tool is inferred from the
desired answer of the task and the results of its steps. Who inferred it is the reflection's matter.
"""

from __future__ import annotations

import math
from typing import Any

MOST_ANSWER = 60
"""Characters of an answer: a word or a few, never an explanation."""


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
