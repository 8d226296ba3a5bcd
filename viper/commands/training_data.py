"""Options that name sources of training pictures, for `viper learn` and the reproduction."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from viper.commands import options as cli

if TYPE_CHECKING:
    from viper.tuning.wiring import Data


def _default_data() -> str:
    from viper.tuning.wiring import default_data

    return default_data()


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """Training pictures: ``--annotated --annotated-root --pictures --positives``."""

    # fmt: off
    annotated: str = cli.option("--annotated", metavar="world|lvis|FILE.json|none",
        default=_default_data, show_default="world", section="Training images",
        help="Source of boxes and masks of concepts, for loc and seg: the embedded world, LVIS, or "
             "a file in COCO's form.")
    annotated_root: Path | None = cli.option("--annotated-root", metavar="DIR",
        section="Training images", help="Folder that holds the official files of LVIS, or the "
        "pictures of FILE.json; by default images beside it, else its own folder.")
    pictures: str = cli.option("--pictures", metavar="world|none|DIR|FILE.toml",
        default=_default_data, show_default="world", section="Training images",
        help="Source of images of concepts, for match and replace: the embedded world, a folder, "
             "or a web search that FILE.toml describes.")
    positives: int = cli.option("--positives", type=click.IntRange(2), metavar="N", default=7,
        section="Training images",
        help="Maximum number of images of a concept; loc takes up to 200, seg 50, the others 7.")
    # fmt: on

    def data(self, seed: int = 0) -> Data:
        """Return the sources that the options name."""
        from viper.tuning.wiring import Data

        root = self.annotated_root
        return Data(self.annotated, root, self.pictures, self.positives, seed)
