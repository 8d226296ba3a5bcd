"""The domain of a profile: the words that its models know, and what their pictures look like.

A model answers every question about every picture, also where it can only guess. A profile that
declares its domain lets a run say so: :meth:`Domain.unknown_words` compares the query's words with
a list, and :meth:`Domain.distance` compares thumbnails with a :class:`Look` that was fitted to
pictures of the domain.
"""

from __future__ import annotations

import re
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from viper.errors import UsageError
from viper.models.libraries import cv2
from viper.models.media import Media
from viper.models.vision.roles import Floats, Pixels
from viper.models.vision.vocabulary import Vocabulary

# Side of the thumbnail that is measured, and of the cells in it, in pixels: 64 cells show where a
# table and its objects are and forget which objects. Other sides make stored looks unreadable.
SIDE, CELL = 64, 8

# Far fewer than the 256 features, so that a foreign picture leaves the subspace.
COMPONENTS = 30
# Share of held-out pictures of the domain that lie within the limit, for each of two distances: one
# warning for 100 to 200 pictures of the domain is the price of noticing foreign ones.
KEPT_QUANTILE = 0.995

# Features that hardly vary in the domain (an empty corner) would otherwise decide alone.
LEAST_DEVIATION = 0.02
# Number of frames of a video that are measured: first, middle and last. A clip keeps its scene, and
# each frame costs a measurement.
FRAMES = 3

# Words with an apostrophe, whose base is looked up (``cube's``).
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")


# What numpy and the zip reader raise about a damaged file.
_READ_ERRORS = (
    *(OSError, ValueError, LookupError, EOFError, TypeError, OverflowError, SyntaxError),
    *(MemoryError, RuntimeError, zipfile.BadZipFile, zlib.error, tokenize.TokenError),
)


@dataclass(frozen=True, eq=False)
class Look:
    """Distribution of the pictures of a domain, measured on thumbnails.

    A thumbnail of 64 x 64 pixels is described by the mean color and the deviation of the gray
    values of each of its 8 x 8 cells: 256 numbers. Two distances count: that within the principal
    components of the domain's pictures, in their deviations (Mahalanobis), and that from the
    components' subspace. No model is needed, and a picture takes a millisecond or two.

    Attributes:
        mean, scale: float32 ``[256]``.
        components: float32 ``[K, 256]``, orthonormal.
        deviations: float32 ``[K]``, those of the domain's pictures along the components.
        limits: float32 ``[2]``, the largest usual distances.
    """

    mean: Floats
    scale: Floats
    components: Floats
    deviations: Floats
    limits: Floats

    @classmethod
    def fit(cls, pictures: Iterable[Pixels], held_out: Iterable[Pixels]) -> Look:
        """Return the look of pictures ``uint8 [H, W, 3]``; the held-out ones set the limits."""
        rows = np.stack([_features(picture) for picture in pictures])
        mean, scale = rows.mean(0), rows.std(0) + LEAST_DEVIATION
        _, lengths, directions = np.linalg.svd((rows - mean) / scale, full_matrices=False)
        parts = (directions[:COMPONENTS], lengths[:COMPONENTS] / np.sqrt(len(rows)))
        arrays = (array.astype(np.float32) for array in (mean, scale, *parts, np.ones(2)))
        unlimited = cls(*arrays)
        distances = np.stack([unlimited._distances(_features(picture)) for picture in held_out])
        limits = np.quantile(distances, KEPT_QUANTILE, axis=0).astype(np.float32)
        return replace(unlimited, limits=limits)

    @classmethod
    def read(cls, path: Path) -> Look:
        """Read a look that :meth:`write` wrote.

        Raises:
            UsageError: the file is missing or holds something else.
        """
        try:
            with np.load(path, allow_pickle=False) as arrays:
                look = cls(
                    **{each.name: arrays[each.name].astype(np.float32) for each in fields(cls)}
                )
        except _READ_ERRORS as error:
            raise UsageError(f"{path}: no look of a domain: {error}") from None
        size = 4 * (SIDE // CELL) ** 2
        count = len(look.deviations) if look.deviations.ndim == 1 else -1
        shapes = ((size,), (size,), (count, size), (count,), (2,))
        for each, shape in zip(fields(cls), shapes, strict=True):
            if getattr(look, each.name).shape != shape:
                raise UsageError(f"{path}: no look of a domain: {each.name} has another shape")
        return look

    def write(self, path: Path) -> None:
        """Write the arrays to an ``.npz`` file."""
        np.savez_compressed(path, **vars(self))

    def distance(self, pixels: Pixels) -> float:
        """Return how unlike a picture ``uint8 [H, W, 3]`` is; more than 1 is unlike the domain.

        So is one whose shorter side is below half that of the thumbnail: nothing can be told in it.
        """
        small = SIDE / 2 / min(pixels.shape[:2])
        return max(small, float((self._distances(_features(pixels)) / self.limits).max()))

    def _distances(self, row: Floats) -> Floats:
        centred = (row - self.mean) / self.scale
        along = self.components @ centred
        outside = centred - self.components.T @ along
        within = np.square(along / self.deviations).mean()
        return np.array([within, np.square(outside).sum()], np.float32)


def _features(pixels: Pixels) -> Floats:
    """Return the 256 numbers that describe a picture."""
    small = cv2.resize(np.ascontiguousarray(pixels), (SIDE, SIDE), interpolation=cv2.INTER_AREA)
    cells = (small.astype(np.float32) / 255).reshape(SIDE // CELL, CELL, SIDE // CELL, CELL, 3)
    colors, roughness = cells.mean((1, 3)), cells.mean(4).std((1, 3))
    return np.concatenate([colors.reshape(-1), roughness.reshape(-1)])


@dataclass(frozen=True)
class Domain:
    """What the models of a profile know.

    Attributes:
        about: the pictures in words, such as ``simple solids on a table``.
        words_file: text file of known words, separated by white space; ``#`` starts a comment.
            Their inflections are known as well; ``!doing`` excludes one.
        look_file: file of a :class:`Look`.
        instead: what somebody with other pictures can do.
        withhold: commands for people withhold an answer about a picture that is unlike the domain.
        withhold_words: they withhold the answer to a query with unknown words.
        vocabulary: categories of a detector, whose words are known where they stand together: of
            ``fire hydrant``, ``fire`` alone is unknown.
        roles: domains of the language models that know something else than the other models.
    """

    about: str
    words_file: Path | None = None
    look_file: Path | None = None
    instead: str = ""
    withhold: bool = False
    withhold_words: bool = False
    vocabulary: Vocabulary | None = None
    roles: Mapping[str, Domain] = field(default_factory=dict)

    def check(self) -> None:
        """Read the files.

        Raises:
            UsageError: a file is missing or cannot be used.
        """
        _ = self._stems, self._look
        for domain in self.roles.values():
            domain.check()

    def unknown_words(self, text: str, known: Callable[[str], bool]) -> tuple[str, ...]:
        """Return the words of a text that the models do not know, in order; inflections are known.

        Args:
            known: returns True for further words that they know.
        """
        if not self._stems:
            return ()
        words, unknown = _WORD.findall(text.lower().replace("’", "'")), dict[str, None]()
        while words:
            nouns = [word.removesuffix("'s") for word in words]
            count = self.vocabulary.starting(nouns) if self.vocabulary else 0
            if not count:
                base = words[0].partition("'")[0]
                is_known = _stem(base) in self._stems and f"!{words[0]}" not in self._words
                if len(base) > 1 and not is_known and not known(base):
                    unknown[words[0]] = None
            words = words[count or 1 :]
        return tuple(unknown)

    def distance(self, media: Media) -> float:
        """Return how unlike the domain the most unlike picture of a query is; above 1 it is unlike.

        Of a video a few frames are measured, of which the nearest counts.
        """
        if self._look is None:
            return 0.0
        if media.video is None:
            return max(self._look.distance(picture) for picture in media.images)
        places = np.linspace(0, len(media.video) - 1, FRAMES).astype(int)
        return min(self._look.distance(media.video[place]) for place in places)

    @cached_property
    def _look(self) -> Look | None:
        return None if self.look_file is None else Look.read(self.look_file)

    @cached_property
    def _stems(self) -> frozenset[str]:
        return frozenset(map(_stem, self._words))

    @cached_property
    def _words(self) -> frozenset[str]:
        if self.words_file is None:
            return frozenset()
        try:
            lines = self.words_file.read_text(encoding="utf-8").lower().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{self.words_file}: no list of words: {error}") from None
        return frozenset(word for line in lines for word in line.partition("#")[0].split())


def _stem(word: str) -> str:
    import Stemmer

    return str(Stemmer.Stemmer("english").stemWord(word))
