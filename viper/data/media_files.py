"""The media of a sample as files, read when the sample is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class MediaFiles:
    """Gives the paths of a sample's media when called; can be pickled."""

    root: Path
    names: tuple[str, ...]

    def __call__(self) -> list[Path]:
        return [self.root / name for name in self.names]


def first_there(root: Path, names: Sequence[str]) -> str:
    """The first of several names, in order of preference, that exists under root; else names[0]."""
    return next((name for name in names if (root / name).exists()), names[0])
