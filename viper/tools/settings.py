"""Every knob of the tools that a profile may turn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from viper.errors import UnknownNameError, UsageError

THRESHOLD_NAMES = (
    "detector.threshold",
    "matcher.threshold",
    "video.threshold",
    "segmenter.threshold",
    "faces.threshold",
    "image_search.threshold",
)
"""Those that the tools of this package ask the toolbox for."""

FIND_SCOPES = ("whole", "crop")
EXISTS_CHECKS = ("detector", "detector+vqa")


@dataclass(frozen=True)
class ThresholdSchedule:
    """A threshold that self-tuning may move: where it starts, by how much, how far down.

    ``fixed`` is its value where nothing tunes it; None takes ``start``.

    Source: Stanić et al. 2024, sec. 2.4 (start 0.15, default 0.10, on OWLv2).

    Raises:
        UsageError: numbers that no tuning can go by.
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
        """The next value to try, or None at the floor."""
        if value <= self.floor + 1e-9:
            return None
        return round(max(self.floor, value - self.step), 6)


@dataclass(frozen=True)
class ToolSettings:
    """How the toolbox turns model outputs into answers.

    Attributes:
        sensitivities: by name, of :data:`THRESHOLD_NAMES` or of a routine's own; one that is not
            declared is 0.
        find_scope: ``whole`` runs the detector on the whole picture and keeps what lies
            in the patch (one image forward serves every patch); ``crop`` runs it on the crop.
        exists_check: ``detector`` trusts detection; ``detector+vqa`` also asks (ViperGPT's way).
        crop_margin: context shown around a box, as a share of the picture's shorter side.
        attribute_families: words that exclude each other (colours, materials, …);
            ``verify_property`` compares a word against the others of its family.
        cache_entries, cache_mb: what is kept of encodings, and again of results, at most.
        batch: requests of different runs that one forward pass of a model serves at most.

    Raises:
        UnknownNameError: another scope or check.
        UsageError: a number out of range.
    """

    sensitivities: Mapping[str, ThresholdSchedule] = field(default_factory=dict)
    find_scope: str = "whole"
    exists_check: str = "detector"
    crop_margin: float = 0.1
    attribute_families: tuple[tuple[str, ...], ...] = ()
    cache_entries: int = 4096
    cache_mb: int = 256
    batch: int = 32

    def __post_init__(self) -> None:
        for name, value, known in (
            ("find scope", self.find_scope, FIND_SCOPES),
            ("exists check", self.exists_check, EXISTS_CHECKS),
        ):
            if value not in known:
                raise UnknownNameError(name, value, known)
        if not 0 <= self.crop_margin <= 1:
            raise UsageError(f"crop_margin is {self.crop_margin}; expected 0 to 1")
        for name, least in (("cache_entries", 0), ("cache_mb", 0), ("batch", 1)):
            if getattr(self, name) < least:
                raise UsageError(f"{name} is {getattr(self, name)}; expected {least} or more")

    def start_thresholds(self, *, self_tune: bool = True) -> dict[str, float]:
        """The value every sensitivity starts from, or keeps where nothing tunes it."""
        return {
            name: item.start if self_tune or item.fixed is None else item.fixed
            for name, item in self.sensitivities.items()
        }

    def with_thresholds(self, values: Mapping[str, float]) -> ToolSettings:
        """The same with sensitivities that start from these values, and keep them untuned.

        A floor above its value comes down to it.

        Raises:
            UnknownNameError: no sensitivity of that name; lists those there are.
        """
        changed = dict(self.sensitivities)
        for name, value in values.items():
            if name not in changed:
                raise UnknownNameError("threshold", name, changed)
            floor = min(value, changed[name].floor)
            changed[name] = replace(changed[name], start=value, fixed=value, floor=floor)
        return replace(self, sensitivities=changed)
