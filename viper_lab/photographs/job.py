"""The data, the profile and the amount of ``viper lab reproduce photographs``, and what parts give.

A part is a function that takes a :class:`PhotographJob` and returns :class:`Measured`; the command
runs :data:`viper_lab.photographs.study.PARTS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from viper.errors import UsageError
from viper_lab.papers.result import Claim, Gain, TableCell

# Folders below DIR, each with ``instances.json`` and ``images/``: calibrated on the first.
DEVELOPMENT, ELSEWHERE = "photos/coco128", "photos/tiny_coco"


@dataclass(frozen=True)
class Measured:
    """The rows, gains and claims of a part."""

    rows: Sequence[TableCell] = ()
    gains: Sequence[Gain] = ()
    claims: Sequence[Claim] = ()


@dataclass(frozen=True)
class PhotographJob:
    """What a part is given.

    Attributes:
        data: folder with ``photos/``, ``bccd/``, ``receipts/`` and ``models/``.
        out: folder for what is learned, answers and reports; every part has one of its name there.
        calibration: profile that an earlier run wrote to ``out/calibration.toml``; nothing is
            fitted then, and all pictures are judged.
    """

    data: Path
    out: Path
    quick: bool = False
    calibration: Path | None = field(default=None)

    def folder(self, name: str) -> Path:
        """Return a folder of the data.

        Raises:
            UsageError: it is missing.
        """
        path = self.data / name
        if not path.is_dir():
            raise UsageError(
                f"--data {self.data}: no folder {name}; expected photos/, bccd/, receipts/, models/"
            )
        return path

    def detector(self) -> Path:
        """Return the one ``.onnx`` file of ``models/``.

        Raises:
            UsageError: there is none, or more than one.
        """
        files = sorted(self.folder("models").glob("*.onnx"))
        if len(files) != 1:
            raise UsageError(f"{self.data / 'models'}: {len(files)} .onnx files; expected one")
        return files[0]
