"""The data, the profile and the amount of ``viper lab reproduce photographs``, and what parts give.

A part is a function that takes a :class:`PhotographJob` and returns :class:`Measured`; the command
runs :data:`viper_lab.photographs.study.PARTS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import tomlkit

from viper.embedded import MEDIA
from viper.errors import UsageError
from viper.models.media import read_picture
from viper.models.vision.detector_onnx import open_session
from viper.models.vision.onnx_proposal import proposed
from viper.profiles.wiring import Profile, load_profile
from viper.schema import to_json
from viper.storage.files import write_file
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

    def profile(self) -> Profile:
        """Return the calibration if there is one, else photo-lite, with the detector of the data.

        Its layout is proposed as by ``viper setup model``, and stands beside a link to the file in
        ``out/models``, because the folder of the data may be read-only.

        Raises:
            UsageError: as :meth:`detector`.
            OnnxError: the file is no detector of a known family.
        """
        file = self.detector().resolve()
        link = self.out / "models" / file.name
        if not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(file)
            layout = proposed(open_session(link), read_picture(MEDIA / "table.png"))
            write_file(link.with_suffix(".toml"), tomlkit.dumps(to_json(layout)))
        profile = load_profile(str(self.calibration or "photo-lite"))
        detector = replace(profile.document.roles["detector"], model=str(link.absolute()))
        roles = {**profile.document.roles, "detector": detector}
        return replace(profile, document=replace(profile.document, roles=roles))
