"""Scores of a detector on phrases: average precision and referring accuracy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from viper.evaluate.intervals import Estimate
from viper.models.vision.roles import Detection, Detector, Pixels
from viper_lab.recipes.detector_batches import Labels
from viper_lab.recipes.detector_phrases import FAMILIES, is_held_out, matches, phrase_text

HIT_IOU = 0.5
_RESAMPLES = 100

# Kind of query -> flags: does it name size, colour, material and shape?
QUERY_KINDS: Mapping[str, tuple[bool, bool, bool, bool]] = {
    "object": (False, False, False, False),
    "shape": (False, False, False, True),
    "colour_shape": (False, True, False, True),
    "full": (True, True, True, True),
}


@dataclass(frozen=True)
class PhraseMatches:
    """Scored detections of one phrase on one picture.

    Attributes:
        scores: float [D], best first.
        hits: bool [D], true if a box is the first to cover an object of the phrase.
        positives: number of such objects.
    """

    scores: NDArray[np.float32]
    hits: NDArray[np.bool_]
    positives: int


def phrases_of(kind: str) -> list[tuple[int, int, int, int]]:
    """Return every phrase of a kind, as rows of attributes (-1: any)."""
    ranges = [
        range(len(values)) if named else (-1,)
        for values, named in zip(FAMILIES, QUERY_KINDS[kind], strict=True)
    ]
    return [
        (s, c, m, f) for s in ranges[0] for c in ranges[1] for m in ranges[2] for f in ranges[3]
    ]


def judge(detections: Sequence[Detection], targets: NDArray[np.float32]) -> PhraseMatches:
    """Mark each detection right or wrong; an object counts once, for its best-scoring box.

    Args:
        detections: best first.
        targets: float [N, 4], pixel corners of the objects that the phrase names.
    """
    free = np.ones(len(targets), bool)
    hits = np.zeros(len(detections), bool)
    for i, detection in enumerate(detections):
        overlap = iou(np.asarray(detection.box, np.float32), targets) * free
        if len(overlap) and overlap.max() >= HIT_IOU:
            hits[i], free[overlap.argmax()] = True, False
    return PhraseMatches(np.array([d.score for d in detections], np.float32), hits, len(targets))


def iou(box: NDArray[np.float32], boxes: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return float [N], the IoU of one box with each of ``boxes`` (pixel corners)."""
    low, high = np.maximum(box[:2], boxes[:, :2]), np.minimum(box[2:], boxes[:, 2:])
    shared = np.clip(high - low, 0, None).prod(axis=1)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    return np.asarray(shared / ((box[2:] - box[:2]).prod() + areas - shared + 1e-9))


@dataclass(frozen=True)
class Ranking:
    """All detections of one phrase in one list, best score first.

    Attributes:
        hits: bool [D].
        picture: int64 [D], picture of each box.
        positives: float [P], number of objects per picture.
    """

    hits: NDArray[np.bool_]
    picture: NDArray[np.int64]
    positives: NDArray[np.float64]

    @classmethod
    def of(cls, answers: Sequence[PhraseMatches]) -> Ranking:
        """Return the ranking over pictures, one entry of ``answers`` each."""
        scores = np.concatenate([a.scores for a in answers])
        order = np.argsort(-scores, kind="stable")
        hits = np.concatenate([a.hits for a in answers])
        picture = np.repeat(np.arange(len(answers)), [len(a.scores) for a in answers])
        positives = np.array([a.positives for a in answers], np.float64)
        return cls(hits[order], picture[order], positives)


def average_precision(ranking: Ranking, weights: NDArray[np.float64]) -> float:
    """Return the area under the precision envelope; NaN without any object.

    Args:
        ranking: the detections of one phrase.
        weights: float [P], how many times each picture counts (1 unless resampled).
    """
    total = float(ranking.positives @ weights)
    if total == 0:
        return float("nan")
    counts = weights[ranking.picture]
    right = np.cumsum(ranking.hits * counts)
    precision = right / np.maximum(np.cumsum(counts), 1e-9)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    return float((envelope * ranking.hits * counts).sum() / total)


def detector_figures(
    detector: Detector, pictures: Iterable[tuple[Pixels, Labels]], seed: int = 0
) -> dict[str, Estimate]:
    """Return AP50 for each kind of query (mean over its phrases) and referring accuracy.

    Every phrase of a kind is queried on every picture, present or not. ``referring`` queries each
    full phrase that fits exactly one object of a picture; it is right if the best box covers that
    object. Names ending in ``_unseen`` cover (colour, shape) pairs held out of training, if the
    pictures hold any.
    """
    rows = {kind: phrases_of(kind) for kind in QUERY_KINDS}
    every = [row for kind in rows for row in rows[kind]]
    texts, queries = [phrase_text(row) for row in every], np.asarray(every)
    judged: list[list[PhraseMatches]] = []
    referring: dict[bool, list[bool]] = {False: [], True: []}
    first_full = len(every) - len(rows["full"])
    for image, labels in pictures:
        detections = detector.detect(detector.encode([image])[0], texts)
        present = matches(labels.attributes, queries)
        answers = [judge(detections[q], labels.boxes[present[:, q]]) for q in range(len(every))]
        judged.append(answers)
        for q in range(first_full, len(every)):
            if answers[q].positives == 1:
                referring[is_held_out(every[q])].append(bool(answers[q].hits[:1].any()))
    figures = _ap_figures(rows, judged, np.random.default_rng(seed))
    figures["referring"] = share(referring[False] + referring[True])
    if referring[True]:
        figures["referring_unseen"] = share(referring[True])
    return figures


def _ap_figures(
    rows: Mapping[str, Sequence[tuple[int, int, int, int]]],
    judged: Sequence[Sequence[PhraseMatches]],
    rng: np.random.Generator,
) -> dict[str, Estimate]:
    groups: dict[str, list[int]] = {}
    start = 0
    for kind, members in rows.items():
        groups[kind] = list(range(start, start + len(members)))
        unseen = [start + i for i, row in enumerate(members) if is_held_out(row)]
        if unseen and any(answers[q].positives for answers in judged for q in unseen):
            groups[f"{kind}_unseen"] = unseen
        start += len(members)
    pictures = len(judged)
    resampled = rng.multinomial(pictures, [1 / pictures] * pictures, size=_RESAMPLES)
    draws = np.concatenate((np.ones((1, pictures)), resampled))
    tables = {}
    for q in {q for questions in groups.values() for q in questions}:
        ranking = Ranking.of([answers[q] for answers in judged])
        tables[q] = [average_precision(ranking, w) for w in draws]
    figures = {}
    for kind, questions in groups.items():
        values = np.ma.masked_invalid([tables[q] for q in questions])
        means = np.ma.compressed(values.mean(axis=0))
        low, high = np.percentile(means[1:], [2.5, 97.5])
        figures[kind] = Estimate(float(means[0]), pictures, float(low), float(high))
    return figures


def share(outcomes: Sequence[bool]) -> Estimate:
    """Return the share of true outcomes with Wilson's interval."""
    n = len(outcomes)
    if n == 0:
        return Estimate(float("nan"), 0, 0.0, 1.0)
    p, z = sum(outcomes) / n, 1.96
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return Estimate(p, n, max(0.0, float(middle - half)), min(1.0, float(middle + half)))


def best_threshold(detector: Detector, pictures: Iterable[tuple[Pixels, Labels]]) -> float:
    """Return the score with the best mean F1 over the kinds of query.

    Each picture is queried with every phrase of a kind that fits it and as many that do not.
    """
    pools: dict[str, list[PhraseMatches]] = {kind: [] for kind in QUERY_KINDS}
    rng = np.random.default_rng(0)
    for image, labels in pictures:
        encoding = detector.encode([image])[0]
        for kind in QUERY_KINDS:
            rows = np.asarray(phrases_of(kind))
            present = matches(labels.attributes, rows)
            fits = np.flatnonzero(present.any(axis=0))
            absent = rng.permutation(np.flatnonzero(~present.any(axis=0)))[: len(fits)]
            chosen = [*fits.tolist(), *absent.tolist()]
            detections = detector.detect(encoding, [phrase_text(rows[q]) for q in chosen])
            pools[kind] += [
                judge(f, labels.boxes[present[:, q]])
                for f, q in zip(detections, chosen, strict=True)
            ]
    thresholds = np.round(np.arange(0.05, 0.96, 0.01), 2)
    mean = np.mean([[_f1(pool, t) for t in thresholds] for pool in pools.values()], axis=0)
    return float(thresholds[int(np.argmax(mean))])


def _f1(answers: Sequence[PhraseMatches], threshold: float) -> float:
    masks = [a.scores >= threshold for a in answers]
    right = sum(int((a.hits & k).sum()) for a, k in zip(answers, masks, strict=True))
    proposed = sum(int(k.sum()) for k in masks)
    positives = sum(a.positives for a in answers)
    return 2 * right / max(1, proposed + positives)
