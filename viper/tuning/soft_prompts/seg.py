"""Teaches a segmenter a concept: a query over its own segments for each instance.

The few pictures are made many by pasting (:mod:`viper.tuning.soft_prompts.pasting`) and looked at
once; the queries are then fitted to the descriptions of the segments that the network finds in
them. Each instance's query leaves some of the other pictures out. What the queries say of the
objects of pictures that they were not fitted to decides how sure they must be so as to leave other
objects alone, and whether they are kept.

Source: CLOVA (Gao et al. 2024), supplement, sec. 8.3. Differs: what is learned is a query and not
100 vectors, for the reason that :mod:`viper.tools.taught_segmenter` gives, by the logistic loss
over segments instead of the loss of masks, which nothing changes, in 60 steps of L-BFGS. Each
prompt is trained on most of the pictures and not on one alone: a concept is not seen in one object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viper.errors import UsageError
from viper.tools.roles import Floats, Segment
from viper.tools.soft_prompts import Learned, SoftPrompt
from viper.tools.taught_segmenter import prompt_of
from viper.tools.teachable import TeachableSegmenter
from viper.tuning.collect import AnnotatedPicture, Collected
from viper.tuning.kept_prompts import concept_key
from viper.tuning.soft_prompts.annotated import check_enough, evidence_of, held_out
from viper.tuning.soft_prompts.base import USUAL, Progress, Trained, TunerOptions, Using
from viper.tuning.soft_prompts.fitting import Fitting, Regions
from viper.tuning.soft_prompts.pasting import Scene, composed, is_of_colour, scene_of
from viper.tuning.soft_prompts.segments import f1, segments_of

STEPS, RATE = 60, 1.0

PICTURES = 150
"""Pictures that are made of the collected ones."""

LEFT_ALONE = 0.998
"""Share of the other objects held out that are not called by the concept's name. A segment has one
name: an old one is lost with each that is wrong."""

LEAST_NAMED = 0.1
"""Share of the concept's objects held out that must be; else the concept is not told apart."""


class SegTuner:
    """The tuner of ``segment``; lessons are annotated pictures, two positive ones at least."""

    tool = "seg"
    role = "segmenter"

    def learn(
        self,
        using: Using,
        lesson: Collected[AnnotatedPicture],
        options: TunerOptions = USUAL,
        on_progress: Progress | None = None,
    ) -> list[Trained]:
        """As :meth:`viper.tuning.soft_prompts.base.Tuner.learn`.

        Raises:
            UsageError: a segmenter that cannot be taught, fewer than two positive pictures, or
                none of the concept's objects found as a segment.
            MediaError, DataError: a picture of the lesson cannot be read.
        """
        check_enough(lesson, self.role)
        with using() as backend:
            if not isinstance(backend, TeachableSegmenter) or not hasattr(backend, "described"):
                name = getattr(backend, "model_id", type(backend).__name__)
                raise UsageError(
                    f"the segmenter {name} cannot be taught; use a MaskFormer or a Mask2Former "
                    '(backend = "maskformer")'
                )
        return _Course(using, lesson, options, on_progress).trained()


@dataclass(frozen=True, eq=False)
class _Held:
    """What is said of objects by those queries that were not fitted to them.

    Attributes:
        said: float [M], the mean of their logits: all queries together will be asked, not one.
        shown: bool [M], which of these objects show the concept.
        by: bool [Q, M], by which queries.
    """

    said: Floats
    shown: NDArray[np.bool_]
    by: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        known: Regions,
        helds: Sequence[Sequence[int]],
        queries: Sequence[tuple[Floats, float]],
    ) -> _Held:
        """What queries say of the objects of the pictures that each leaves out."""
        said, by = np.zeros(len(known.shown)), np.zeros((len(queries), len(known.shown)), np.bool_)
        for at, (held, (query, shift)) in enumerate(zip(helds, queries, strict=True)):
            places = known.held(held)
            said[places] += known.features[places] @ query + shift
            by[at, places] = True
        asked = by.any(axis=0)
        mean = said[asked] / by.sum(axis=0)[asked]
        return cls(mean.astype(np.float32), known.shown[asked], by[:, asked])

    @property
    def cut(self) -> float:
        """The logit that :data:`LEFT_ALONE` of those that do not show it stay below."""
        others = self.said[~self.shown]
        return float(np.quantile(others, LEFT_ALONE)) if len(others) else 0.0

    @property
    def named(self) -> float:
        """The share of those that do that are above it."""
        return float((self.said > self.cut)[self.shown].mean()) if self.shown.any() else 0.0


@dataclass(eq=False)
class _Course:
    """One lesson being learned."""

    using: Using
    lesson: Collected[AnnotatedPicture]
    options: TunerOptions
    on_progress: Progress | None
    _done: int = 0

    def trained(self) -> list[Trained]:
        scenes = [scene_of(one, self.lesson.concept, at) for at, one in enumerate(self._pictures)]
        originals, known, widths = self._look(scenes)
        if not known.shown.any():
            raise UsageError(
                f"the segmenter finds no outline of any {self.lesson.concept!r} in the "
                f"{len(self.lesson.positives)} pictures of it; it can learn names of what it finds"
            )
        fitting, rate = Fitting(known, widths), self.options.rate or RATE
        helds = [held_out(self.lesson, at) for at in range(len(self.lesson.positives))]
        queries = [fitting.query(held, self._steps, rate, self._told) for held in helds]
        seen = _Held.of(known, helds, queries)
        return [
            self._one(at, query, shift, scenes, originals, seen)
            for at, (query, shift) in enumerate(queries)
        ]

    @property
    def _pictures(self) -> tuple[AnnotatedPicture, ...]:
        return (*self.lesson.positives, *self.lesson.negatives)

    @property
    def _steps(self) -> int:
        return STEPS if self.options.steps is None else self.options.steps

    def _told(self) -> None:
        self._done += 1
        if self.on_progress is not None:
            looks = PICTURES + len(self._pictures)
            self.on_progress(self._done, looks + len(self.lesson.positives) * self._steps)

    def _look(self, scenes: Sequence[Scene]) -> tuple[list[Any], Regions, tuple[int, ...]]:
        """The encodings of the collected pictures, the segments of these and of made ones, widths.

        The widths are those of a description's parts.
        """
        rng = np.random.default_rng([self.options.seed, 23])
        recolour = not is_of_colour(scenes)
        kept, parts, widths = [], [], ()
        for place in range(len(scenes) + PICTURES):
            mine = place < len(scenes)
            scene = scenes[place] if mine else composed(scenes, rng, recolour)
            with self.using() as backend:
                encoding = backend.encode(scene.pixels)
                found, known = backend.described(encoding)
            parts.append(segments_of(found, known.features, scene))
            widths = known.widths
            kept += [encoding] * mine
            self._told()
        return kept, Regions.joined(parts), widths

    def _one(
        self,
        at: int,
        query: Floats,
        shift: float,
        scenes: Sequence[Scene],
        originals: Sequence[Any],
        seen: _Held,
    ) -> Trained:
        """The prompt of one positive picture."""
        held, name = held_out(self.lesson, at), concept_key("seg", self.lesson.concept)
        vectors, shares = prompt_of(query, shift - seen.cut), []
        with self.using() as backend:
            feature, model_id = backend.feature(originals[at]), backend.model_id
            plain = [backend.segments(originals[one], None) for one in held]
            taught = [
                backend.segments_taught(originals[one], [Learned(name, vectors)]) for one in held
            ]
        for found in (plain, taught):
            shares.append(_shares(found, [scenes[one] for one in held], name))
        evidence = evidence_of(
            self.lesson, at, model_id, (shares[0], shares[1]), self._steps, self.options
        )
        why = _why_not(seen, at, *shares) if self.options.validate else ""
        return Trained(SoftPrompt(feature, vectors), evidence, why)


def _why_not(seen: _Held, at: int, before: Floats, after: Floats) -> str:
    """Why a prompt is discarded; empty: it is not."""
    named = seen.named
    if named < LEAST_NAMED:
        return (
            f"not told apart: {named:.0%} of its held-out objects are surer to be it than nearly "
            f"all others are; {LEAST_NAMED:.0%} are asked for"
        )
    mine = seen.said[seen.by[at] & seen.shown]
    if not (mine > seen.cut).any():
        return f"of no use: it names none of {len(mine)} held-out objects"
    if after.mean() < before.mean():
        return (
            f"harmful: {after.mean():.2f} right in {len(after)} held-out pictures, "
            f"{before.mean():.2f} without"
        )
    return ""


def _shares(found: Sequence[Sequence[Segment]], scenes: Sequence[Scene], name: str) -> Floats:
    """float32 [N]: how well the segments of the concept match its objects in each picture."""
    scores = []
    for segments, scene in zip(found, scenes, strict=True):
        counted = [thing for thing, _ in scene.counted()]
        wanted = [thing.mask for thing in counted if thing.shown]
        hidden = [thing.mask for thing in scene.things if thing.shown and thing not in counted]
        scores.append(f1([one.mask for one in segments if one.label == name], wanted, hidden))
    return np.array(scores, np.float32)
