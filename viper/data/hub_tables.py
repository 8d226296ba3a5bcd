"""Tables of a model hub's data sets, opened by the ``datasets`` library; pictures stay encoded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viper.data.picture_bytes import decoded
from viper.errors import DataError, MissingExtraError
from viper.tools.roles import Pixels

PREFIX = "hub:"
"""With what the names of the hub's sets begin."""


@dataclass(frozen=True)
class Tables:
    """The tables of one split of a repository."""

    repository: str
    config: str | None
    split: str
    root: Path | None

    def open(self, config: str | None) -> Any:
        """The ``datasets.Dataset`` of a configuration, its pictures left encoded.

        Raises:
            DataError: the hub cannot be reached, or has no such table.
            MissingExtraError: the ``datasets`` library is not installed.
        """
        try:
            import datasets
            from datasets.exceptions import DatasetsError
        except ImportError:
            raise MissingExtraError("datasets", "data", f"{PREFIX}{self.repository}") from None
        saved = None if self.root is None else self.root / self.repository / (config or "")
        try:
            if saved is not None and saved.is_dir():
                table = datasets.load_from_disk(str(saved))
                if isinstance(table, datasets.DatasetDict):
                    table = table[self.split]
            else:
                table = datasets.load_dataset(self.repository, config, split=self.split)
        except (OSError, ValueError, KeyError, RuntimeError, DatasetsError) as error:
            said = str(error).strip().split("\n")[0]
            raise DataError(
                f"{PREFIX}{self.repository}, split {self.split!r}: {type(error).__name__}: {said}; "
                "is the hub reachable? else give --root DIR with a saved copy"
            ) from None
        if "image" in table.column_names:
            return table.cast_column("image", datasets.Image(decode=False))
        return table


@dataclass(frozen=True)
class HubPicture:
    """Gives the picture of a row when called."""

    table: Any
    row: int
    where: str

    def __call__(self) -> Pixels:
        picture = self.table[self.row]["image"]
        data = picture.get("bytes") if isinstance(picture, Mapping) else None
        # A path instead of bytes could name any file of this machine.
        return decoded(data or b"", self.where)
