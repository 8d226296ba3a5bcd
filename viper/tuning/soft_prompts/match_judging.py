"""Judging pictures and prompts of a concept by those that they were not trained with.

Pictures that a search found may be wrong, those that judge as well as those that are judged: a
picture is asked of many prompts of small parts of the others, and one wrong picture is in few.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from viper.models.vision.taught_matcher import Places, text_row
from viper.tuning.soft_prompts.base import Using
from viper.tuning.soft_prompts.match_training import Course, Lesson, texts_of, trained_prompts
from viper.tuning.soft_prompts.match_views import Views

if TYPE_CHECKING:
    from torch import Tensor

PARTS = 35
"""Parts of the pictures, at most, that prompts are trained on to judge the others: all fours of
seven."""

LEAST_MARGIN = -1.5
"""A picture is taken for the concept if its similarity to it is at most so little below that of
all known words together, in the matcher's own units."""

WRONG_MARGIN = -4.0
"""What lies below is wrong. Half of the pictures, those that are taken for the concept most, are
trusted from here on, since of some concepts four pictures tell little."""

_SHARE = 4 / 7


@dataclass(frozen=True, eq=False)
class Verdict:
    """What the other pictures say of each.

    Attributes:
        margins: float ``[P]``, by how much each is taken for the concept, in the mean.
    """

    margins: Tensor

    @property
    def least(self) -> float:
        """The margin from which on a picture is taken for the concept."""
        margins = sorted(self.margins.tolist(), reverse=True)
        return min(LEAST_MARGIN, max(WRONG_MARGIN, margins[max(1, len(margins) // 2) - 1]))

    @property
    def trusted(self) -> list[int]:
        """The pictures that are taken for the concept."""
        return [i for i, margin in enumerate(self.margins.tolist()) if margin >= self.least]

    @property
    def company(self) -> list[int]:
        """The pictures that others may be trained with: all that are not clearly wrong."""
        return [i for i, margin in enumerate(self.margins.tolist()) if margin >= WRONG_MARGIN]

    @property
    def agreement(self) -> float:
        """The mean margin of the better half: how well the pictures bear each other out."""
        best = self.margins.sort(descending=True).values
        return float(best[: (len(best) + 1) // 2].mean())


def verdict_of(
    using: Using, places: Places, lesson: Lesson, course: Course, on_step: Callable[[], None]
) -> Verdict:
    """Every picture by prompts of parts of the others; the image tower stays as it came."""
    import torch

    count = lesson.positives.plain.shape[1]
    size = min(max(1, round(_SHARE * count)), count - 1)
    rng = random.Random(course.seed)
    if math.comb(count, size) <= PARTS:
        parts = list(itertools.combinations(range(count), size))
        parts = rng.sample(parts, len(parts))
    else:
        parts = [tuple(rng.sample(range(count), size)) for _ in range(PARTS)]
    shares = torch.zeros(len(parts), count)
    for row, part in enumerate(parts):
        shares[row, list(part)] = 1.0
    return _verdict(using, places, replace(lesson, shares=shares), course, on_step)


def margins_of(
    using: Using, lesson: Lesson, pictures: Views, prompts: Tensor | None
) -> tuple[Tensor, Tensor]:
    """By how much pictures are taken for the concept, and their similarities to it.

    Args:
        pictures: n of them.
        prompts: ``[K, N, W]``; None: the matcher as it came.

    Returns:
        Two of ``[K, n]``; K is 1 without prompts.
    """
    import torch
    from torch.nn.functional import normalize

    with using() as backend:
        places = backend.places
        concept = texts_of(backend, lesson.concept, lesson.words).forms[0]
    plain = pictures.plain[0]
    seen, rows = [plain], torch.zeros_like(concept)[None]
    if prompts is not None:
        seen = [_seen_with(using, pictures, prompt) for prompt in prompts]
        rows = text_row(places, prompts)
    wanted = normalize(concept + rows, dim=-1)
    like = lesson.scale * (torch.stack(seen) * wanted[:, None]).sum(-1)
    return like - _known(lesson, plain), like


def taken(lesson: Lesson, like: Tensor, plain: Tensor, true: Tensor) -> Tensor:
    """Which other pictures would be taken for the concept, bool ``[K, n]``.

    Those that are more like it than like any word that is true of them.

    Args:
        like: of :func:`margins_of`.
        plain: float32 ``[n, D]``, their embeddings.
        true: bool ``[n, O]``, the known words that are true of them.
    """
    words = lesson.scale * plain @ lesson.words.embedded.T
    return like > words.masked_fill(~true, float("-inf")).amax(dim=-1)


def _seen_with(using: Using, pictures: Views, prompt: Tensor) -> Tensor:
    """Embeddings of pictures under a prompt, float32 ``[n, D]``."""
    import torch

    with using() as backend, torch.no_grad():
        found: Tensor = backend.embedded(pictures.begun[0], prompt).float()
        return found


def _verdict(
    using: Using, places: Places, lesson: Lesson, course: Course, on_step: Callable[[], None]
) -> Verdict:
    import torch
    from torch.nn.functional import normalize

    course = replace(course, tower_rate=0.0)
    prompts = trained_prompts(using, places, lesson, course, on_step)
    with using() as backend:
        concept = texts_of(backend, lesson.concept, lesson.words).forms[0]
    wanted = normalize(concept + text_row(places, prompts), dim=-1)  # (K, D)
    plain = lesson.positives.plain  # (V, P, D)
    like = lesson.scale * torch.einsum("vpd,kd->kvp", plain, wanted)
    margins = (like - _known(lesson, plain)).mean(dim=1)  # (K, P)
    held = (lesson.shares == 0).to(margins)
    return Verdict((margins * held).sum(0) / held.sum(0).clamp(min=1))


def _known(lesson: Lesson, plain: Tensor) -> Tensor:
    """How like all known words together pictures are, ``[...]`` of ``[..., D]``."""
    found: Tensor = (lesson.scale * plain @ lesson.words.embedded.T).logsumexp(dim=-1)
    return found
