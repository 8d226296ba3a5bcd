"""The tables of ``docs/profiles.md``: every key of a profile, with the default that it has."""

from __future__ import annotations

import re
import tomllib
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import pytest

import viper
from viper.profiles.document import ProfileDocument
from viper.sandbox import Limits
from viper.strategies.base import RunSettings
from viper.tools.settings import SENSITIVITIES, ToolSettings

PAGE = (Path(viper.__file__).parent.parent / "docs" / "profiles.md").read_text(encoding="utf-8")

OF_THE_DOCUMENT = ("bank", "preload", "max_memory_gb")
"""Keys of ``[run]`` that are none of its settings."""


def default_of(field: Field[Any]) -> Any:
    found = field.default_factory() if field.default_factory is not MISSING else field.default
    return list(found) if isinstance(found, tuple) else found


def documented(section: str) -> dict[str, Any]:
    """Key to default, as the table after ``[section]`` has them; None for none."""
    part = re.search(rf"^`\[{section}\]`[^|]*((?:^\|.*\n)+)", PAGE, re.MULTILINE)
    assert part is not None
    rows = re.findall(r"^\| `(\w+)` \| (`[^`]+`|none) \|", part[1], re.MULTILINE)
    return {
        key: None if cell == "none" else tomllib.loads(f"x = {cell.strip('`')}")["x"]
        for key, cell in rows
    }


@pytest.mark.parametrize(
    ("section", "kind", "left_out", "more"),
    [
        ("tools", ToolSettings, ("sensitivities",), ()),
        ("run", RunSettings, (), OF_THE_DOCUMENT),
        ("limits", Limits, (), ()),
    ],
)
def test_the_tables_have_every_key_and_its_default(
    section: str, kind: type, left_out: tuple[str, ...], more: tuple[str, ...]
) -> None:
    expected = {one.name: default_of(one) for one in fields(kind) if one.name not in left_out}
    expected |= {one.name: default_of(one) for one in fields(ProfileDocument) if one.name in more}
    assert documented(section) == expected


def test_the_page_names_every_threshold() -> None:
    assert all(f"`{name}`" in PAGE for name in SENSITIVITIES)
