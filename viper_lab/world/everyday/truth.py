"""Answers of everyday questions about a scene, from its exact geometry.

Margins and readings are those of :class:`viper_lab.world.queries.truth.SceneTruth`: a question that
a careful person could answer either way has no answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from viper_lab.world.everyday.meaning import EXTENTS, SIDES, Ask, Kind, One, Test, Things
from viper_lab.world.everyday.programs import RELATION_ANSWERS, TOUCHING_PIXELS
from viper_lab.world.everyday.words import in_world_words
from viper_lab.world.queries.truth import SceneTruth, unanswerable_if
from viper_lab.world.render_shapes import half_height
from viper_lab.world.scene import RenderedScene, SceneObject

# Side by side up to this gap in mean half widths, and apart from this one; doubtful between.
NEXT_RATIOS = (0.55, 0.9)

SUPPORT_TABLE_UNITS = 0.05

# Positions closer than this to a limit have no answer.
DOUBTFUL_PIXELS = 6

# Least ratio of compared heights in the picture.
HEIGHT_RATIO = 1.15


class EverydayTruth:
    """The truth of one rendered scene for everyday questions; objects are indexes."""

    def __init__(self, rendered: RenderedScene) -> None:
        self.scene = SceneTruth(rendered)
        self._objects = rendered.scene.objects
        self.all = range(len(self._objects))

    def answer(self, ask: Ask) -> int | str:
        """Return the object of an expression, else the words of the answer.

        Raises:
            UnanswerableError: a presupposition fails, or it is too close a call.
        """
        if ask.type in _YES_NO:
            return "yes" if _YES_NO[ask.type](self, ask) else "no"
        return _ANSWER[ask.type](self, ask)

    def named(self, kind: Kind) -> list[int]:
        """Return the objects of a kind."""
        words = in_world_words(kind.phrase)
        return self.scene.matching(words)

    def things(self, things: Things | None) -> list[int]:
        """Return the objects of a set."""
        assert things is not None
        indexes = self.named(things.kind)
        for test in things.tests:
            # What is named must be there, even if no object is left to compare with it.
            for named in filter(None, (test.anchor, test.other)):
                self.one(named)
            indexes = [i for i in indexes if self.holds(test, i)]
        return indexes

    def one(self, one: One | None) -> int:
        """Return the object that a description denotes."""
        assert one is not None
        indexes = self.things(one.things)
        if one.pick == "pair":
            unanswerable_if(len(indexes) != 2)
            return indexes[0]
        if one.pick in SIDES:
            return self.scene.ranked(indexes, one.pick, one.rank)
        if one.pick in EXTENTS:
            unanswerable_if(len(indexes) < 2)
            return self.extreme(indexes, one.pick)
        if one.pick == "middle":
            unanswerable_if(len(indexes) not in (3, 5))
            return self.scene.ranked(indexes, "left", (len(indexes) + 1) // 2)
        if one.pick in ("nearest", "farthest"):
            anchor = self.one(one.anchor)
            return self.scene.nearest(indexes, [anchor], farthest=one.pick == "farthest")
        index = self.scene.only(indexes)
        # Nobody describes an object by its own place.
        unanswerable_if(any(t.anchor and self.one(t.anchor) == index for t in one.things.tests))
        return index

    def extreme(self, indexes: Sequence[int], extent: str) -> int:
        """Return the biggest, smallest, tallest or shortest object."""
        if extent in ("biggest", "smallest"):
            return self.scene.ranked_by_area(indexes, extent)
        heights = np.log(self.scene.boxes[:, 3] - self.scene.boxes[:, 1])
        return self.scene.ranked_by(
            heights, indexes, extent == "tallest", 1, math.log(HEIGHT_RATIO)
        )

    def holds(self, test: Test, index: int) -> bool:
        """Return whether an object passes a test; the negation of a relation needs its margin."""
        return self._plainly(test, index) != test.negated

    def _plainly(self, test: Test, index: int) -> bool:
        if test.type == "is":
            return in_world_words(test.word) in self.scene.words[index].values()
        if test.type == "side":
            return self.side(index) == test.word
        anchor = self.one(test.anchor)
        if test.type == "apart":
            return index != anchor
        if test.type == "alike":
            # An object is not "another one with its own colour", whether or not that is negated.
            words = self.scene.words
            same = words[index][test.word] == words[anchor][test.word]
            return test.negated if index == anchor else same
        if test.type == "between":
            if test.other is None:
                assert test.anchor is not None
                return self._between(index, *self.things(test.anchor.things))
            return self._between(index, anchor, self.one(test.other))
        if index == anchor:
            return False
        if test.type in ("on", "under"):
            pair = (index, anchor) if test.type == "on" else (anchor, index)
            return self.rests_on(*pair)
        if test.type == "next":
            return self._next_to(index, anchor)
        if test.type == "touching":
            rests = self.rests_on(index, anchor) or self.rests_on(anchor, index)
            # Boxes of neighbours may meet in the picture alone.
            unanswerable_if((self.scene._gap(index, anchor) < TOUCHING_PIXELS) != rests)
            return rests
        return index in self.scene.inside([index], test.type, anchor)

    def rests_on(self, index: int, support: int) -> bool:
        """Return whether an object stands on another."""
        thing, below = self._objects[index], self._objects[support]
        aside = math.dist(thing.position[:2], below.position[:2])
        return abs(_bottom(thing) - _top(below)) < SUPPORT_TABLE_UNITS and aside < half_height(
            "ball", below.size
        )

    def _next_to(self, index: int, anchor: int) -> bool:
        boxes = self.scene.boxes
        width = sum(boxes[i, 2] - boxes[i, 0] for i in (index, anchor)) / 2
        gap = self.scene._gap(index, anchor) / width
        low, high = NEXT_RATIOS
        depths = [d[index] / d[anchor] for d in self.scene._depths]
        apart = max(max(r, 1 / r) for r in depths)
        unanswerable_if(low < gap < high or (gap <= low and 1.2 < apart < 1.45))
        return gap <= low and apart <= 1.2

    def _between(self, index: int, first: int, second: int) -> bool:
        unanswerable_if(first == second)
        if index in (first, second):
            return False
        x, y = self.scene.x, self.scene.y
        across, along = abs(x[first] - x[second]), abs(y[first] - y[second])
        unanswerable_if(across < 1.3 * along)
        left, right = sorted((x[first], x[second]))
        inside = min(x[index] - left, right - x[index])
        unanswerable_if(abs(inside) < DOUBTFUL_PIXELS)
        # Far off the line between the two, people disagree.
        line = y[first] + (y[second] - y[first]) * (x[index] - x[first]) / (x[second] - x[first])
        unanswerable_if(inside > 0 and abs(y[index] - line) > 0.6 * across)
        return bool(inside > 0)

    def name(self, index: int) -> str:
        """Return colour and shape of an object."""
        words = self.scene.words[index]
        return f"{words['color']} {words['shape']}"

    def counts(self, ask: Ask) -> tuple[int, int]:
        return len(self.things(ask.things)), len(self.things(ask.others))

    def compared(self, ask: Ask) -> bool:
        """Return whether the first of two objects comes first in the order."""
        pair = (self.one(ask.one), self.one(ask.other))
        unanswerable_if(pair[0] == pair[1])
        if ask.word in EXTENTS:
            return self.extreme(pair, ask.word) == pair[0]
        return self.scene.ranked(pair, ask.word) == pair[0]

    def same(self, ask: Ask) -> bool:
        first, second = self.one(ask.one), self.one(ask.other)
        unanswerable_if(first == second)
        return self.scene.words[first][ask.word] == self.scene.words[second][ask.word]

    def looks(self, ask: Ask) -> set[str]:
        """Return the words of one family for two objects or more."""
        indexes = self.things(ask.things)
        unanswerable_if(len(indexes) < 2)
        return {self.scene.words[i][ask.word] for i in indexes}

    def side(self, index: int) -> str:
        """Return the half of the picture in which an object is: ``left`` or ``right``."""
        aside = self.scene.x[index] - self.scene.rendered.image.shape[1] / 2
        unanswerable_if(abs(aside) < DOUBTFUL_PIXELS)
        return "left" if aside < 0 else "right"

    def relate(self, ask: Ask) -> str:
        """Return which of two relations holds between two objects, or to the picture's middle."""
        first = self.one(ask.one)
        if ask.other is None:
            return self.side(first)
        second = self.one(ask.other)
        unanswerable_if(first == second)
        holds = [self.holds(Test(word, anchor=ask.other), first) for word in ask.words]
        unanswerable_if(holds[0] == holds[1])
        return RELATION_ANSWERS[ask.words[holds.index(True)]]

    def quantified(self, ask: Ask) -> bool:
        """Return whether a quantifier holds; a universal one about nothing has no answer."""
        assert ask.test is not None
        indexes = self.things(ask.things)
        unanswerable_if(not indexes or (ask.word in ("all", "most") and len(indexes) < 2))
        count = sum(self.holds(ask.test, i) for i in indexes)
        verdicts = {
            "all": count == len(indexes),
            "any": count > 0,
            "none": count == 0,
            "most": count * 2 > len(indexes),
            "exactly": count == ask.number,
            "least": count >= ask.number,
        }
        unanswerable_if(ask.word == "most" and count * 2 == len(indexes))
        return verdicts[ask.word]


def _bottom(thing: SceneObject) -> float:
    return thing.position[2] - half_height(thing.shape, thing.size)


def _top(thing: SceneObject) -> float:
    return thing.position[2] + half_height(thing.shape, thing.size)


def _bounded(t: EverydayTruth, ask: Ask) -> bool:
    count = len(t.things(ask.things))
    return {
        "least": count >= ask.number,
        "most": count <= ask.number,
        "exactly": count == ask.number,
        "over": count > ask.number,
        "under": count < ask.number,
    }[ask.word]


def _only(t: EverydayTruth, ask: Ask) -> bool:
    assert ask.test is not None
    indexes = t.things(ask.things)
    unanswerable_if(not indexes)
    return all(t.holds(ask.test, i) for i in indexes)


def _pair(t: EverydayTruth, ask: Ask) -> bool:
    assert ask.test is not None
    first, second = t.one(ask.one), t.one(ask.other)
    unanswerable_if(first == second)
    verdicts = [t.holds(ask.test, first), t.holds(ask.test, second)]
    return {"both": all, "either": any, "neither": lambda v: not any(v)}[ask.word](verdicts)


def _verify(t: EverydayTruth, ask: Ask) -> bool:
    assert ask.test is not None
    return t.holds(ask.test, t.one(ask.one))


_YES_NO: Mapping[str, Callable[[EverydayTruth, Ask], bool]] = {
    "exists": lambda t, a: bool(t.things(a.things)),
    "absent": lambda t, a: not t.things(a.things),
    "both": lambda t, a: all(t.counts(a)),
    "either": lambda t, a: any(t.counts(a)),
    "more": lambda t, a: t.counts(a)[0] > t.counts(a)[1],
    "fewer": lambda t, a: t.counts(a)[0] < t.counts(a)[1],
    "equal": lambda t, a: t.counts(a)[0] == t.counts(a)[1],
    "bound": _bounded,
    "quantified": lambda t, a: t.quantified(a),
    "only": _only,
    "verify": _verify,
    "pair": _pair,
    "uniform": lambda t, a: len(t.looks(a)) == 1,
    "varied": lambda t, a: len(t.looks(a)) == len(t.things(a.things)),
    "purely": _only,
    "identity": lambda t, a: t.one(a.one) == t.one(a.other),
    "compare": lambda t, a: t.compared(a),
    "same": lambda t, a: t.same(a),
    "different": lambda t, a: not t.same(a),
}


def _choose(t: EverydayTruth, ask: Ask) -> str:
    own = t.scene.words[t.one(ask.one)].values()
    fitting = [word for word in ask.words if in_world_words(word) in own]
    unanswerable_if(len(fitting) != 1)
    return fitting[0]


def _choose_one(t: EverydayTruth, ask: Ask) -> str:
    assert ask.one is not None and ask.other is not None
    return (ask.one if t.compared(ask) else ask.other).things.kind.phrase


def _difference(t: EverydayTruth, ask: Ask) -> str:
    first, second = t.counts(ask)
    unanswerable_if(first < second)
    return str(first - second)


def _more_of(t: EverydayTruth, ask: Ask) -> str:
    assert ask.things is not None and ask.others is not None
    first, second = t.counts(ask)
    unanswerable_if(first == second)
    return f"{(ask.things if first > second else ask.others).kind.phrase}s"


_ANSWER: Mapping[str, Callable[[EverydayTruth, Ask], int | str]] = {
    "refer": lambda t, a: t.one(a.one),
    "which": lambda t, a: t.name(t.one(a.one)),
    "attribute": lambda t, a: t.scene.words[t.one(a.one)][a.word],
    "choose": _choose,
    "choose_one": _choose_one,
    "relate": lambda t, a: t.relate(a),
    "count": lambda t, a: str(len(t.things(a.things))),
    "sum": lambda t, a: str(sum(t.counts(a))),
    "difference": _difference,
    "more_of": _more_of,
    "distinct": lambda t, a: str(len({t.scene.words[i][a.word] for i in t.things(a.things)})),
}
