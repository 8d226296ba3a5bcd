"""Error diagram: boxes by overlap, other answers by right or wrong, and failures.

Source: Stanić et al. 2024, sec. 3.4 and figure 5. Differs: a failure counts as
``below_threshold`` for every model (theirs: the object detector only); answers of a fallback
are a part of their own; shares have intervals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from viper.agreement import is_correct
from viper.evaluate.intervals import Estimate, mean_of_estimates, proportion
from viper.evaluate.sample_result import SampleResult

# The highest IoU of each range, itself included. The paper tells 0 and above .7 apart; .5 is the
# bound of acc@0.5.
_OVERLAPS = ((0.0, "IoU 0"), (0.3, "IoU up to 0.3"), (0.5, "IoU up to 0.5"), (0.7, "IoU up to 0.7"))

BEST_OVERLAP = "IoU above 0.7"
BOXES = (BEST_OVERLAP, *(name for _, name in reversed(_OVERLAPS)))
OTHERS = ("right", "wrong")
FALLBACK = "fallback"
_FAILURES = {"below_threshold": "error: below threshold", "return_type": "error: wrong type"}
ERRORS = (*_FAILURES.values(), "error: other")
# All parts in display order, from best to worst.
PARTS = (*BOXES, *OTHERS, FALLBACK, *ERRORS)


@dataclass(frozen=True)
class ErrorDiagram:
    """Parts of a run's answers. Together they add up to all answers.

    Attributes:
        n: number of answers, failed ones included.
        counts: number of answers by part.
        shares: share by part: the mean over seeds, with the mean of their intervals. Seeds answer
            the same samples, so more seeds do not make the set larger.
        failed: share of all errors together.
    """

    n: int
    counts: Mapping[str, int]
    shares: Mapping[str, Estimate]
    failed: Estimate

    def to_json(self) -> dict[str, Any]:
        """Return the diagram as JSON values."""
        parts: dict[str, Any] = {}
        for part, share in self.shares.items():
            parts[part] = {"count": self.counts[part], **share_json(share)}
        count = sum(self.counts.get(part, 0) for part in ERRORS)
        return {"n": self.n, "parts": parts, "failed": {"count": count, **share_json(self.failed)}}


def error_diagram(results: Iterable[SampleResult]) -> ErrorDiagram:
    """Return the parts of a run's results, under one seed or several; see :func:`diagram_of`."""
    by_seed: dict[int, Counter[str]] = {}
    for result in results:
        by_seed.setdefault(result.seed, Counter())[part_of(result)] += 1
    return diagram_of(by_seed)


def diagram_of(by_seed: Mapping[int, Counter[str]]) -> ErrorDiagram:
    """Return the diagram of the number of answers in each part, by seed.

    Boxes are told from other answers by the detail ``iou``. Kinds of answers that do not occur,
    and the fallback where there was none, are left out.
    """
    counts: Counter[str] = sum(by_seed.values(), Counter())
    seeds = list(by_seed.values()) or [Counter()]
    kinds = [kind for kind in (BOXES, OTHERS, (FALLBACK,)) if any(counts[part] for part in kind)]
    parts = [*chain(*kinds), *ERRORS]
    return ErrorDiagram(
        n=counts.total(),
        counts={part: counts[part] for part in parts},
        shares={part: _share(seeds, (part,)) for part in parts},
        failed=_share(seeds, ERRORS),
    )


def part_of(result: SampleResult) -> str:
    """Return the part that a result belongs to."""
    if result.failure is not None:
        return _FAILURES.get(result.failure, ERRORS[-1])
    if is_fallback(result):
        return FALLBACK
    iou = result.details.get("iou")
    if iou is None:
        return OTHERS[0] if is_correct(result.score) else OTHERS[1]
    return next((name for most, name in _OVERLAPS if iou <= most), BEST_OVERLAP)


def is_fallback(result: SampleResult) -> bool:
    """Return whether a fallback answered after the strategy had failed."""
    return has_fallback(result.marks)


def has_fallback(marks: Iterable[str]) -> bool:
    """Return whether one of the marks of a result tells of a fallback."""
    return any(mark.startswith(f"{FALLBACK}:") for mark in marks)


def _share(seeds: Iterable[Counter[str]], parts: Sequence[str]) -> Estimate:
    return mean_of_estimates(
        [proportion(sum(counts[part] for part in parts), counts.total()) for counts in seeds]
    )


def share_json(share: Estimate) -> dict[str, float]:
    """Return a share with its interval as JSON values."""
    return {"share": share.value, "low": share.low, "high": share.high}
