"""Suites for backends on whole pictures: depth estimators, inpainters, matchers, answerers.

Each ``check_…`` first requires that pictures stay as they are, because the later rules compare
answers about them: their form, a batch against single pictures, order, and another thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from viper.models.vision import roles
from viper.testing.conformance.rules import (
    TOLERANCE,
    all_agree,
    check_score,
    gives_nothing,
    has_size_of,
    keeps_identity,
    leaves_arrays_alone,
    require,
    sample_pictures,
    works_in_another_thread,
)


def check_depth(
    backend: Any, images: Sequence[roles.Pixels] | None = None, *, tolerance: float = TOLERANCE
) -> None:
    """Check a :class:`~viper.models.vision.roles.DepthEstimator`.

    The rule that larger is farther needs a picture of known depth, so test it on one.

    Args:
        images: uint8 [H, W, 3], not all square; None takes noise.
        tolerance: largest difference of a map between runs, as a share of its largest value.

    Raises:
        AssertionError: a rule is broken; the message names it.
    """
    images = sample_pictures() if images is None else images

    def same_map(a: roles.Floats, b: roles.Floats) -> bool:
        slack = tolerance * float(np.abs(a).max())
        return a.shape == b.shape and np.allclose(a, b, rtol=0, atol=slack)

    agree = partial(all_agree, agree=same_map)
    with keeps_identity(backend, roles.DepthEstimator):
        gives_nothing("depth of no pictures", lambda: backend.depth([]))
        leaves_arrays_alone(backend.depth, images)
        maps = backend.depth(list(images))
        require(len(maps) == len(images), "depth must give one map a picture")
        for image, depth in zip(images, maps, strict=True):
            has_size_of(depth, "float32", image.shape[:2], "a depth map")
            require(np.isfinite(depth).all(), "a depth map must hold finite numbers")
        alone = [backend.depth([image])[0] for image in images]
        require(agree(maps, alone), "a picture in a batch must give the map that it gives alone")
        works_in_another_thread(lambda: backend.depth(list(images)), agree)


PROMPT = "a red cube"
# Any seed will do, but for 0, which a backend might take for none.
SEED = 7


def check_inpainter(
    backend: Any, images: Sequence[roles.Pixels] | None = None, *, prompt: str = PROMPT
) -> None:
    """Check an :class:`~viper.models.vision.roles.Inpainter`.

    Args:
        images: uint8 [H, W, 3], not all square; None takes noise.
        prompt: the object to paint.

    Raises:
        AssertionError: a rule is broken; the message names it.
    """
    images = sample_pictures() if images is None else images
    with keeps_identity(backend, roles.Inpainter):
        first, mask = images[0], _masks(images[0])["a box"]
        leaves_arrays_alone(
            lambda copies: backend.inpaint(copies[0], mask.copy(), prompt, SEED), [first]
        )
        leaves_arrays_alone(
            lambda copies: backend.inpaint(first, copies[0].view(np.bool_), prompt, SEED),
            [mask.view(np.uint8)],
        )
        for image in images:
            for name, each in _masks(image).items():
                result = backend.inpaint(image, each, prompt, SEED)
                has_size_of(result, "uint8", image.shape, "a painting")
                same = np.array_equal(result[~each], image[~each])
                rule = "pixels outside the mask must stay as they were"
                require(same, f"{rule}, also where it is {name}")
        painting = backend.inpaint(first, mask, prompt, SEED)
        require((painting != first).any(), "something must be painted where the mask holds")
        repeated = backend.inpaint(first, mask, prompt, SEED)
        require(np.array_equal(painting, repeated), "the same seed must give the same picture")
        works_in_another_thread(lambda: backend.inpaint(first, mask, prompt, SEED), np.array_equal)


def _masks(image: roles.Pixels) -> dict[str, roles.Mask]:
    """Return masks of a picture by description: nothing, everything, a box, a corner, two
    places.
    """
    height, width = image.shape[:2]
    nothing = np.zeros((height, width), bool)
    box, corner, two = nothing.copy(), nothing.copy(), nothing.copy()
    box[height // 3 : height // 3 * 2, width // 4 : width // 2] = True
    corner[-1, -1] = True
    two[0, 0] = two[-1, width // 2 :] = True
    masks = {"empty": nothing, "everything": ~nothing, "a box": box}
    return {**masks, "one corner": corner, "two places": two}


# Of one, three and six words, so that padding shows.
TEXTS = ("a red cube", "two dogs on a sofa", "ball")


def check_matcher(
    backend: Any,
    images: Sequence[roles.Pixels] | None = None,
    *,
    texts: Sequence[str] = TEXTS,
    tolerance: float = TOLERANCE,
) -> None:
    """Check a :class:`~viper.models.vision.roles.Matcher`.

    Args:
        images: uint8 [H, W, 3]; None takes noise.
        texts: at least two.
        tolerance: largest difference of a number of an embedding between runs.

    Raises:
        AssertionError: a rule is broken; the message names it.
    """
    images = sample_pictures() if images is None else images
    with keeps_identity(backend, roles.Matcher):
        scale = backend.logit_scale
        good = isinstance(scale, float) and math.isfinite(scale) and scale > 0
        require(good, f"logit_scale must be a finite number above 0, not {scale!r}")
        leaves_arrays_alone(backend.encode_images, images)
        agree = partial(np.allclose, rtol=0, atol=tolerance)
        image_rows = _check_side("encode_images", backend.encode_images, images, agree)
        text_rows = _check_side("encode_texts", backend.encode_texts, texts, agree)
        width, other = image_rows.shape[1], text_rows.shape[1]
        rule = "pictures and texts must share one space"
        require(width == other, f"{rule}, not have {width} and {other} numbers")


def _check_side(name: str, encode: Callable[[Any], Any], items: Sequence[Any], agree: Any) -> Any:
    """Check one of the two encoders and return the embeddings [N, D]."""
    gives_nothing(f"{name} of nothing", lambda: encode([]))
    rows = encode(list(items))
    well = isinstance(rows, np.ndarray) and rows.dtype == np.float32 and rows.ndim == 2
    require(well and len(rows) == len(items), f"{name} must give float32 [N, D], a row an item")
    lengths = np.linalg.norm(rows, axis=1)
    require(np.allclose(lengths, 1, atol=1e-2), f"{name} must give rows of length 1, not {lengths}")
    alone = np.concatenate([encode([item]) for item in items])
    require(agree(rows, alone), f"{name} must give in a batch what it gives alone")
    turned = encode(list(reversed(items)))[::-1]
    require(agree(rows, turned), f"{name} must give rows in the order of the items")
    works_in_another_thread(lambda: encode(list(items)), agree)
    return rows


# Of different lengths, so that padding shows.
QUESTIONS = ("what is this?", "Is there a red cube on the table?", "how many dogs?")

Answers = list[tuple[str, float]]


def check_vqa(
    backend: Any,
    images: Sequence[roles.Pixels] | None = None,
    *,
    questions: Sequence[str] = QUESTIONS,
    tolerance: float = TOLERANCE,
) -> None:
    """Check a :class:`~viper.models.vision.roles.VisualAnswerer`.

    Args:
        images: uint8 [H, W, 3]; None takes noise.
        questions: of different lengths; picture i gets question i, starting over at the end.
        tolerance: largest relative difference of a probability between runs.

    Raises:
        AssertionError: a rule is broken; the message names it.
    """
    images = sample_pictures() if images is None else images
    paired = [questions[i % len(questions)] for i in range(len(images))]

    def answered(pictures: Sequence[roles.Pixels], asked: Sequence[str] = paired) -> Answers:
        encodings = backend.encode(list(pictures))
        require(len(encodings) == len(pictures), "encode must give one encoding a picture")
        answers: Answers = backend.answer(encodings, list(asked))
        require(len(answers) == len(asked), "answer must give one answer a question")
        return answers

    def same_answer(a: tuple[str, float], b: tuple[str, float]) -> bool:
        return a[0] == b[0] and math.isclose(a[1], b[1], rel_tol=tolerance)

    agree = partial(all_agree, agree=same_answer)
    with keeps_identity(backend, roles.VisualAnswerer):
        gives_nothing("encode of no pictures", lambda: backend.encode([]))
        gives_nothing("answer without questions", lambda: backend.answer([], []))
        gives_nothing("caption of no pictures", lambda: backend.caption([]))
        leaves_arrays_alone(answered, images)
        answers = answered(images)
        for text, chance in answers:
            require(isinstance(text, str), f"an answer must be text, not {text!r}")
            check_score(chance)
        encodings = backend.encode(list(images))
        first, second = (backend.answer(encodings, paired) for _ in range(2))
        require(agree(first, second), "an encoding must give the same answer when asked again")
        alone = [answered([i], [q])[0] for i, q in zip(images, paired, strict=True)]
        require(agree(answers, alone), "a question in a batch must get the answer it gets alone")
        turned = backend.answer(encodings[::-1], paired[::-1])[::-1]
        require(agree(answers, turned), "answers must come in the order of the questions")
        captions = backend.caption(encodings)
        texts = len(captions) == len(encodings) and all(isinstance(each, str) for each in captions)
        require(texts, "caption must give one text a picture")
        alone = [backend.caption([encoding])[0] for encoding in encodings]
        require(captions == alone, "a picture in a batch must get the caption that it gets alone")
        works_in_another_thread(lambda: answered(images), agree)
