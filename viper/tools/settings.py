"""Settings of the tools that a profile may change.

Self-tuning walks a :class:`ThresholdSchedule` down. :meth:`ToolSettings.in_models_words` is what
tools do first with the words of a program: synonyms, plurals and small typing errors become words
that the models know.
"""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from viper.errors import UnknownNameError, UsageError
from viper.tools.crops import CROP_SHAPES

# Thresholds that the tools of this package use.
THRESHOLD_NAMES = (
    "detector.threshold",
    "matcher.threshold",
    "video.threshold",
    "segmenter.threshold",
    "faces.threshold",
    "image_search.threshold",
    "like.threshold",
    "tracker.threshold",
)

# Values in a profile that declares none; those of others are 0. The first has the best F1 on the
# smears that :mod:`viper.tools.alike` names, the second is ByteTrack's own.
DEFAULT_THRESHOLDS = {"like.threshold": 0.4, "tracker.threshold": 0.2}

# Routines that compare depths if a profile has calibrated their ratio.
DEPTH_ROUTINES = ("is_on", "is_next_to")

FIND_SCOPES = ("whole", "crop")
FIND_CHECKS = ("detector", "detector+matcher")
EXISTS_CHECKS = ("detector", "detector+vqa")

# Letters of the shortest word that is read as a typing error, and its likeness to the right one (1:
# the same). Shorter or less like words are more often other words (``cap`` is no ``cup``).
LEAST_TYPO, TYPO_LIKENESS = 4, 0.8

_WORD = re.compile(r"[A-Za-z]+")


@lru_cache(maxsize=4096)
def _corrected(word: str, known: tuple[str, ...]) -> str:
    """Return the known word that ``word`` mistypes, or "".

    A typing error swaps letters, leaves one out or adds one, but not the first. Another letter in
    the place of one makes another word: ``black`` is no ``block``.
    """
    if len(word) < LEAST_TYPO:
        return ""
    letters = Counter(word)
    alike = [
        each
        for each in known
        if each[0] == word[0]
        and (letters - Counter(each)).total() + (Counter(each) - letters).total() <= 1
    ]
    return next(iter(difflib.get_close_matches(word, alike, 1, cutoff=TYPO_LIKENESS)), "")


@dataclass(frozen=True)
class ThresholdSchedule:
    """Start, step and lower limit of a threshold that self-tuning may lower.

    ``fixed`` is the value without self-tuning; None means ``start``.

    Source: Stanić et al. 2024, sec. 2.4 (start 0.15, default 0.10, on OWLv2).

    Raises:
        UsageError: numbers that make no schedule.
    """

    start: float
    step: float
    floor: float
    fixed: float | None = None

    def __post_init__(self) -> None:
        if not self.floor <= self.start or self.step <= 0:
            raise UsageError("expected floor <= start and step > 0")
        if self.fixed is not None and not self.floor <= self.fixed:
            raise UsageError("expected floor <= fixed")
        if not all(map(math.isfinite, (self.start, self.step, self.floor, self.fixed or 0))):
            raise UsageError("expected finite numbers")

    def lower(self, value: float) -> float | None:
        """Return the next value to try, or None at the floor."""
        if value <= self.floor + 1e-9:
            return None
        return round(max(self.floor, value - self.step), 6)


@dataclass(frozen=True)
class ToolSettings:
    """Settings of how the toolbox turns model outputs into answers.

    Attributes:
        sensitivities: threshold schedules by name, from :data:`THRESHOLD_NAMES` or of a routine. An
            undeclared threshold is 0.
        find_scope: ``whole`` runs the detector on the whole picture and keeps boxes inside the
            patch (one image forward serves every patch); ``crop`` runs it on the crop.
        find_check: ``detector`` trusts detection; with ``detector+matcher`` the score of a box is
            the geometric mean of the detector's and the matcher's, which compares the name with
            those that differ in one word of ``attribute_families``; a name without such a word
            keeps the detector's score.
        exists_check: ``detector`` trusts detection; ``detector+vqa`` also asks (ViperGPT's way).
        crop_margin: context shown around a box, as a share of the picture's shorter side.
        crop_shape: what models see of a box: ``box``, its pixels; ``square``, a square of the
            picture around it; ``padded``, its pixels in a gray square.
        depth_ratios: routine -> greatest ratio of the depths of two patches, calibrated on the
            profile's pictures; a routine without one does not compare depths.
        attribute_families: words that exclude each other (colours, materials, …);
            ``verify_property`` compares a word against the others of its family.
        nouns: names of things that a detector without categories knows; ``viper fit`` counts them,
            each also with the other words of the families before it.
        synonyms: word of the models -> other words for it. Tools replace these, plurals and small
            typing errors of them by the models' word; a name with an unknown word stays as it is.
        cache_entries, cache_mb: limits of the cache of encodings, and again of results.
        batch: maximum number of requests of different runs in one forward pass of a model.

    Raises:
        UnknownNameError: an unknown scope or check.
        UsageError: a number out of range.
    """

    sensitivities: Mapping[str, ThresholdSchedule] = field(default_factory=dict)
    find_scope: str = "whole"
    find_check: str = "detector"
    exists_check: str = "detector"
    crop_margin: float = 0.0
    crop_shape: str = "box"
    depth_ratios: Mapping[str, float] = field(default_factory=dict)
    attribute_families: tuple[tuple[str, ...], ...] = ()
    nouns: tuple[str, ...] = ()
    synonyms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cache_entries: int = 4096
    cache_mb: int = 256
    batch: int = 32

    def __post_init__(self) -> None:
        if self.find_scope not in FIND_SCOPES:
            raise UnknownNameError("find scope", self.find_scope, FIND_SCOPES)
        if self.find_check not in FIND_CHECKS:
            raise UnknownNameError("find check", self.find_check, FIND_CHECKS)
        if self.exists_check not in EXISTS_CHECKS:
            raise UnknownNameError("exists check", self.exists_check, EXISTS_CHECKS)
        if self.crop_shape not in CROP_SHAPES:
            raise UnknownNameError("crop shape", self.crop_shape, CROP_SHAPES)
        if not 0 <= self.crop_margin <= 1:
            raise UsageError(f"crop_margin is {self.crop_margin}; expected 0 to 1")
        for name, ratio in self.depth_ratios.items():
            if name not in DEPTH_ROUTINES:
                raise UnknownNameError("routine with a depth ratio", name, DEPTH_ROUTINES)
            if not 1 <= ratio < math.inf:
                raise UsageError(f"depth_ratios.{name} is {ratio}; expected 1 or more")
        for name, least in (("cache_entries", 0), ("cache_mb", 0), ("batch", 1)):
            if getattr(self, name) < least:
                raise UsageError(f"{name} is {getattr(self, name)}; expected {least} or more")

    @cached_property
    def _models_words(self) -> Mapping[str, str]:
        """Every word of ``synonyms`` and ``attribute_families`` -> the models' word for it."""
        own = [word for family in self.attribute_families for word in family]
        words = {word: word for word in (*own, *self.synonyms)}
        return {**{w: own for own, others in self.synonyms.items() for w in others}, **words}

    def in_models_words(self, text: str) -> str:
        """Return a text with every synonym replaced by the word that the models know."""
        if not self.synonyms:
            return text
        return _WORD.sub(lambda match: self._models_word(match.group()), text)

    def knows(self, word: str) -> bool:
        """Return True if a word is one of the models' words or a synonym of one."""
        return word in self._models_words or self._models_word(word) != word

    def _models_word(self, word: str) -> str:
        known, lower = self._models_words, word.lower()
        for stem in (lower, lower.removesuffix("s"), lower.removesuffix("es")):
            if stem in known:
                return known[stem]
        return known.get(_corrected(lower, tuple(known)), word)

    def alike(self, name: str) -> list[str]:
        """Return a name, and the names that differ from it in one word of a family."""
        words, names = name.split(), [name]
        for place, word in enumerate(words):
            for family in self.attribute_families:
                if word.lower() in family:
                    others = (other for other in family if other != word.lower())
                    names += (" ".join((*words[:place], o, *words[place + 1 :])) for o in others)
        return names

    def start_thresholds(self, *, self_tune: bool = True) -> dict[str, float]:
        """Return the value that every threshold starts from, or its fixed value without
        self-tuning.
        """
        return {
            name: schedule.start if self_tune or schedule.fixed is None else schedule.fixed
            for name, schedule in self.sensitivities.items()
        }

    def with_thresholds(self, values: Mapping[str, float]) -> ToolSettings:
        """Return settings whose thresholds start from these values and keep them without
        self-tuning.

        A floor above its value is lowered to it.

        Raises:
            UnknownNameError: no threshold of that name; the message lists the known ones.
        """
        changed = dict(self.sensitivities)
        for name, value in values.items():
            if name not in changed:
                raise UnknownNameError("threshold", name, changed)
            floor = min(value, changed[name].floor)
            changed[name] = replace(changed[name], start=value, fixed=value, floor=floor)
        return replace(self, sensitivities=changed)
