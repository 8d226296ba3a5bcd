"""What the matcher knows already: the words of the negatives' names that it tells pictures by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

_TOLD_APART = 0.8
"""A word is known where a picture that it is true of is more like it than one that it is not true
of, so often; .5 is chance."""


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


def known_words(backend: Any, names: Sequence[str], plain: Tensor) -> Words:
    """The names, and each of their words, that the matcher tells pictures by.

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
    told = torch.tensor([_told_apart(likeness[:, i], named[:, i]) for i in range(len(every))])
    known = torch.nonzero(told >= min(_TOLD_APART, float(told.max())))[:, 0]
    likeness, named = likeness[:, known], named[:, known]
    true = named & (likeness >= _between(likeness, named))
    none = ~true.any(dim=1)
    true[none, likeness.argmax(dim=1)[none]] = True
    return Words(tuple(every[int(i)] for i in known), embedded[known], true)


def _told_apart(likeness: Tensor, named: Tensor) -> float:
    """Share of pairs, one picture with the word and one without, in which the first is liker."""
    if named.all() or not named.any():
        return 0.5
    return float((likeness[named][:, None] > likeness[~named][None]).float().mean())


def _between(likeness: Tensor, named: Tensor) -> Tensor:
    """Halfway between the mean likeness of the pictures with each word and those without."""
    with_word = (likeness * named).sum(0) / named.sum(0).clamp(min=1)
    without = (likeness * ~named).sum(0) / (~named).sum(0).clamp(min=1)
    return (with_word + without) / 2
