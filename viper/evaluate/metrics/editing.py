"""Metric of edited pictures: is the new content there, the old gone, the rest unchanged.

Pictures are ``uint8 [H, W, 3]``. A judge looks at painted objects; everything else is arithmetic
on pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from viper.agreement import same_box
from viper.data.coco_masks import mask_of
from viper.data.sample import EditTarget, Sample
from viper.errors import UsageError
from viper.evaluate.metrics.figures import Figures, Metric, Results, figures_of, share_of
from viper.evaluate.sample_result import Prediction, SampleResult, Score
from viper.models.media import media_from
from viper.models.vision.roles import Pixels
from viper.schema import PixelBox
from viper.tools.edits import EMOJIS, blur_outside, color_pop, cover_boxes, emoji_picture
from viper.tools.session import Region
from viper.tools.tool_functions import detections, similarities
from viper.tools.toolbox import Toolbox

# Share of a kept object's pixels that must stay unchanged: an outline that a segmenter finds misses
# a rim of the object, and a tenth is more than a rim.
KEPT = 0.9


# Largest difference from the emoji, as a share of the difference from the original picture: below 1
# it is nearer to the emoji, and the rest is for other sizes and smoothing.
FAR = 0.6


class EditJudge(Protocol):
    """Protocol of what looks at edited pictures."""

    def shows(self, pixels: Pixels, box: PixelBox, phrase: str, over: str) -> bool:
        """Return whether a box shows what ``phrase`` names, rather than what ``over`` names.

        Args:
            pixels: the whole picture, uint8 [H, W, 3].
            box: pixels from the top-left corner.
        """


# Returns the judge of a sample. Most return the same judge for every sample.
JudgeOf = Callable[[Sample], EditJudge]


class EditVerdict(NamedTuple):
    """Verdict: ``asked`` is present, the old content is ``gone``, the rest is ``unchanged``."""

    asked: bool
    gone: bool
    unchanged: bool

    @property
    def right(self) -> bool:
        """Return whether all three hold."""
        return all(self)


NOT_EDITED = EditVerdict(False, False, False)


def edit_verdict(
    before: Pixels, after: Pixels, target: EditTarget, judge: EditJudge
) -> EditVerdict:
    """Judge an edit. A picture of another size is wrong in every way.

    - Replacements: the judge sees what was asked in every box, and the old one in none;
      ``unchanged`` is exact outside :attr:`EditTarget.reach`.
    - Emoji: the picture is nearer to the one with that emoji than to those with others that
      instructions name, and far from what was there; ``unchanged`` as above.
    - What keeps objects and changes the rest (``color_pop``, ``blur_background``): ``asked`` says
      that all outside the reach is exactly as the operation makes it, ``gone`` that it is not what
      it was, ``unchanged`` that :data:`KEPT` of each object's pixels stayed.
    """
    if after.shape != before.shape:
        return NOT_EDITED
    outside = ~target.reach
    if target.operation in ("color_pop", "blur_background"):
        make = color_pop if target.operation == "color_pop" else blur_outside
        height, width = before.shape[:2]
        expected = make(before, np.zeros((height, width), np.bool_))
        is_applied = bool((after[outside] == expected[outside]).all())
        gone = bool((after[outside] != before[outside]).any())
        same = (after == before).all(axis=2)
        masks = [mask_of(outline, height, width) for outline in target.outlines]
        return EditVerdict(is_applied, gone, all(same[mask].mean() >= KEPT for mask in masks))
    unchanged = bool((before[outside] == after[outside]).all())
    if target.operation == "put_emoji":
        hidden = _is_hidden(before, after, target)
        return EditVerdict(hidden, hidden, unchanged)
    shows_new = all(judge.shows(after, box, target.new, target.old) for box in target.boxes)
    still = any(judge.shows(after, box, target.old, target.new) for box in target.boxes)
    return EditVerdict(shows_new, not still, unchanged)


def _is_hidden(before: Pixels, after: Pixels, target: EditTarget) -> bool:
    """Return whether each box is nearest to the right emoji and far from the original."""
    boxes = [tuple(round(edge) for edge in box) for box in target.boxes]
    pictures = {
        name: cover_boxes(before, boxes, emoji_picture(name)).astype(int)
        for name in dict.fromkeys((target.new, *EMOJIS))
    }
    for x0, y0, x1, y1 in boxes:
        part = (slice(y0, y1), slice(x0, x1))
        far = {name: np.abs(after[part] - other[part]).mean() for name, other in pictures.items()}
        own = far.pop(target.new)
        if own >= min(*far.values(), FAR * np.abs(after[part].astype(int) - before[part]).mean()):
            return False
    return True


@dataclass(frozen=True)
class RolesJudge:
    """Judge that uses the detector and the matcher of a profile.

    An object is shown if the detector finds it in the box and the matcher prefers its phrase. Both
    answer as in programs, with learned prompts, so the judge shares the tools that it judges. Give
    it another toolbox for an independent judge.
    """

    toolbox: Toolbox

    def shows(self, pixels: Pixels, box: PixelBox, phrase: str, over: str) -> bool:
        """See :class:`EditJudge`."""
        session = self.toolbox.session(media_from(pixels))
        height, width = pixels.shape[:2]
        whole = Region("image0", (0, 0, width, height), (width, height))
        least = session.threshold("detector.threshold")
        is_detected = any(
            detection.score >= least and same_box(detection.box, box)
            for detection in detections(session, whole, phrase)
        )
        x0, y0, x1, y1 = (round(edge) for edge in box)
        part = Region("image0", (x0, y0, x1, y1), (width, height))
        fits, fits_other = similarities(session, [part], [phrase, over])[0]
        return bool(is_detected and fits > fits_other)


def judge_by_roles(toolbox: Toolbox) -> JudgeOf:
    """Return a judge of every sample that uses the models of a profile."""
    judge = RolesJudge(toolbox)
    return lambda sample: judge


@runtime_checkable
class NeedsEditJudge(Protocol):
    """Protocol of a metric that needs a judge for edited pictures."""

    def with_judge(self, judge_of: JudgeOf) -> Metric:
        """Return the same metric with a judge, unless it has one."""


@dataclass(frozen=True)
class Editing:
    """``edited``: right edits / all; ``asked``, ``gone``, ``unchanged``: the three things apart.

    An edit is right if the new content is there, the old is gone, and no pixel beyond the reach of
    the edit has changed; see :func:`edit_verdict`.

    Source: CLOVA (Gao et al. 2024, sec. 4.1) asks people whether an edit is semantically correct;
    :mod:`viper.evaluate.judgements` asks them, too.

    Attributes:
        judge_of: looks at painted objects; None is enough to compute figures.
    """

    judge_of: JudgeOf | None = None
    name: str = "editing"

    def with_judge(self, judge_of: JudgeOf) -> Editing:
        """Return the same metric with a judge, unless it has one."""
        return self if self.judge_of is not None else replace(self, judge_of=judge_of)

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        """Return 1 if all three hold, else 0, with each of them in the details.

        Raises:
            UsageError: there is no judge, or the sample has no target.
        """
        if not isinstance(sample.target, EditTarget):
            raise UsageError(
                f"sample {sample.sample_id} does not say what the edit must be; take the metric "
                "'mixed', or export pictures with --judgements"
            )
        if self.judge_of is None:
            raise UsageError("edits need a judge; give Editing one, as viper eval does")
        verdict = NOT_EDITED
        if prediction is not None and prediction.picture is not None:
            before = media_from(sample.load()).images[0]
            verdict = edit_verdict(before, prediction.picture, sample.target, self.judge_of(sample))
        details = {name: float(value) for name, value in verdict._asdict().items()}
        return Score(float(verdict.right), details)

    def figures(self, results: Iterable[SampleResult]) -> Figures:
        """Return the four shares; groups by ``edited``."""
        results = Results.of(results)
        parts = {name: share_of(results, name) for name in EditVerdict._fields}
        return figures_of(results, {"edited": share_of(results), **parts}, share_of)
