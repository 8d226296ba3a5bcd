"""Asks a store or a search for a concept's data, and writes down what came from where.

Everything is bounded, and repeats where its source repeats: stores draw by the seed, and what is
left out is left out for a reason that stands in the evidence.

Source: CLOVA (Gao et al. 2024), supplement, sec. 8, for related concepts, which must not be taken
for the one that is learned. Differs: there a language model names them freely; here they are those
labels of the data's own vocabulary whose texts the matcher finds most similar, so that there are
pictures of them, and the choice needs no language model and repeats.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Protocol

import numpy as np

from viper.errors import MediaError
from viper.models.vision.roles import Floats, Pixels
from viper.tuning.concept_names import is_about, spellings, without_remark
from viper.tuning.training_data import (
    LOC_SAMPLES,
    MOST_SAMPLES,
    POSITIVES,
    AnnotatedPicture,
    AnnotatedStore,
    Collected,
    ConceptQuery,
    FoundPicture,
    PictureSearch,
    checked_limit,
)

RELATED = 7
"""Related concepts that are chosen."""

_REFUSED_SHOWN = 20
"""Left-out pictures that the evidence names."""


class TextSide(Protocol):
    """The part of a :class:`~viper.models.vision.roles.Matcher` that is asked here."""

    def encode_texts(self, texts: Sequence[str]) -> Floats:
        """Return L2-normalised embeddings ``[M, D]``."""
        ...


def collect_annotated(
    query: ConceptQuery,
    store: AnnotatedStore,
    *,
    limit: int = LOC_SAMPLES,
    negatives: int = 0,
    matcher: TextSide | None = None,
    seed: int = 0,
) -> Collected[AnnotatedPicture]:
    """Collect pictures of a concept with all their boxes. No pixels are read.

    Args:
        limit: positives at most, :data:`LOC_SAMPLES` or :data:`SEG_SAMPLES`.
        negatives: pictures of related concepts at most in which the concept is known to be absent.
        matcher: chooses related concepts from the vocabulary where the query names none; without
            one there are no negatives then.

    Returns:
        No positives: the store knows no such concept or has no picture of it.

    Raises:
        UsageError: a limit out of range, or a name that may mean several concepts of the store.
        DataError: the store's files are missing or broken.
    """
    checked_limit(limit)
    checked_limit(negatives, least=0)
    positives = store.samples(query.concept, limit, seed=seed)
    names = store.names_of(query.concept)
    related = _related(query, store.vocabulary, names, matcher) if negatives and names else ()
    ids = {each.picture_id for each in positives}
    candidates = (store.samples(name, negatives, seed=seed) for name in related)
    others: list[AnnotatedPicture] = []
    for picture in _by_turns([list(each) for each in candidates]):
        if len(others) == negatives:
            break
        if picture.picture_id not in ids and picture.absent.intersection(names):
            ids.add(picture.picture_id)
            others.append(picture)
    evidence = {
        "manner": "annotated",
        "source": store.name,
        "concept": query.concept,
        "names": list(names),
        "related": list(related),
        "seed": seed,
        "limit": limit,
        "positives": [_annotated(each) for each in positives],
        "negatives": [_annotated(each) for each in others],
    }
    return Collected(query.concept, tuple(positives), tuple(others), evidence)


def collect_pictures(
    query: ConceptQuery,
    search: PictureSearch,
    *,
    limit: int = POSITIVES,
    negatives: int = POSITIVES,
    vocabulary: Sequence[str] = (),
    same: Sequence[str] = (),
    matcher: TextSide | None = None,
    related: int = RELATED,
) -> Collected[FoundPicture]:
    """Collect readable, distinct pictures of a concept and of related ones.

    All are read once; their checksums stand in the evidence.

    Args:
        limit: positives at most.
        negatives: pictures of related concepts at most, taken from one after the other.
        vocabulary: where related concepts are chosen from if the query names none.
        same: other names of the concept.
        matcher: chooses them.
        related: so many at most.

    Raises:
        UsageError: a limit out of range.
        ModelError: the search failed (a service that does not answer).
    """
    checked_limit(limit)
    checked_limit(negatives, least=0)
    seen: dict[str, str] = {}
    refused: list[dict[str, str]] = []
    positives = _readable(search, query.concept, limit, seen, refused)
    names = _related(query, lambda: vocabulary, same, matcher, related) if negatives else ()
    each = -(-negatives // len(names)) if names else 0
    results = [_readable(search, name, each, seen, refused) for name in names]
    others = list(_by_turns(results))[:negatives]
    evidence = {
        "manner": "search",
        "source": search.name,
        "concept": query.concept,
        "related": list(names),
        "limit": limit,
        "positives": [_found(picture, digest) for picture, digest in positives],
        "negatives": [_found(picture, digest) for picture, digest in others],
        "refused": refused[:_REFUSED_SHOWN],
        "refused_count": len(refused),
    }
    pictures = [tuple(picture for picture, _ in part) for part in (positives, others)]
    return Collected(query.concept, pictures[0], pictures[1], evidence)


def related_concepts(
    concept: str,
    vocabulary: Sequence[str],
    matcher: TextSide,
    count: int = RELATED,
    *,
    same: Collection[str] = (),
) -> tuple[str, ...]:
    """Return the labels most similar to a concept that are not the concept, most similar first.

    Not chosen are the concept's other spellings and names, and labels of which one holds all words
    of the other: a ``red cube`` is a cube, and ``cube`` may show a red one.

    Args:
        vocabulary: labels to choose from; of equally similar ones the earlier comes first.
        matcher: whose text similarity decides.
        same: other names of the concept, as synonyms.
    """
    same_names = {spelling for name in (concept, *same) for spelling in spellings(name)}
    other = [
        label
        for label in dict.fromkeys(vocabulary)
        if not same_names.intersection(spellings(label))
        and not any(is_about(label, name) for name in (concept, *same))
    ]
    if not other or count <= 0:
        return ()
    texts = matcher.encode_texts([without_remark(each) or each for each in (concept, *other)])
    likeness = texts[1:] @ texts[0]
    order = sorted(range(len(other)), key=lambda index: (-float(likeness[index]), index))
    return tuple(other[index] for index in order[:count])


def pixels_digest(pixels: Pixels) -> str:
    """Return a checksum of a picture's size and pixels, 32 hexadecimal digits."""
    digest = hashlib.blake2b(repr(pixels.shape).encode(), digest_size=16)
    digest.update(np.ascontiguousarray(pixels).data)
    return digest.hexdigest()


def _related(
    query: ConceptQuery,
    vocabulary: Callable[[], Sequence[str]],
    same: Sequence[str],
    matcher: TextSide | None,
    count: int = RELATED,
) -> tuple[str, ...]:
    if query.related or matcher is None:
        return query.related
    return related_concepts(query.concept, vocabulary(), matcher, count, same=same)


def _readable(
    search: PictureSearch,
    text: str,
    limit: int,
    seen: dict[str, str],
    refused: list[dict[str, str]],
) -> list[tuple[FoundPicture, str]]:
    """Return the first readable pictures that are new, with their checksums.

    Twice as many are asked for where some are refused, once.
    """
    readable: list[tuple[FoundPicture, str]] = []
    looked_at = 0
    for count in (limit, min(2 * limit, MOST_SAMPLES)):
        pictures = search.search(text, count) if count else []
        for picture in pictures[looked_at:]:
            why, digest = _refusal(picture, seen)
            if why:
                refused.append({"picture": picture.picture_id, "text": text, "why": why})
            elif len(readable) < limit:
                seen[digest] = picture.picture_id
                readable.append((picture, digest))
        looked_at = len(pictures)
        if len(readable) >= limit or looked_at < count:
            break
    return readable


def _refusal(picture: FoundPicture, seen: Mapping[str, str]) -> tuple[str, str]:
    """Return why a picture is left out, or "", and its checksum."""
    try:
        digest = pixels_digest(picture.pixels())
    except MediaError as error:
        return str(error), ""
    return (f"the same pixels as {seen[digest]}" if digest in seen else ""), digest


def _by_turns(lists: Sequence[Sequence[Any]]) -> Iterator[Any]:
    """Return the first item of each list, then the second of each, and so on."""
    nothing = object()
    for row in zip_longest(*lists, fillvalue=nothing):
        yield from (each for each in row if each is not nothing)


def _annotated(picture: AnnotatedPicture) -> dict[str, Any]:
    boxes = [list(picture.things[index].box) for index in picture.positives]
    return {"picture": picture.picture_id, "concept": picture.concept, "boxes": boxes}


def _found(picture: FoundPicture, digest: str) -> dict[str, Any]:
    return {
        "picture": picture.picture_id,
        "text": picture.text,
        "pixels": digest,
        "origin": dict(picture.origin),
    }
