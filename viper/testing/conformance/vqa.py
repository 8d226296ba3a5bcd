"""The rules of the visual question answering role."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from viper.testing.conformance.rules import (
    TOLERANCE,
    gives_nothing,
    is_chance,
    keeps_identity,
    leaves_arrays_alone,
    require,
    sample_pictures,
    works_in_another_thread,
)
from viper.tools.roles import Pixels, VisualAnswerer

QUESTIONS = ("what is this?", "Is there a red cube on the table?", "how many dogs?")

Answers = list[tuple[str, float]]


def check_vqa(
    backend: Any,
    images: Sequence[Pixels] | None = None,
    *,
    questions: Sequence[str] = QUESTIONS,
    tolerance: float = TOLERANCE,
) -> None:
    """Checks a :class:`~viper.tools.roles.VisualAnswerer`.

    Args:
        images: uint8 [H, W, 3]; None takes noise.
        questions: of different lengths; picture i is asked question i, round and round.
        tolerance: by what share of itself a probability may differ between runs.

    Raises:
        AssertionError: a rule is broken; the message names it.
    """
    images = sample_pictures() if images is None else images
    asked = [questions[i % len(questions)] for i in range(len(images))]
    with keeps_identity(backend, VisualAnswerer):
        gives_nothing("encode of no pictures", lambda: backend.encode([]))
        gives_nothing("answer without questions", lambda: backend.answer([], []))
        gives_nothing("caption of no pictures", lambda: backend.caption([]))
        leaves_arrays_alone(lambda given: _all_answers(backend, given, asked), images)
        answers = _all_answers(backend, images, asked)
        _are_well_formed(answers)
        agree = partial(_same, tolerance=tolerance)
        encodings = backend.encode(list(images))
        first, again = (backend.answer(encodings, asked) for _ in range(2))
        require(agree(first, again), "an encoding must give the same answer when asked again")
        alone = [_all_answers(backend, [i], [q])[0] for i, q in zip(images, asked, strict=True)]
        require(agree(answers, alone), "a question in a batch must get the answer it gets alone")
        turned = backend.answer(encodings[::-1], asked[::-1])[::-1]
        require(agree(answers, turned), "answers must come in the order of the questions")
        _check_captions(backend, encodings)
        works_in_another_thread(lambda: _all_answers(backend, images, asked), agree)


def _all_answers(backend: Any, images: Sequence[Pixels], questions: Sequence[str]) -> Answers:
    encodings = backend.encode(list(images))
    require(len(encodings) == len(images), "encode must give one encoding a picture")
    answers: Answers = backend.answer(encodings, list(questions))
    require(len(answers) == len(questions), "answer must give one answer a question")
    return answers


def _are_well_formed(answers: Answers) -> None:
    for text, chance in answers:
        require(isinstance(text, str), f"an answer must be text, not {text!r}")
        require(is_chance(chance), f"an answer's probability must lie in [0, 1], not {chance!r}")


def _check_captions(backend: Any, encodings: Sequence[Any]) -> None:
    captions = backend.caption(encodings)
    texts = len(captions) == len(encodings) and all(isinstance(each, str) for each in captions)
    require(texts, "caption must give one text a picture")
    alone = [backend.caption([encoding])[0] for encoding in encodings]
    require(captions == alone, "a picture in a batch must get the caption that it gets alone")


def _same(one: Answers, other: Answers, tolerance: float) -> bool:
    return all(
        a[0] == b[0] and math.isclose(a[1], b[1], rel_tol=tolerance)
        for a, b in zip(one, other, strict=True)
    )
