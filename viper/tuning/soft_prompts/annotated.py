"""What tuners that learn from annotated pictures share: which pictures judge, and the evidence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from viper.errors import UsageError
from viper.tools.roles import Floats
from viper.tuning.collect import AnnotatedPicture, Collected
from viper.tuning.kept_prompts import Evidence
from viper.tuning.soft_prompts.base import TunerOptions

Lesson = Collected[AnnotatedPicture]

HELD_OUT = 0.3
"""Share of the pictures that a prompt is not trained on."""


def check_enough(lesson: Lesson, role: str) -> None:
    """Raises UsageError where there are fewer than two positive pictures."""
    if len(lesson.positives) < 2:
        raise UsageError(
            f"{len(lesson.positives)} picture of {lesson.concept!r}; the {role} needs two, "
            "one of them to judge what it learned from the other"
        )


def held_out(lesson: Lesson, at: int) -> list[int]:
    """Places of the pictures that the prompt of a positive one is judged on, never its own.

    Positives come first, then negatives. They go round, so that each picture is held out by as
    many prompts.
    """
    positives, negatives = len(lesson.positives), len(lesson.negatives)
    some = max(1, round(HELD_OUT * positives))
    few = round(HELD_OUT * negatives)
    mine = [(at + 1 + step) % positives for step in range(min(some, positives - 1))]
    others = [(at * few + step) % negatives for step in range(few)]
    return sorted({*mine, *(positives + one for one in others)})


def evidence_of(
    lesson: Lesson,
    at: int,
    model_id: str,
    shares: tuple[Floats, Floats],
    steps: int,
    options: TunerOptions,
) -> Evidence:
    """The evidence of a positive picture's prompt, trained on all that :func:`held_out` leaves.

    Args:
        shares: float ``[N]`` each, how right each held-out picture is before and after.
    """
    pictures: Sequence[AnnotatedPicture] = (*lesson.positives, *lesson.negatives)
    names, held = [picture.picture_id for picture in pictures], held_out(lesson, at)
    trained_on = [at, *(one for one in range(len(names)) if one not in (at, *held))]
    before, after = (round(float(np.mean(share)), 4) for share in shares)
    return Evidence(
        model_id,
        tuple(names[one] for one in trained_on),
        tuple(names[one] for one in held),
        before,
        after,
        "annotated",
        steps=steps,
        seed=options.seed,
    )
