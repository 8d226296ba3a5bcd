"""Edits of values in a profile's text. Comments and layout stay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit

from viper.profiles.files import write_whole_paths
from viper.schema import to_json
from viper.strategies.confidence import Confidence
from viper.tools.settings import ThresholdSchedule


def with_values(
    path: Path,
    name: str,
    run: Mapping[str, Any] | None = None,
    sensitivities: Mapping[str, ThresholdSchedule] | None = None,
    confidence: Mapping[str, Confidence] | None = None,
) -> str:
    """Return the text of the profile in ``path`` with another name and these values.

    Paths relative to the profile's folder become absolute, because the new profile may be in
    another folder.

    Args:
        run: keys of ``[run]`` with their new values, written without change.
        sensitivities: new values of threshold schedules by name.
        confidence: new calibrations by name; others stay.
    """
    document: Any = tomlkit.parse(path.read_text(encoding="utf-8"))
    document["name"] = name
    write_whole_paths(document, path.parent)
    if run:
        document.setdefault("run", tomlkit.table()).update(run)
    for key, value in (sensitivities or {}).items():
        thresholds = document.setdefault("sensitivities", tomlkit.table())
        _update(thresholds.setdefault(key, tomlkit.inline_table()), value)
    for key, calibration in (confidence or {}).items():
        calibrations = document.setdefault("confidence", tomlkit.table(is_super_table=True))
        calibrations[key] = to_json(calibration)
    return tomlkit.dumps(document)


def _update(table: Any, value: ThresholdSchedule) -> None:
    """Update the numbers that changed and leave the rest of the text as it is."""
    for part in ("start", "step", "floor", "fixed"):
        number = getattr(value, part)
        if number is not None and table.get(part) != number:
            table[part] = number
