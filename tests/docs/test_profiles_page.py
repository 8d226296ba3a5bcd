"""The tables of ``docs/profiles.md``: every key of a profile, with the default that it has."""

from __future__ import annotations

import re
import tomllib
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import pytest

import viper
from tests.docs.settings_table import table
from viper.profiles.document import ProfileDocument
from viper.sandbox import Limits
from viper.tools.settings import THRESHOLD_NAMES, ToolSettings

PAGE = (Path(viper.__file__).parent.parent / "docs" / "profiles.md").read_text(encoding="utf-8")


def default_of(field: Field[Any]) -> Any:
    found = field.default_factory() if field.default_factory is not MISSING else field.default
    return list(found) if isinstance(found, tuple) else found


def documented(section: str) -> dict[str, Any]:
    """Key to default, as the table after the words ``section`` has them; None for none."""
    part = re.search(rf"^{re.escape(section)}[^|]*((?:^\|.*\n)+)", PAGE, re.MULTILINE)
    assert part is not None
    rows = re.findall(r"^\| `(\w+)` \| (`[^`]+`|none) \|", part[1], re.MULTILINE)
    return {
        key: None if cell == "none" else tomllib.loads(f"x = {cell.strip('`')}")["x"]
        for key, cell in rows
    }


@pytest.mark.parametrize(
    ("section", "kind"),
    [("`[tools]`", ToolSettings), ("`[run]` also has", ProfileDocument), ("`[limits]`", Limits)],
)
def test_the_tables_have_every_key_and_its_default(section: str, kind: type) -> None:
    expected = {one.name: default_of(one) for one in fields(kind) if one.name != "sensitivities"}
    if kind is ProfileDocument:
        expected = {
            name: expected[name] for name in ("bank", "preload", "max_memory_gb", "threads")
        }
    assert documented(section) == expected


def test_the_table_of_settings_is_that_of_the_declarations() -> None:
    assert table() in PAGE, "write it anew: python -m tests.docs.settings_table"


def test_the_page_names_every_threshold() -> None:
    assert all(f"`{name}`" in PAGE for name in THRESHOLD_NAMES)
