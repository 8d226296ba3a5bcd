"""Teaches a detector of OWL's family a concept: a query over cut-outs for each instance.

The few pictures are made many by pasting (:mod:`viper.tuning.soft_prompts.pasting`) and looked at
once; the queries are then fitted to what the detector says of the boxes that it proposes. Each
instance's query leaves some of the other pictures out and is judged on those.

Source: CLOVA (Gao et al. 2024), supplement, sec. 8.2. Differs: all other objects in the
pictures, whatever they are called, and boxes of nothing are the negatives, instead of 13 names that
are absent: a query is compared with places, not with names. There is no loss of boxes, since the
box head reads features that nothing changes. The logistic loss is taken over all proposals at
once, without the focal weight that a detector needs where nearly all are easy, and by L-BFGS in
60 steps. Each prompt is trained on most of the pictures and not on one alone: a concept is not
seen in one object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viper.agreement import box_iou
from viper.errors import UsageError
from viper.tools.roles import Detection, Floats
from viper.tools.soft_prompts import Learned, SoftPrompt
from viper.tools.taught_detector import LookingDetector, prompt_of
from viper.tuning.collect import AnnotatedPicture, Collected
from viper.tuning.soft_prompts.annotated import check_enough, evidence_of, held_out
from viper.tuning.soft_prompts.base import USUAL, Progress, Trained, TunerOptions, Using
from viper.tuning.soft_prompts.fitting import Fitting
from viper.tuning.soft_prompts.pasting import Scene, composed, is_of_colour, scene_of
from viper.tuning.soft_prompts.proposed import Proposed, fitted_moves, proposed, widths_of

STEPS, RATE = 60, 1.0

PICTURES = 200
"""Pictures that are made of the collected ones."""

BATCH = 4
"""Pictures that the detector looks at while it is held."""

CUT = 0.3
"""Score of what is as likely the concept as not: where profiles begin to keep boxes."""

SAME_BOX = 0.6
"""Least IoU of a box and the object that it finds, where a prompt is judged."""

MOST_FALSE = 0.5
"""Share of held-out pictures without the concept in which a prompt may find it."""


class LocTuner:
    """The tuner of ``find``; lessons are annotated pictures, two positive ones at least."""

    tool = "loc"
    role = "detector"

    def learn(
        self,
        using: Using,
        lesson: Collected[AnnotatedPicture],
        options: TunerOptions = USUAL,
        on_progress: Progress | None = None,
    ) -> list[Trained]:
        """As :meth:`viper.tuning.soft_prompts.base.Tuner.learn`.

        Raises:
            UsageError: a detector that cannot be taught, or fewer than two positive pictures.
            MediaError, DataError: a picture of the lesson cannot be read.
        """
        check_enough(lesson, self.role)
        with using() as backend:
            if not isinstance(backend, LookingDetector):
                name = getattr(backend, "model_id", type(backend).__name__)
                raise UsageError(
                    f'the detector {name} cannot be taught; use an OWLv2 (backend = "owlv2")'
                )
        return _Course(using, lesson, options, on_progress).trained()


@dataclass(eq=False)
class _Course:
    """One lesson being learned."""

    using: Using
    lesson: Collected[AnnotatedPicture]
    options: TunerOptions
    on_progress: Progress | None
    _done: int = 0

    def trained(self) -> list[Trained]:
        pictures = [*self.lesson.positives, *self.lesson.negatives]
        scenes = [scene_of(one, self.lesson.concept, at) for at, one in enumerate(pictures)]
        originals, known = self._look(scenes)
        fitting = Fitting(known, widths_of(known.features.shape[1]))
        helds = [held_out(self.lesson, at) for at in range(len(self.lesson.positives))]
        rate = self.options.rate or RATE
        queries = [fitting.query(held, self._steps, rate, self._told) for held in helds]
        margin = fitting.margin([(held, *one) for held, one in zip(helds, queries, strict=True)])
        cut = float(np.log(CUT / (1 - CUT))) - margin
        return [
            self._one(
                at,
                helds[at],
                prompt_of(query, shift + cut, fitted_moves(fitting, known, helds[at])),
                scenes,
                originals,
            )
            for at, (query, shift) in enumerate(queries)
        ]

    @property
    def _steps(self) -> int:
        return STEPS if self.options.steps is None else self.options.steps

    def _told(self) -> None:
        self._done += 1
        if self.on_progress is not None:
            looks = -(-(PICTURES + self._count) // BATCH)
            self.on_progress(self._done, looks + len(self.lesson.positives) * self._steps)

    @property
    def _count(self) -> int:
        return len(self.lesson.positives) + len(self.lesson.negatives)

    def _look(self, scenes: Sequence[Scene]) -> tuple[list[Any], Proposed]:
        """The encodings of the collected pictures; what is proposed in these and in made ones."""
        rng = np.random.default_rng([self.options.seed, 21])
        recolour = not is_of_colour(scenes)
        made = [composed(scenes, rng, recolour) for _ in range(PICTURES)]
        every, kept, parts = [*scenes, *made], [], []
        for start in range(0, len(every), BATCH):
            some = every[start : start + BATCH]
            with self.using() as backend:
                encodings = backend.encode([scene.pixels for scene in some])
                found = [backend.proposals(encoding) for encoding in encodings]
            kept += encodings[: max(0, len(scenes) - start)]
            parts += [proposed(one, scene) for one, scene in zip(found, some, strict=True)]
            self._told()
        return kept, Proposed.joined(parts)

    def _one(
        self,
        at: int,
        held: Sequence[int],
        vectors: Floats,
        scenes: Sequence[Scene],
        originals: Sequence[Any],
    ) -> Trained:
        """The prompt of one positive picture, judged on those held out."""
        with self.using() as backend:
            feature, model_id = backend.feature(originals[at]), backend.model_id
            before = [backend.detect(originals[one], [self.lesson.concept])[0] for one in held]
            taught = [Learned(self.lesson.concept, vectors)]
            after = [
                backend.detect_taught(originals[one], self.lesson.concept, taught) for one in held
            ]
        shares = [_shares(found, [scenes[one] for one in held]) for found in (before, after)]
        evidence = evidence_of(
            self.lesson, at, model_id, (shares[0], shares[1]), self._steps, self.options
        )
        why = self._why_not(held, shares[0], shares[1]) if self.options.validate else ""
        return Trained(SoftPrompt(feature, vectors), evidence, why)

    def _why_not(self, held: Sequence[int], before: Floats, after: Floats) -> str:
        """Why a prompt is discarded; empty: it is not."""
        absent = np.array([one >= len(self.lesson.positives) for one in held])
        gained = float(after[~absent].mean() - before[~absent].mean())
        if gained <= 0:
            return (
                f"no better on {int((~absent).sum())} held-out pictures of it: "
                f"{after[~absent].mean():.2f} right, {before[~absent].mean():.2f} without"
            )
        if absent.any() and 1 - after[absent].mean() > max(MOST_FALSE, 1 - before[absent].mean()):
            return (
                f"harmful: found in {int((after[absent] < 1).sum())} of {int(absent.sum())} "
                "held-out pictures without it"
            )
        return ""


def _shares(found: Sequence[Sequence[Detection]], scenes: Sequence[Scene]) -> Floats:
    """float [N]: the F1 score of the boxes kept in each picture; 1 where none is right."""
    scores = []
    for boxes, scene in zip(found, scenes, strict=True):
        wanted = [box for thing, box in scene.counted() if thing.shown]
        kept = [item.box for item in boxes if item.score >= CUT]
        scores.append(_f1(kept, wanted))
    return np.array(scores, np.float32)


def _f1(kept: Sequence[Sequence[float]], wanted: Sequence[Sequence[float]]) -> float:
    if not kept and not wanted:
        return 1.0
    free: list[Sequence[float]] = list(wanted)
    hits = 0
    for box in kept:
        overlaps: NDArray[np.float64] = np.array([box_iou(box, other) for other in free])
        if len(overlaps) and overlaps.max() >= SAME_BOX:
            free.pop(int(overlaps.argmax()))
            hits += 1
    return 2 * hits / (len(kept) + len(wanted))
