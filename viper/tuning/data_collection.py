"""Collects a concept's data from a store or a search, and records the origin of every picture.

`collect_annotated` asks a store, `collect_pictures` a search; both choose related concepts as
negatives (`related_concepts`) and write the evidence.

All sizes are bounded. Equal requests give equal data if the source does: stores draw by the seed.
The evidence says why a picture was left out.

Source: CLOVA (Gao et al. 2024), supplement, sec. 8, for related concepts, which the tool must not
confuse with the learned one. Differs: there a language model names them freely. Here they are the
labels of the data's own vocabulary that the matcher's text encoder finds most similar. So there are
pictures of them, and the choice is repeatable and needs no language model. A search without an
annotated store has no vocabulary; its labels are the 80 objects of COCO, which any search finds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Protocol

import numpy as np

from viper.errors import MediaError
from viper.models.vision.roles import Floats
from viper.tuning import training_data
from viper.tuning.training_data import is_about, spellings, without_remark

# Number of related concepts to choose: as many as positives (`POSITIVES`), so that each gives one
# negative.
RELATED = 7

# Most left-out pictures that the evidence names; a web search may refuse hundreds.
_REFUSED_SHOWN = 20


class TextSide(Protocol):
    """The text encoder of a :class:`~viper.models.vision.roles.Matcher`."""

    def encode_texts(self, texts: Sequence[str]) -> Floats:
        """Return L2-normalised embeddings ``[M, D]``."""


def collect_annotated(
    query: training_data.ConceptQuery,
    store: training_data.AnnotatedStore,
    *,
    limit: int = training_data.LOC_SAMPLES,
    negatives: int = 0,
    matcher: TextSide | None = None,
    seed: int = 0,
) -> training_data.Collected[training_data.AnnotatedPicture]:
    """Collect pictures of a concept with all their boxes. No pixels are read.

    Args:
        limit: most positives, :data:`LOC_SAMPLES` or :data:`SEG_SAMPLES`.
        negatives: most pictures of related concepts in which the concept is known to be absent.
        matcher: chooses related concepts from the vocabulary if the query names none. Without a
            matcher there are no negatives in that case.

    Returns:
        The pictures; no positives if the store does not know the concept or has no picture of it.

    Raises:
        UsageError: a limit is out of range, or the name may mean several concepts of the store.
        DataError: the store's files are missing or broken.
    """
    training_data.checked_limit(limit)
    training_data.checked_limit(negatives, least=0)
    positives = store.samples(query.concept, limit, seed=seed)
    names = store.names_of(query.concept)
    related = _related(query, store.vocabulary, names, matcher) if negatives and names else ()
    ids = {picture.picture_id for picture in positives}
    candidates = [store.samples(name, negatives, seed=seed) for name in related]
    others: list[training_data.AnnotatedPicture] = []
    for picture in _by_turns(candidates):
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
        "positives": [_annotated_record(picture) for picture in positives],
        "negatives": [_annotated_record(picture) for picture in others],
    }
    return training_data.Collected(query.concept, tuple(positives), tuple(others), evidence)


def collect_pictures(
    query: training_data.ConceptQuery,
    search: training_data.PictureSearch,
    *,
    limit: int = training_data.POSITIVES,
    negatives: int = training_data.POSITIVES,
    vocabulary: Sequence[str] = (),
    same: Sequence[str] = (),
    matcher: TextSide | None = None,
    related: int = RELATED,
) -> training_data.Collected[training_data.FoundPicture]:
    """Collect readable, distinct pictures of a concept and of related ones.

    Each picture is read once, and its checksum is stored in the evidence.

    Args:
        limit: most positives.
        negatives: most pictures of related concepts, taken from the concepts in turn.
        vocabulary: labels from which related concepts are chosen if the query names none.
        same: other names of the concept.
        matcher: chooses the related concepts.
        related: most related concepts.

    Raises:
        UsageError: a limit is out of range.
        ModelError: the search failed, for example because a service does not answer.
    """
    training_data.checked_limit(limit)
    training_data.checked_limit(negatives, least=0)
    seen: dict[str, str] = {}
    refused: list[dict[str, str]] = []
    positives = _readable(search, query.concept, limit, seen, refused)
    names = _related(query, lambda: vocabulary, same, matcher, related) if negatives else ()
    per_name = -(-negatives // len(names)) if names else 0
    results = [_readable(search, name, per_name, seen, refused) for name in names]
    others = list(_by_turns(results))[:negatives]
    evidence = {
        "manner": "search",
        "source": search.name,
        "concept": query.concept,
        "related": list(names),
        "limit": limit,
        "positives": [_found_record(picture, digest) for picture, digest in positives],
        "negatives": [_found_record(picture, digest) for picture, digest in others],
        "refused": refused[:_REFUSED_SHOWN],
        "refused_count": len(refused),
    }
    pictures = [tuple(picture for picture, _ in part) for part in (positives, others)]
    return training_data.Collected(query.concept, pictures[0], pictures[1], evidence)


def related_concepts(
    concept: str,
    vocabulary: Sequence[str],
    matcher: TextSide,
    count: int = RELATED,
    *,
    same: Collection[str] = (),
) -> tuple[str, ...]:
    """Return the labels most similar to a concept that are not the concept, most similar first.

    Other spellings and names of the concept are left out. So are labels that contain all words of
    the concept, or the reverse: a ``red cube`` is a cube, and ``cube`` may show a red one.

    Args:
        vocabulary: labels to choose from; ties keep this order.
        matcher: its text similarity decides.
        same: other names of the concept, such as synonyms.
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
    texts = matcher.encode_texts([without_remark(name) or name for name in (concept, *other)])
    likeness = texts[1:] @ texts[0]
    order = sorted(range(len(other)), key=lambda index: (-float(likeness[index]), index))
    return tuple(other[index] for index in order[:count])


def _related(
    query: training_data.ConceptQuery,
    vocabulary: Callable[[], Sequence[str]],
    same: Sequence[str],
    matcher: TextSide | None,
    count: int = RELATED,
) -> tuple[str, ...]:
    if query.related or matcher is None:
        return query.related
    return related_concepts(query.concept, vocabulary(), matcher, count, same=same)


def _readable(
    search: training_data.PictureSearch,
    text: str,
    limit: int,
    seen: dict[str, str],
    refused: list[dict[str, str]],
) -> list[tuple[training_data.FoundPicture, str]]:
    """Return the first new and readable pictures with checksums of their size and pixels.

    If some are refused, search once more with twice the limit.
    """
    readable: list[tuple[training_data.FoundPicture, str]] = []
    checked = 0
    for count in (limit, min(2 * limit, training_data.MOST_SAMPLES)):
        pictures = search.search(text, count) if count else []
        for picture in pictures[checked:]:
            why, digest = "", ""
            try:
                pixels = np.ascontiguousarray(picture.pixels())
                checksum = hashlib.blake2b(repr(pixels.shape).encode(), digest_size=16)
                checksum.update(pixels.data)  # not a copy: a picture may take 300 MB
                digest = checksum.hexdigest()
                why = f"the same pixels as {seen[digest]}" if digest in seen else ""
            except MediaError as error:
                why = str(error)
            if why:
                refused.append({"picture": picture.picture_id, "text": text, "why": why})
            elif len(readable) < limit:
                seen[digest] = picture.picture_id
                readable.append((picture, digest))
        checked = len(pictures)
        if len(readable) >= limit or checked < count:
            break
    return readable


def _by_turns(lists: Sequence[Sequence[Any]]) -> Iterator[Any]:
    """Yield the first item of each list, then the second of each, and so on."""
    return (item for turn in zip_longest(*lists) for item in turn if item is not None)


def _annotated_record(picture: training_data.AnnotatedPicture) -> dict[str, Any]:
    boxes = [list(picture.things[index].box) for index in picture.positives]
    return {"picture": picture.picture_id, "concept": picture.concept, "boxes": boxes}


def _found_record(picture: training_data.FoundPicture, digest: str) -> dict[str, Any]:
    return {
        "picture": picture.picture_id,
        "text": picture.text,
        "pixels": digest,
        "origin": dict(picture.origin),
    }
