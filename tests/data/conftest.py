from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import viper
from viper.data.registry import data_set
from viper.data.sample import DatasetSpec, Sample
from viper.errors import DataError

PUBLIC = Path(viper.__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture
def public() -> Callable[[str], Path]:
    """The folder of a public set's real files, which lie beside the checkout on some machines."""

    def folder(name: str) -> Path:
        if not (PUBLIC / name).is_dir():
            pytest.skip(f"the public files of {name} are not beside this checkout")
        return PUBLIC / name

    return folder


@pytest.fixture
def read() -> Callable[..., list[Sample]]:
    """The samples of a set by name."""

    def samples(name: str, root: Path | None, split: str | None = None) -> list[Sample]:
        return list(data_set(name).samples(DatasetSpec(root, split)))

    return samples


@pytest.fixture
def refused(read: Callable[..., list[Sample]]) -> Callable[..., str]:
    """The one line that a broken set gets; it names the file."""

    def line(name: str, root: Path, split: str | None = None) -> str:
        with pytest.raises(DataError) as raised:
            read(name, root, split)
        said = str(raised.value)
        assert "\n" not in said and len(said) < 600 and str(root) in said
        return said

    return line
