"""Teaches a segmenter a concept: a query over its own segments for each instance.

The few pictures are made many by pasting (:mod:`viper.tuning.soft_prompts.pasting`) and looked at
once; the queries are then fitted to the descriptions of the segments that the network finds in
them. Each instance's query leaves some of the other pictures out. What the queries say of the
objects of pictures that they were not fitted to decides three things: which part of the
descriptions they look at (a colour is seen in the pixels, a shape in the outline), how sure they
must be so as to leave other objects alone, and whether they are kept.

Source: CLOVA (Gao et al. 2024), supplement, sec. 8.3. Differs: what is learned is a query and not
100 vectors, for the reason that :mod:`viper.tools.taught_segmenter` gives, by the logistic loss
over segments instead of the loss of masks, which nothing changes. Each prompt is trained on most
of the pictures and not on one alone: a concept is not seen in one object.
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
from viper.tuning.soft_prompts.pasting import Scene, composed, is_of_colour, scene_of
from viper.tuning.soft_prompts.segments import VIEWS, Described, f1, fitted, segments_of, views

STEPS, RATE = 100, 0.05

PICTURES = 96
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
class _Choice:
    """Queries over one part of the descriptions, one for each positive picture.

    Attributes:
        queries: each with what is added to its products.
        said: float [M] of each query, its logits for the segments that were held out from it.
        shown: bool [M] of each query, which of those show the concept.
    """

    queries: Sequence[tuple[Floats, float]]
    said: Sequence[Floats]
    shown: Sequence[NDArray[np.bool_]]

    def cut(self, left_alone: float) -> float:
        """The logit that so many of the others that were held out stay below."""
        said, shown = np.concatenate(self.said), np.concatenate(self.shown)
        return 0.0 if shown.all() else float(np.quantile(said[~shown], left_alone))

    def named(self, left_alone: float) -> float:
        """The share of the concept's objects held out that are above it."""
        said, shown = np.concatenate(self.said), np.concatenate(self.shown)
        return float((said[shown] > self.cut(left_alone)).mean()) if shown.any() else 0.0


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
        originals, rows, widths = self._look(scenes)
        if not rows.shown.any():
            raise UsageError(
                f"the segmenter finds no outline of any {self.lesson.concept!r} in the "
                f"{len(self.lesson.positives)} pictures of it; it can learn names of what it finds"
            )
        choices = [self._fitted(rows, columns) for columns in views(widths)]
        best = max(choices, key=lambda choice: choice.named(LEFT_ALONE))
        return [self._one(at, scenes, originals, best) for at in range(len(self.lesson.positives))]

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
            fits = VIEWS * len(self.lesson.positives)
            self.on_progress(self._done, looks + fits * self._steps)

    def _look(self, scenes: Sequence[Scene]) -> tuple[list[Any], Described, tuple[int, ...]]:
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
        return kept, Described.joined(parts), widths

    def _fitted(self, rows: Described, columns: NDArray[np.int64]) -> _Choice:
        """The queries over some columns, one for each positive picture."""
        rate = RATE if self.options.rate is None else self.options.rate
        queries, said, shown = [], [], []
        for at in range(len(self.lesson.positives)):
            held = held_out(self.lesson, at)
            query, shift = fitted(rows.without(held), columns, self._steps, rate, self._told)
            seen = np.isin(rows.source, held)
            queries.append((query, shift))
            said.append(rows.features[seen] @ query + shift)
            shown.append(rows.shown[seen])
        return _Choice(queries, said, shown)

    def _one(
        self, at: int, scenes: Sequence[Scene], originals: Sequence[Any], choice: _Choice
    ) -> Trained:
        """The prompt of one positive picture."""
        held, name = held_out(self.lesson, at), concept_key("seg", self.lesson.concept)
        cut = choice.cut(LEFT_ALONE)
        query, shift = choice.queries[at]
        vectors, shares = prompt_of(query, shift - cut), []
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
        why = _why_not(choice, at, cut, *shares) if self.options.validate else ""
        return Trained(SoftPrompt(feature, vectors), evidence, why)


def _why_not(choice: _Choice, at: int, cut: float, before: Floats, after: Floats) -> str:
    """Why a prompt is discarded; empty: it is not."""
    named = choice.named(LEFT_ALONE)
    if named < LEAST_NAMED:
        return (
            f"not told apart: {named:.0%} of its held-out objects are surer to be it than nearly "
            f"all others are; {LEAST_NAMED:.0%} are asked for"
        )
    mine = choice.said[at][choice.shown[at]]
    if not (mine > cut).any():
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
