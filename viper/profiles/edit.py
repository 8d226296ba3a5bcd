"""A profile's text with some values changed; comments and layout stay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit

from viper.tools.settings import Sensitivity


def with_values(
    path: Path,
    name: str,
    temperature: float | None,
    sensitivities: Mapping[str, Sensitivity],
    bank: str | None = None,
) -> str:
    """The text of the profile in ``path`` under another name and with these values.

    Args:
        temperature: of the first program; None keeps it.
        sensitivities: replace those of the same name.
        bank: replaces the profile's. Paths are written whole, since the new profile may lie
            in another folder.
    """
    document: Any = tomlkit.parse(path.read_text(encoding="utf-8"))
    document["name"] = name
    if temperature is not None:
        document.setdefault("run", tomlkit.table())["temperature"] = temperature
    for key, value in sensitivities.items():
        table = tomlkit.inline_table()
        table.update(
            {part: getattr(value, part) for part in ("start", "step", "floor", "fixed")
             if getattr(value, part) is not None}
        )  # fmt: skip
        document["sensitivities"][key] = table
    run = document.get("run", {})
    named = bank or run.get("bank")
    if named is not None and not str(named).startswith("embedded:"):
        base = Path() if bank else path.parent
        run["bank"] = str((base / str(named)).resolve())
    return tomlkit.dumps(document)
