"""Concepts like a given one and yet others: what must not be taken for it.

Source: CLOVA (Gao et al. 2024), supplement, sec. 8. Differs: there a language model names them
freely; here they are those labels of the data's own vocabulary whose texts the matcher finds most
similar, so that there are pictures of them, and the choice needs no language model and repeats.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from viper.models.vision.roles import Floats
from viper.tuning.concept_names import is_about, spellings, without_remark

RELATED = 7
"""Related concepts that are chosen."""


class TextSide(Protocol):
    """The part of a :class:`~viper.models.vision.roles.Matcher` that is asked here."""

    def encode_texts(self, texts: Sequence[str]) -> Floats:
        """L2-normalised embeddings ``[M, D]``."""
        ...


def related_concepts(
    concept: str,
    vocabulary: Sequence[str],
    matcher: TextSide,
    count: int = RELATED,
    *,
    same: Collection[str] = (),
) -> tuple[str, ...]:
    """The labels most similar to a concept that are not the concept, the most similar first.

    Not chosen are the concept's other spellings and names, and labels of which one holds all words
    of the other: a ``red cube`` is a cube, and ``cube`` may show a red one.

    Args:
        vocabulary: labels to choose from; of equally similar ones the earlier comes first.
        matcher: whose text similarity decides.
        same: other names of the concept, as synonyms.
    """
    known = {spelling for name in (concept, *same) for spelling in spellings(name)}
    other = [
        label
        for label in dict.fromkeys(vocabulary)
        if not known.intersection(spellings(label))
        and not any(is_about(label, name) for name in (concept, *same))
    ]
    if not other or count <= 0:
        return ()
    texts = matcher.encode_texts([without_remark(each) or each for each in (concept, *other)])
    likeness = texts[1:] @ texts[0]
    order = sorted(range(len(other)), key=lambda index: (-float(likeness[index]), index))
    return tuple(other[index] for index in order[:count])
