"""Answers of queries about a picture, from exact boxes and depths, or their absence.

A query that a careful person could answer either way is refused: orders, distances and sizes need a
margin, and different readings of a relation must agree.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from viper.tools.crops import box_depth
from viper_lab.world.queries.meaning import SELECTIONS, Meaning
from viper_lab.world.queries.scene_nouns import SceneWords
from viper_lab.world.queries.wording import plural
from viper_lab.world.scene import RenderedScene

# Least gap between neighbouring centres in an order, and between compared distances.
CENTRE_PX = 6.0

# Least distance of a centre from the edge that decides its side.
EDGE_PX = 4.0

# Least ratio of compared depths.
DEPTH_RATIO = 1.045

# Least ratio of compared box areas.
AREA_RATIO = 1.35

Numbers = NDArray[np.float64]


class UnanswerableError(Exception):
    """The query has no answer here, or a doubtful one; draw another."""


def unanswerable_if(doubtful: bool) -> None:
    """Raise UnanswerableError if the condition holds."""
    if doubtful:
        raise UnanswerableError


class SceneTruth(SceneWords):
    """The truth of one rendered scene; objects are indexes.

    Attributes:
        words: per object, attribute family to its word.
        x, y: box centres in pixels; ``y`` counts downwards.
    """

    def __init__(self, rendered: RenderedScene) -> None:
        super().__init__(rendered.scene)
        self.rendered = rendered
        boxes = rendered.boxes.astype(float)
        self.boxes: Numbers = boxes
        self.x: Numbers = (boxes[:, 0] + boxes[:, 2]) / 2
        self.y: Numbers = (boxes[:, 1] + boxes[:, 3]) / 2
        self.area: Numbers = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        measured = [box_depth(rendered.depth, tuple(box)) for box in rendered.boxes]
        self._depths = (np.array(measured, float), rendered.object_depths.astype(float))

    def select(self, meaning: Meaning) -> int:
        """Return the object that a selection denotes.

        Raises:
            UnanswerableError: none, several, or too close a call.
        """
        return _SELECT[meaning.type](self, meaning)

    def answer(self, meaning: Meaning) -> int | str:
        """Return the object's index for a selection, otherwise the word that answers a question.

        Raises:
            UnanswerableError: as :meth:`select`.
        """
        if meaning.type in SELECTIONS:
            return self.select(meaning)
        return _ANSWER[meaning.type](self, meaning)

    # Orders and relations.

    def ranked(self, indexes: Sequence[int], side: str, rank: int = 1) -> int:
        """Return the rank-th object from a side; neighbours in the order must be clearly apart."""
        unanswerable_if(len(indexes) < max(2, rank))
        if side in ("front", "back"):
            results = {
                self.ranked_by(np.log(d), indexes, side == "back", rank, math.log(DEPTH_RATIO))
                for d in self._depths
            }
            unanswerable_if(len(results) > 1)
            return results.pop()
        values = self.x if side in ("left", "right") else self.y
        return self.ranked_by(values, indexes, side in ("right", "bottom"), rank, CENTRE_PX)

    def ranked_by(
        self, values: Numbers, indexes: Sequence[int], from_end: bool, rank: int, margin: float
    ) -> int:
        """Return the rank-th object by a value per object; neighbours must be ``margin`` apart."""
        ordered = sorted(indexes, key=lambda i: -values[i] if from_end else values[i])
        index = ordered[rank - 1]
        neighbours = ordered[max(0, rank - 2) : rank + 1]
        unanswerable_if(
            any(abs(values[i] - values[index]) < margin for i in neighbours if i != index)
        )
        return index

    def ranked_by_area(self, indexes: Sequence[int], extent: str) -> int:
        """Return the object with the ``biggest`` or ``smallest`` box."""
        areas = np.log(self.area)
        return self.ranked_by(areas, indexes, extent == "biggest", 1, math.log(AREA_RATIO))

    def inside(self, indexes: Sequence[int], relation: str, anchor: int) -> list[int]:
        """Return the objects that are clearly on that side of the anchor."""
        verdicts = {i: self._on_side(i, relation, anchor) for i in indexes if i != anchor}
        unanswerable_if(None in verdicts.values())
        return [i for i, verdict in verdicts.items() if verdict]

    def _on_side(self, index: int, relation: str, anchor: int) -> bool | None:
        if relation in ("front", "behind"):
            ratios = [math.log(d[index] / d[anchor]) for d in self._depths]
            behind = [ratio > 0 for ratio in ratios]
            if behind[0] != behind[1] or min(map(abs, ratios)) < math.log(DEPTH_RATIO):
                return None
            return behind[0] == (relation == "behind")
        axis, along = (0, self.x) if relation in ("left", "right") else (1, self.y)
        before = relation in ("left", "above")
        sign, edge = (1, axis) if before else (-1, axis + 2)
        if sign * (self.boxes[anchor, edge] - along[index]) >= EDGE_PX:
            return True
        return False if sign * (along[anchor] - along[index]) <= -EDGE_PX else None

    def nearest(
        self, indexes: Sequence[int], anchors: Sequence[int], farthest: bool = False
    ) -> int:
        """Return the object closest to (or farthest from) the nearest anchor, by edges and
        centre."""
        candidates = [i for i in indexes if i not in anchors]
        unanswerable_if(len(candidates) < 2)
        sign = -1.0 if farthest else 1.0
        results = set()
        for measure in (self._gap, self._centre_distance):
            far = {i: sign * min(measure(i, j) for j in anchors) for i in candidates}
            first, second = sorted(candidates, key=lambda i: far[i])[:2]
            unanswerable_if(far[second] - far[first] < CENTRE_PX)
            results.add(first)
        unanswerable_if(len(results) > 1)
        return results.pop()

    def _gap(self, i: int, j: int) -> float:
        a, b = self.boxes[i], self.boxes[j]
        across = max(a[0], b[0]) - min(a[2], b[2])
        along = max(a[1], b[1]) - min(a[3], b[3])
        return math.hypot(max(across, 0.0), max(along, 0.0))

    def _centre_distance(self, i: int, j: int) -> float:
        return math.hypot(self.x[i] - self.x[j], self.y[i] - self.y[j])

    def only(self, indexes: Sequence[int]) -> int:
        """Return the only object of the list."""
        unanswerable_if(len(indexes) != 1)
        return indexes[0]


def _middle(t: SceneTruth, m: Meaning) -> int:
    objects = t.matching(m["kind"])
    unanswerable_if(len(objects) not in (3, 5))
    return t.ranked(objects, "left", (len(objects) + 1) // 2)


def _biggest(t: SceneTruth, m: Meaning) -> int:
    objects = t.matching(m["kind"])
    unanswerable_if(len(objects) < 2)
    return t.ranked_by_area(objects, m["extent"])


def _near_pair(t: SceneTruth, m: Meaning) -> int:
    anchors = t.matching(m["other_kind"])
    unanswerable_if(len(anchors) < 2)
    return t.nearest(t.matching(m["kind"]), anchors)


def _in_region(t: SceneTruth, m: Meaning) -> list[int]:
    return t.inside(t.matching(m["kind"]), m["relation"], t.select(m["anchor"]))


def _filtered_extreme(t: SceneTruth, m: Meaning) -> int:
    objects = t.matching(m["kind"])
    filtered = t.matching(f"{m['property']} {m['kind']}")
    everyone = t.ranked(objects, m["side"])
    if len(filtered) == 1 and filtered[0] != everyone:
        return filtered[0]
    return t.ranked(filtered, m["side"])


def _same_color(t: SceneTruth, m: Meaning) -> int:
    anchor = t.select(m["anchor"])
    other = t.only(t.matching(f"{t.words[anchor]['color']} {m['kind']}"))
    unanswerable_if(other == anchor)
    return other


def _between(t: SceneTruth, m: Meaning) -> int:
    ends = sorted((t.select(m["anchor"]), t.select(m["second_anchor"])), key=lambda i: t.x[i])
    right_of = set(t.inside(t.matching(m["kind"]), "right", ends[0]))
    left_of = set(t.inside(t.matching(m["kind"]), "left", ends[1]))
    return t.only(sorted(right_of & left_of))


_SELECT: Mapping[str, Callable[[SceneTruth, Meaning], int]] = {
    "unique": lambda t, m: t.only(t.matching(m["kind"])),
    "extreme": lambda t, m: t.ranked(t.matching(m["kind"]), m["side"]),
    "nth": lambda t, m: t.ranked(t.matching(m["kind"]), m["side"], m["rank"]),
    "middle": _middle,
    "biggest": _biggest,
    "closest": lambda t, m: t.nearest(t.matching(m["kind"]), [t.select(m["anchor"])]),
    "farthest_from": lambda t, m: t.nearest(
        t.matching(m["kind"]), [t.select(m["anchor"])], farthest=True
    ),
    "region": lambda t, m: t.only(_in_region(t, m)),
    "region_extreme": lambda t, m: t.ranked(_in_region(t, m), m["side"]),
    "filtered_extreme": _filtered_extreme,
    "same_color": _same_color,
    "between": _between,
    "near_pair": _near_pair,
}


def _yes_no(value: bool) -> str:
    return "yes" if value else "no"


def _choose(t: SceneTruth, m: Meaning) -> str:
    own = t.words[t.select(m["of"])].values()
    for word in (m["property"], m["other_property"]):
        if word in own:
            return str(word)
    raise UnanswerableError


def _count_filter(t: SceneTruth, m: Meaning) -> str:
    unanswerable_if(len(t.matching(m["kind"])) < 2)
    return str(len(t.matching(f"{m['property']} {m['kind']}")))


def _two_counts(t: SceneTruth, m: Meaning) -> tuple[int, int]:
    first, second = len(t.matching(m["kind"])), len(t.matching(m["other_kind"]))
    unanswerable_if(not first or not second)
    return first, second


def _difference(t: SceneTruth, m: Meaning) -> str:
    first, second = _two_counts(t, m)
    unanswerable_if(first <= second)
    return str(first - second)


def _more_of(t: SceneTruth, m: Meaning) -> str:
    first, second = _two_counts(t, m)
    unanswerable_if(first == second)
    return plural(m["kind"] if first > second else m["other_kind"])


def _which_farther(t: SceneTruth, m: Meaning) -> str:
    pair = (t.select(m["first"]), t.select(m["second"]))
    won = t.ranked_by_area(pair, m["extent"]) if "extent" in m else t.ranked(pair, m["side"])
    return str(m["first" if won == pair[0] else "second"]["kind"])


def _same(t: SceneTruth, m: Meaning) -> str:
    first, second = t.select(m["first"]), t.select(m["second"])
    unanswerable_if(first == second)
    return _yes_no(t.words[first][m["attribute"]] == t.words[second][m["attribute"]])


def _exists_region(t: SceneTruth, m: Meaning) -> str:
    unanswerable_if(not t.matching(m["kind"]))
    return _yes_no(bool(_in_region(t, m)))


_ANSWER: Mapping[str, Callable[[SceneTruth, Meaning], str]] = {
    "attribute": lambda t, m: t.words[t.select(m["of"])][m["attribute"]],
    "choose": _choose,
    "verify": lambda t, m: _yes_no(m["property"] in t.words[t.select(m["of"])].values()),
    "count": lambda t, m: str(len(t.matching(m["kind"]))),
    "count_region": lambda t, m: str(len(_in_region(t, m))),
    "count_filter": _count_filter,
    "count_sum": lambda t, m: str(sum(_two_counts(t, m))),
    "difference": _difference,
    "more_of": _more_of,
    "more_than": lambda t, m: _yes_no(operator.gt(*_two_counts(t, m))),
    "which_farther": _which_farther,
    "same": _same,
    "exists_region": _exists_region,
    "several": lambda t, m: _yes_no(len(t.matching(m["kind"])) >= m["least"]),
}
