"""Each rule for matchers, depth and visual answering fires on a backend that breaks it."""

from __future__ import annotations

import numpy as np
import pytest
from breaking import blackens, broken, broken_identities, differs_by_thread, refuses_threads, writes

from viper.testing.conformance import check_depth, check_matcher, check_vqa


class GoodMatcher:
    """Embeds a picture by two of its pixels, a text by its letters."""

    model_id = "good"
    logit_scale = 10.0

    def encode_images(self, images):
        return self.rows([self.keep(image)[:2, 0].ravel() for image in images])

    def encode_texts(self, texts):
        return self.rows([[text.count(letter) + 0.1 for letter in "abcdeo"] for text in texts])

    def keep(self, image):
        return image.copy()

    def rows(self, numbers):
        rows = np.array(numbers, np.float32).reshape(-1, 6)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class GoodDepth:
    """Takes brightness for depth."""

    model_id = "good"

    def depth(self, images):
        return [self.keep(image).mean(axis=2, dtype=np.float32) for image in images]

    def keep(self, image):
        return image.copy()


class GoodAnswerer:
    """Answers with the question and a pixel."""

    model_id = "good"

    def encode(self, images):
        return [self.keep(image) for image in images]

    def keep(self, image):
        return image.copy()

    def answer(self, encodings, questions):
        pairs = zip(encodings, questions, strict=True)
        return [(f"{question} {image[0, 0]}", 0.5) for image, question in pairs]

    def caption(self, encodings):
        return [f"a picture with {image[0, 0]}" for image in encodings]


def careless(good: type):
    """What any backend that is given pictures may do wrong."""
    return [
        *broken_identities(good),
        ("lacks a method of the role", type("Half", (), {"model_id": "half"})()),
        ("must not be changed", broken(good, keep=staticmethod(blackens))),
        ("read-only arrays must be accepted", broken(good, keep=staticmethod(writes))),
        ("same answer", broken(good, keep=staticmethod(differs_by_thread))),
        ("another thread must get an answer", broken(good, keep=staticmethod(refuses_threads))),
    ]


def matching(name, change):
    """A matcher one of whose encoders goes through ``change(rows)``."""
    method = getattr(GoodMatcher, name)
    return broken(GoodMatcher, **{name: lambda self, items: change(method(self, items))})


def by_place(rows):
    """Rows that depend on how many there are."""
    turned = np.roll(rows, len(rows) - 1, axis=1)
    return turned if len(rows) > 1 else rows


BROKEN_MATCHERS = [
    *careless(GoodMatcher),
    *(
        (f"{name} {rule}", matching(name, change))
        for name in ("encode_images", "encode_texts")
        for rule, change in (
            (
                "of nothing must give an empty result$",
                lambda rows: rows if len(rows) else np.ones((1, 6)),
            ),
            ("must give float32", lambda rows: rows.astype(np.float64)),
            ("must give float32", lambda rows: rows.tolist()),
            ("must give float32", lambda rows: rows[:1]),
            ("must give rows of length 1", lambda rows: 2 * rows),
            ("must give in a batch what it gives alone", by_place),
            ("must give in a batch what it gives alone", lambda rows: rows[::-1]),
        )
    ),
    ("logit_scale must be", broken(GoodMatcher, logit_scale=0.0)),
    ("logit_scale must be", broken(GoodMatcher, logit_scale=float("inf"))),
    ("logit_scale must be", broken(GoodMatcher, logit_scale=None)),
    (
        "share one space, not have 6 and 7 numbers",
        matching("encode_texts", lambda rows: np.pad(rows, ((0, 0), (0, 1)))),
    ),
]


def mapping(change):
    """A depth backend whose maps go through ``change(map)``."""
    good = GoodDepth()
    return broken(GoodDepth, depth=lambda _, images: [change(each) for each in good.depth(images)])


BROKEN_DEPTHS = [
    *careless(GoodDepth),
    (
        "depth of no pictures must give an empty result, not TypeError",
        broken(GoodDepth, depth=lambda _, images: [] if images else None),
    ),
    (
        "one map a picture",
        broken(GoodDepth, depth=lambda _, images: [np.zeros((4, 4), np.float32)][: len(images)]),
    ),
    ("must be a float32 array", mapping(lambda depth: depth.astype(np.float64))),
    ("must be a float32 array", mapping(lambda depth: depth.tolist())),
    (r"picture's size \(48, 64\), not \(64, 48\)", mapping(lambda depth: depth.T)),
    ("picture's size", mapping(lambda depth: depth[None])),
    ("finite numbers", mapping(lambda depth: depth / 0)),
    (
        "must give the map that it gives alone",
        broken(
            GoodDepth,
            depth=lambda self, images: [
                image.mean(axis=2, dtype=np.float32) * len(images) for image in images
            ],
        ),
    ),
]


def answering(change):
    """An answerer whose answers go through ``change(answers)``."""
    good = GoodAnswerer()
    return broken(GoodAnswerer, answer=lambda _, *given: change(good.answer(*given)))


def captioning(change):
    good = GoodAnswerer()
    return broken(GoodAnswerer, caption=lambda _, given: change(good.caption(given)))


class Forgetful(GoodAnswerer):
    """Changes an encoding while it answers."""

    def answer(self, encodings, questions):
        answers = super().answer(encodings, questions)
        for encoding in encodings:
            encoding += 1
        return answers


BROKEN_ANSWERERS = [
    *careless(GoodAnswerer),
    (
        "answer without questions must give an empty result",
        answering(lambda answers: answers or None),
    ),
    (
        "caption of no pictures must give an empty result",
        captioning(lambda captions: captions or None),
    ),
    (
        "encode of no pictures must give an empty result",
        broken(GoodAnswerer, encode=lambda _, images: list(images) or None),
    ),
    ("one encoding a picture", broken(GoodAnswerer, encode=lambda _, images: images[:1])),
    ("one answer a question", answering(lambda answers: answers[:1])),
    ("an answer must be text", answering(lambda answers: [(None, p) for _, p in answers])),
    ("scores must lie in", answering(lambda answers: [(text, 1.5) for text, _ in answers])),
    ("scores must lie in", answering(lambda answers: [(text, None) for text, _ in answers])),
    ("the same answer when asked again", Forgetful()),
    (
        "must get the answer it gets alone",
        answering(lambda answers: [(text * len(answers), p) for text, p in answers]),
    ),
    (
        "must get the answer it gets alone",
        answering(lambda answers: [(text, p / len(answers)) for text, p in answers]),
    ),
    ("must get the answer it gets alone", answering(lambda answers: sorted(answers))),
    ("one text a picture", captioning(lambda captions: captions[:1])),
    ("one text a picture", captioning(lambda captions: [None for _ in captions])),
    ("must get the caption that it gets alone", captioning(lambda captions: captions[::-1])),
]

CASES = [
    *((check_matcher, *case) for case in BROKEN_MATCHERS),
    *((check_depth, *case) for case in BROKEN_DEPTHS),
    *((check_vqa, *case) for case in BROKEN_ANSWERERS),
]


@pytest.mark.parametrize(
    ("check", "backend"),
    [(check_matcher, GoodMatcher()), (check_depth, GoodDepth()), (check_vqa, GoodAnswerer())],
)
def test_a_good_backend_passes(check, backend) -> None:
    check(backend)


@pytest.mark.parametrize(("check", "rule", "backend"), CASES)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_a_broken_rule_is_named(check, rule, backend) -> None:
    with pytest.raises(AssertionError, match=rule):
        check(backend)
