"""Each rule for detectors fires on one that breaks it, and none on a good one."""

from __future__ import annotations

import numpy as np
import pytest
from breaking import blackens, broken, broken_identities, differs_by_thread, refuses_threads, writes

from viper.models.vision.roles import Detection
from viper.testing.conformance import KnownObject, check_detector


class GoodDetector:
    """Finds the brightest pixels, and with little confidence the whole picture."""

    model_id = "good"
    memory_bytes = 8

    def encode(self, images):
        return [self.keep(image) for image in images]

    def keep(self, image):
        return image.copy()

    def detect(self, encoding, phrases):
        return [self.one(encoding, phrase) for phrase in phrases]

    def one(self, image, phrase):
        darkest = image.min(axis=2)
        rows, columns = np.nonzero(darkest == darkest.max())
        box = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
        height, width = image.shape[:2]
        return [
            Detection(tuple(map(float, box)), 0.5 + len(phrase) / 100),
            Detection((0.0, 0.0, float(width), float(height)), 0.02),
        ]


def altered(change):
    """A detector whose boxes of a phrase go through ``change(boxes, image)``."""
    good = GoodDetector()
    return broken(GoodDetector, one=lambda _, image, phrase: change(good.one(image, phrase), image))


def best(box, score=0.5):
    return altered(lambda boxes, _: [Detection(box, score), boxes[1]])


def keeping(keep):
    return broken(GoodDetector, keep=staticmethod(keep))


def detecting(detect):
    return broken(GoodDetector, detect=detect)


BROKEN = [
    *broken_identities(GoodDetector),
    ("lacks a method of the role Detector", type("Half", (), {"model_id": "half"})()),
    (
        "encode of no pictures must give an empty result, not TypeError",
        broken(GoodDetector, encode=lambda _, images: list(images) or None),
    ),
    ("one encoding a picture", broken(GoodDetector, encode=lambda _, images: images[:1])),
    ("give a list a phrase", detecting(lambda self, image, phrases: self.one(image, ""))),
    ("must lie in their picture .64 x 48.", best((0.0, 0.0, 65.0, 20.0))),
    ("must lie in their picture .64 x 48.", best((0.0, 0.0, 20.0, 49.0))),
    ("must lie in their picture .64 x 48.", best((-1.0, 0.0, 20.0, 9.0))),
    ("must lie in their picture", best((2.0, 1.0, 2.0, 2.0))),
    ("must lie in their picture", best((0.0, 2.0, 9.0, 1.0))),
    ("must lie in their picture", best((0.0, 0.0, float("nan"), 1.0))),
    (r"scores must lie in \[0.01, 1\], not at 1.5", best((0.0, 0.0, 9.0, 2.0), 1.5)),
    (r"scores must lie in \[0.01, 1\], not at nan", best((0.0, 0.0, 9.0, 2.0), float("nan"))),
    (
        r"scores must lie in \[0.01, 1\], not at 0.001",
        altered(lambda boxes, _: [boxes[0], Detection(boxes[1].box, 0.001)]),
    ),
    ("must come best first", altered(lambda boxes, _: boxes[::-1])),
    ("near copies", altered(lambda boxes, _: [boxes[0], boxes[0], boxes[1]])),
    ("look like shares", altered(lambda *_: [Detection((0.1, 0.1, 0.6, 0.9), 0.05)])),
    ("no threshold may be applied", altered(lambda boxes, _: boxes[:1])),
    ("no threshold may be applied", altered(lambda *_: [])),
    (
        "detect without phrases must give an empty result$",
        detecting(lambda self, image, names: [self.one(image, name) for name in names] or [[]]),
    ),
    (
        "a picture in a batch must give what it gives alone",
        broken(
            GoodDetector,
            encode=lambda _, images: [np.roll(image, len(images), axis=0) for image in images],
        ),
    ),
    (
        "must not depend on the other phrases",
        detecting(lambda self, image, names: [self.one(image, "".join(names))] * len(names)),
    ),
    (
        "must not depend on the other phrases",
        detecting(lambda self, image, names: [self.one(image, name) for name in sorted(names)]),
    ),
    ("must not be changed", keeping(blackens)),
    ("read-only arrays must be accepted", keeping(writes)),
    ("another thread must get the same answer", keeping(differs_by_thread)),
    ("another thread must get an answer", keeping(refuses_threads)),
]


def test_a_good_detector_passes() -> None:
    check_detector(GoodDetector())


@pytest.mark.parametrize(("rule", "backend"), BROKEN)
def test_a_broken_rule_is_named(rule: str, backend: object) -> None:
    with pytest.raises(AssertionError, match=rule):
        check_detector(backend)


@pytest.mark.parametrize("shapes", [[(20, 20)], [(20, 30)], [(30, 20), (9, 9)], []])
def test_a_wide_and_a_tall_picture_are_asked_for(shapes) -> None:
    with pytest.raises(AssertionError, match="a wide and a tall picture"):
        check_detector(GoodDetector(), [np.zeros((*shape, 3), np.uint8) for shape in shapes])


def known(box, shape) -> KnownObject:
    image = np.zeros((*shape, 3), np.uint8)
    x0, y0, x1, y1 = box
    image[y0:y1, x0:x1] = 255
    return KnownObject(image, "white box", box)


KNOWN = [known((10, 5, 30, 15), (40, 90)), known((5, 50, 20, 70), (90, 40))]


def test_a_known_object_is_found() -> None:
    check_detector(GoodDetector(), known=KNOWN)


def upwards(boxes, image):
    height = image.shape[0]
    return [
        Detection(
            (each.box[0], height - each.box[3], each.box[2], height - each.box[1]), each.score
        )
        for each in boxes
    ]


def mirrored(boxes, image):
    width = image.shape[1]
    return [
        Detection((width - each.box[2], each.box[1], width - each.box[0], each.box[3]), each.score)
        for each in boxes
    ]


def squared(boxes, image):
    """As if shares of the padded square were taken for shares of the picture."""
    height, width = image.shape[:2]
    x, y = width / max(height, width), height / max(height, width)
    return [
        Detection((each.box[0] * x, each.box[1] * y, each.box[2] * x, each.box[3] * y), each.score)
        for each in boxes
    ]


@pytest.mark.parametrize("change", [upwards, mirrored, squared, lambda boxes, _: boxes[1:]])
def test_a_known_object_shows_a_wrong_coordinate_system(change) -> None:
    with pytest.raises(AssertionError, match="pixels from the top-left corner"):
        check_detector(altered(change), known=KNOWN)
