"""Each rule for segmenters fires on a backend that breaks it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from breaking import blackens, broken, broken_identities, differs_by_thread, refuses_threads, writes

from viper.models.vision.roles import Segment
from viper.testing.conformance import KnownRegion, check_segmenter


class GoodSegmenter:
    """Calls what is brighter than the mean bright, the rest dark; it knows no other label."""

    model_id = "good"

    def encode(self, pixels):
        return self.keep(pixels)

    def keep(self, pixels):
        return pixels.copy()

    def segments(self, encoding, names):
        bright = encoding.mean(axis=2) > encoding.mean()
        found = [Segment(bright, "bright", 0.9), Segment(~bright, "dark", 0.6)]
        return [each for each in self.change(found) if names is None or each.label in names]

    def change(self, found):
        return found


def changed(change):
    """The good backend with its segments put through ``change(segments)``."""
    return broken(GoodSegmenter, change=lambda self, found: change(found))


def each(**fields):
    """The good backend with fields of every segment replaced."""
    return changed(lambda found: [dataclasses.replace(one, **fields) for one in found])


def ignores_names(self, encoding, names):
    return [] if names == [] else GoodSegmenter.segments(self, encoding, None)


def only_first_name(self, encoding, names):
    found = GoodSegmenter.segments(self, encoding, names)
    return found if names is None else found[:0]


def by_mask(change):
    return changed(lambda found: [dataclasses.replace(one, mask=change(one.mask)) for one in found])


BROKEN = [
    *broken_identities(GoodSegmenter),
    ("lacks a method of the role", type("Half", (), {"model_id": "half"})()),
    ("must not be changed", broken(GoodSegmenter, keep=staticmethod(blackens))),
    ("read-only arrays must be accepted", broken(GoodSegmenter, keep=staticmethod(writes))),
    ("same answer", broken(GoodSegmenter, keep=staticmethod(differs_by_thread))),
    ("another thread must get an", broken(GoodSegmenter, keep=staticmethod(refuses_threads))),
    ("a mask must be a bool array", by_mask(lambda mask: mask.astype(np.uint8))),
    ("a mask must be a bool array", by_mask(lambda mask: mask.tolist())),
    ("a mask must have its picture's size", by_mask(lambda mask: mask.T)),
    ("a segment must have pixels", by_mask(lambda mask: mask & False)),
    ("segments must not overlap", by_mask(lambda mask: mask | True)),
    ("a label must be a word", each(label=" ")),
    ("a label must be a word", each(label=3)),
    ("scores must lie in", each(score=1.5)),
    ("scores must lie in", each(score=1)),
    ("best first", changed(lambda found: found[::-1])),
    ("of an unknown name must give an empty", broken(GoodSegmenter, segments=ignores_names)),
    ("must give the segments so labelled", broken(GoodSegmenter, segments=only_first_name)),
]


def test_a_good_segmenter_passes():
    picture = np.zeros((20, 40, 3), np.uint8)
    picture[3:9, 5:30] = 255
    region = KnownRegion(picture, "bright", picture[..., 0] > 0)
    check_segmenter(GoodSegmenter(), known=[region])


@pytest.mark.parametrize(("rule", "backend"), BROKEN)
def test_each_rule_fires(rule, backend):
    with pytest.raises(AssertionError, match=rule):
        check_segmenter(backend)


def test_a_region_that_is_not_covered_is_told():
    picture = np.zeros((20, 40, 3), np.uint8)
    picture[3:9, 5:30] = 255
    turned = KnownRegion(picture, "bright", np.flipud(picture[..., 0] > 0))
    with pytest.raises(AssertionError, match=r"a bright is known, but its best segment overlaps"):
        check_segmenter(GoodSegmenter(), known=[turned])
