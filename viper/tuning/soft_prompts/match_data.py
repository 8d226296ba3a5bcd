"""Encoded training data of the matcher: views of pictures, known words, held-out negatives.

`encode_pictures` makes the views of all pictures (`views_of`), finds the words that the matcher
knows (`known_words`), and holds some negatives out.

The part of the image tower that soft prompts do not change runs once for each view, and its output
is stored. A training step then runs only a few layers, or none if the image tower stays fixed.
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

# Number of views of each picture; the first is the picture itself. Each is encoded once and stored,
# so further views cost memory and time in proportion.
VIEWS = 6

# Pictures that the backend is held for, so that other calls are answered in between.
_BATCH = 32

# Largest scaling, squeezing, rotation (radians) and shift (in half sides) of a view. Small, so that
# the object stays in the picture and upright.
_SCALE, _SQUEEZE, _TURN, _SHIFT = 0.17, 0.07, 0.15, 0.12

# Standard deviation of the random brightness factor of a view: as light differs between
# photographs, without turning colours into others.
_EXPOSURE = 0.1

# Least ranking accuracy of a known word: the share of pairs in which a picture with the word is
# more similar to it than a picture without it; .5 is chance, and negatives named by words near it
# would teach wrong differences.
_KNOWN_ACCURACY = 0.8

# Every fifth negative is held out, if there are that many: 16 of the usual 80, and most to learn
# from.
_EVERY = 5


@dataclass(frozen=True, eq=False)
class Views:
    """Views of some pictures.

    Attributes:
        begun: ``[V, n, ...]``, intermediate features by ``OpenClipMatcher.run_stem``.
        plain: float32 ``[V, n, D]``, embeddings by the original matcher.
    """

    begun: Tensor
    plain: Tensor

    def of(self, pictures: Tensor) -> Views:
        """Return the views of some of the pictures."""
        return Views(self.begun[:, pictures], self.plain[:, pictures])


@dataclass(frozen=True, eq=False)
class Words:
    """Words that the matcher knows, and the words that are true of each negative.

    Attributes:
        texts: O words.
        embedded: float32 ``[O, D]``, L2-normalised embeddings.
        true: bool ``[n, O]``; every picture has at least one true word.
    """

    texts: tuple[str, ...]
    embedded: Tensor
    true: Tensor


@dataclass(frozen=True, eq=False)
class MatchData:
    """Training data for the prompts of a concept.

    Attributes:
        shares: float ``[K, P]``, relative frequency of each of P positives for each of K prompts.
        scale: the matcher's factor on cosines.
    """

    concept: str
    positives: Views
    negatives: Views
    words: Words
    shares: Tensor
    scale: float


@dataclass(frozen=True, eq=False)
class EncodedData:
    """Encoded pictures of the collected data.

    Attributes:
        data: training data for one prompt that sees all positives equally often.
        held: h held-out pictures of other concepts.
        held_true: bool ``[h, O]``, the known words that are true of them.
    """

    data: MatchData
    held: Views
    held_true: Tensor


def encode_pictures(
    using: Using,
    data: Collected[FoundPicture],
    positives: Sequence[Pixels],
    negatives: Sequence[Pixels],
    *,
    exchanged: bool,
    seed: int,
) -> EncodedData:
    """Encode all pictures of the training data.

    Args:
        positives: pixels of the pictures, read once.
        exchanged: whether views have exchanged colour channels; see :func:`views_of`.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    ours = views_of(using, positives, exchanged, generator)
    others = views_of(using, negatives, exchanged, generator)
    with using() as backend:
        words = known_words(backend, [each.text for each in data.negatives], others.plain[0])
        scale = float(backend.logit_scale)
    numbers = torch.arange(len(negatives))
    held = numbers[_EVERY - 1 :: _EVERY]
    remaining = numbers[numbers % _EVERY != _EVERY - 1]
    if not len(held):  # too few to hold some out: all train and judge
        held = numbers
    words_left, equal = replace(words, true=words.true[remaining]), torch.ones(1, len(positives))
    training = MatchData(data.concept, ours, others.of(remaining), words_left, equal, scale)
    return EncodedData(training, others.of(held), words.true[held])


def views_of(
    using: Using, pictures: Sequence[Pixels], exchanged: bool, generator: Generator
) -> Views:
    """Return mirrored, scaled, turned, shifted, brighter and darker views of pictures.

    Args:
        exchanged: exchange the colour channels of all views but the first at random. This changes
            the colour and keeps shape and pattern.
    """
    import torch

    with using() as backend:
        inputs = backend.as_input(pictures)
    begun, plain = [], []
    for number in range(VIEWS):
        seen = inputs if number == 0 else _view(inputs, exchanged, generator)
        stems, embedded = [], []
        for part in seen.split(_BATCH):
            with using() as backend, torch.no_grad():
                stems.append(backend.run_stem(part))
                embedded.append(backend.embed_from(stems[-1], None))
        begun.append(torch.cat(stems))
        plain.append(torch.cat(embedded).float())
    return Views(torch.stack(begun), torch.stack(plain))


def _view(inputs: Tensor, exchanged: bool, generator: Generator) -> Tensor:
    """Return one view of each picture ``[n, 3, S, S]``."""
    import torch
    from torch.nn.functional import affine_grid, grid_sample

    count = len(inputs)

    def uniform(reach: float) -> Tensor:
        return (2 * torch.rand(count, generator=generator) - 1) * reach

    turn, scale, squeeze = uniform(_TURN), 1 + uniform(_SCALE), 1 + uniform(_SQUEEZE)
    mirror = 1 - 2 * (torch.rand(count, generator=generator) < 0.5).float()
    rows = (
        (scale * mirror * squeeze * turn.cos(), -scale * turn.sin(), uniform(_SHIFT)),
        (scale * mirror * turn.sin(), scale * turn.cos() / squeeze, uniform(_SHIFT)),
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

    A picture may not show its search text. So a word counts as true of a picture if it is in the
    picture's name and the matcher agrees. If the matcher agrees with none of the words, the word
    most similar to the picture counts as true.

    Args:
        backend: the matcher.
        names: names of n pictures.
        plain: float32 ``[n, D]``, their embeddings.
    """
    import torch

    parts = [set(name.split()) for name in names]
    every = list(dict.fromkeys(word for name in names for word in name.split()))
    embedded = torch.from_numpy(backend.encode_texts(every)).to(plain.device)
    likeness = plain @ embedded.T  # (n, words)
    named = torch.tensor([[word in own for word in every] for own in parts], device=plain.device)
    ranks = []
    for own, has in zip(likeness.T, named.T, strict=True):
        # the share of right rankings over pairs of a picture with and one without the word
        pairs = own[has][:, None] > own[~has][None]
        ranks.append(float(pairs.float().mean()) if pairs.numel() else 0.5)
    accuracies = torch.tensor(ranks)
    indices = torch.nonzero(accuracies >= min(_KNOWN_ACCURACY, float(accuracies.max())))[:, 0]
    likeness, named = likeness[:, indices], named[:, indices]
    with_word = (likeness * named).sum(0) / named.sum(0).clamp(min=1)
    without = (likeness * ~named).sum(0) / (~named).sum(0).clamp(min=1)
    true = named & (likeness >= (with_word + without) / 2)
    none = ~true.any(dim=1)
    true[none, likeness.argmax(dim=1)[none]] = True
    return Words(tuple(every[int(i)] for i in indices), embedded[indices], true)
