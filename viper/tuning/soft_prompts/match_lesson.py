"""A lesson of the matcher as its tuner looks at it: views, known words, and what is held out.

What a soft prompt does not change of the image tower's work is done once for each view and kept:
training then costs a few layers a step, and next to nothing where the image tower stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from viper.models.vision.roles import Pixels
from viper.tuning.soft_prompts.base import Using
from viper.tuning.training_data import Collected, FoundPicture

if TYPE_CHECKING:
    from torch import Generator, Tensor

VIEWS = 6
"""Of each picture; the first is the picture itself."""

_BATCH = 32

_SCALE, _SQUEEZE, _TURN, _SHIFT = 0.17, 0.07, 0.15, 0.12
"""How far a view is scaled, squeezed, turned (radians) and shifted (halves of the side) at most."""

_EXPOSURE = 0.1
"""Standard deviation of the factor on a view's values, taken from their least one."""

_TOLD_APART = 0.8
"""A word is known where a picture that it is true of is more like it than one that it is not true
of, so often; .5 is chance."""

_EVERY = 5
"""Of the negatives every so many-th is held out, where there are so many."""


@dataclass(frozen=True, eq=False)
class Views:
    """Views of some pictures.

    Attributes:
        begun: ``[V, n, ...]`` what ``OpenClipMatcher.begun`` gave of each.
        plain: float32 ``[V, n, D]``, their embeddings by the matcher as it came.
    """

    begun: Tensor
    plain: Tensor

    def of(self, pictures: Tensor) -> Views:
        """Return the views of some of the pictures."""
        return Views(self.begun[:, pictures], self.plain[:, pictures])


@dataclass(frozen=True, eq=False)
class Words:
    """Words that the matcher knows, and which of them are true of the negatives.

    Attributes:
        texts: O of them.
        embedded: float32 ``[O, D]``, of length 1.
        true: bool ``[n, O]``; every picture has one.
    """

    texts: tuple[str, ...]
    embedded: Tensor
    true: Tensor


@dataclass(frozen=True, eq=False)
class Lesson:
    """What prompts of a concept are trained on.

    Attributes:
        shares: float ``[K, P]``: how often each of K prompts sees each of the P positives.
        scale: the matcher's factor on a cosine.
    """

    concept: str
    positives: Views
    negatives: Views
    words: Words
    shares: Tensor
    scale: float


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
        """Read the pictures of the training data.

        Raises:
            MediaError: a picture that cannot be read.
        """
        mine = [picture.pixels() for picture in lesson.positives]
        others = [picture.pixels() for picture in lesson.negatives]
        return cls(lesson.concept, mine, others, [one.text for one in lesson.negatives])


def looked_at(using: Using, pictures: Pictures, exchanged: bool, seed: int) -> Looked:
    """Encode all pictures of the training data.

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
    remaining = numbers[~is_held] if not is_held.all() else numbers
    held = numbers[is_held]
    return Looked(
        Lesson(
            pictures.concept,
            mine,
            others.of(remaining),
            replace(words, true=words.true[remaining]),
            torch.ones(1, len(pictures.positives)),
            scale,
        ),
        others.of(held),
        words.true[held],
    )


def views_of(
    using: Using, pictures: Sequence[Pixels], exchanged: bool, generator: Generator
) -> Views:
    """Return mirrored, scaled, turned, shifted, brighter and darker views of pictures.

    Args:
        exchanged: the colour channels of all views but the first are exchanged at random: another
            colour, the same shape and pattern.
    """
    import torch

    with using() as backend:
        inputs = backend.as_input(pictures)
    begun, plain = [], []
    for number in range(VIEWS):
        seen = inputs if number == 0 else _view(inputs, exchanged, generator)
        parts = [_looked_at(using, part) for part in seen.split(_BATCH)]
        begun.append(torch.cat([part[0] for part in parts]))
        plain.append(torch.cat([part[1] for part in parts]).float())
    return Views(torch.stack(begun), torch.stack(plain))


def _looked_at(using: Using, part: Tensor) -> tuple[Any, Any]:
    import torch

    with using() as backend, torch.no_grad():
        begun = backend.run_stem(part)
        return begun, backend.embed_from(begun, None)


def _view(inputs: Tensor, exchanged: bool, generator: Generator) -> Tensor:
    """Return one view of each picture ``[n, 3, S, S]``."""
    import torch
    from torch.nn.functional import affine_grid, grid_sample

    count = len(inputs)

    def drawn(reach: float) -> Tensor:
        return (2 * torch.rand(count, generator=generator) - 1) * reach

    turn, scale, squeeze = drawn(_TURN), 1 + drawn(_SCALE), 1 + drawn(_SQUEEZE)
    mirror = 1 - 2 * (torch.rand(count, generator=generator) < 0.5).float()
    rows = (
        (scale * mirror * squeeze * turn.cos(), -scale * turn.sin(), drawn(_SHIFT)),
        (scale * mirror * turn.sin(), scale * turn.cos() / squeeze, drawn(_SHIFT)),
    )
    moves = torch.stack([torch.stack(row, dim=1) for row in rows], dim=1)  # (n, 2, 3)
    exposure = 1 + _EXPOSURE * torch.randn(count, 1, 1, 1, generator=generator)
    order = torch.rand(count, 3, generator=generator).argsort(dim=1)
    grid = affine_grid(moves.to(inputs), list(inputs.shape), align_corners=False)
    seen = grid_sample(inputs, grid, padding_mode="border", align_corners=False)
    if exchanged:
        chosen = order.to(inputs.device)[:, :, None, None].expand_as(seen)
        seen = seen.gather(1, chosen)
    least, most = inputs.amin(), inputs.amax()
    return ((seen - least) * exposure.to(inputs) + least).clamp(least, most)


def known_words(backend: Any, names: Sequence[str], plain: Tensor) -> Words:
    """Return the names, and each of their words, that the matcher recognises in pictures.

    What a picture was searched for need not be on it: a word is taken for true of a picture if
    it stands in its name and the matcher agrees; where it agrees with none, the word that it finds
    most like the picture.

    Args:
        backend: the matcher.
        names: of n pictures.
        plain: float32 ``[n, D]``, their embeddings.
    """
    import torch

    parts = [set(name.split()) for name in names]
    every = list(dict.fromkeys(word for name in names for word in name.split()))
    embedded = torch.from_numpy(backend.encode_texts(every)).to(plain.device)
    likeness = plain @ embedded.T  # (n, words)
    named = torch.tensor([[word in own for word in every] for own in parts], device=plain.device)
    accuracies = torch.tensor([_told_apart(likeness[:, i], named[:, i]) for i in range(len(every))])
    indices = torch.nonzero(accuracies >= min(_TOLD_APART, float(accuracies.max())))[:, 0]
    likeness, named = likeness[:, indices], named[:, indices]
    true = named & (likeness >= _between(likeness, named))
    none = ~true.any(dim=1)
    true[none, likeness.argmax(dim=1)[none]] = True
    return Words(tuple(every[int(i)] for i in indices), embedded[indices], true)


def _told_apart(likeness: Tensor, named: Tensor) -> float:
    """Return the share of pairs, one picture with the word and one without, that are ranked
    right."""
    if named.all() or not named.any():
        return 0.5
    return float((likeness[named][:, None] > likeness[~named][None]).float().mean())


def _between(likeness: Tensor, named: Tensor) -> Tensor:
    """Return the midpoint between the mean likeness of pictures with each word and without it."""
    with_word = (likeness * named).sum(0) / named.sum(0).clamp(min=1)
    without = (likeness * ~named).sum(0) / (~named).sum(0).clamp(min=1)
    return (with_word + without) / 2
