"""A lesson of the matcher as its tuner looks at it: views, known words, and what is held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from viper.models.vision.roles import Pixels
from viper.tuning.collect import Collected, FoundPicture
from viper.tuning.soft_prompts.base import Using
from viper.tuning.soft_prompts.match_training import Lesson
from viper.tuning.soft_prompts.match_views import Views, views_of
from viper.tuning.soft_prompts.match_words import known_words

if TYPE_CHECKING:
    from torch import Tensor

_EVERY = 5
"""Of the negatives every so many-th is held out, where there are so many."""


@dataclass(frozen=True, eq=False)
class Looked:
    """What was seen.

    Attributes:
        lesson: what prompts are trained on; one that sees all positives alike.
        held: h pictures of other concepts that are held out.
        held_true: bool ``[h, O]``: the known words that are true of them.
    """

    lesson: Lesson
    held: Views
    held_true: Tensor


@dataclass(frozen=True, eq=False)
class Pictures:
    """The pixels of a lesson, read once, and what the negatives were searched for."""

    concept: str
    positives: Sequence[Pixels]
    negatives: Sequence[Pixels]
    names: Sequence[str]

    @classmethod
    def of(cls, lesson: Collected[FoundPicture]) -> Pictures:
        """Reads them.

        Raises:
            MediaError: a picture that cannot be read.
        """
        mine = [picture.pixels() for picture in lesson.positives]
        others = [picture.pixels() for picture in lesson.negatives]
        return cls(lesson.concept, mine, others, [one.text for one in lesson.negatives])


def looked_at(using: Using, pictures: Pictures, exchanged: bool, seed: int) -> Looked:
    """Looks at all pictures of a lesson.

    Args:
        exchanged: in views with exchanged colour channels, see :func:`views_of`.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    mine = views_of(using, pictures.positives, exchanged, generator)
    others = views_of(using, pictures.negatives, exchanged, generator)
    with using() as backend:
        words = known_words(backend, pictures.names, others.plain[0])
        scale = float(backend.logit_scale)
    numbers = torch.arange(len(pictures.names))
    is_held = numbers % _EVERY == _EVERY - 1
    if not is_held.any():
        is_held[:] = True
    kept = numbers[~is_held] if not is_held.all() else numbers
    held = numbers[is_held]
    return Looked(
        Lesson(
            pictures.concept,
            mine,
            others.of(kept),
            replace(words, true=words.true[kept]),
            torch.ones(1, len(pictures.positives)),
            scale,
        ),
        others.of(held),
        words.true[held],
    )
