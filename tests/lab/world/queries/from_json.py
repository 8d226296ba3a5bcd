"""Reads queries back from the JSON that ``viper lab world questions --json`` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from viper_lab.world.queries.meaning import Meaning
from viper_lab.world.queries.sample import WorldSample


def meaning_from_json(record: Mapping[str, Any]) -> Meaning:
    """Build a meaning from the result of :meth:`Meaning.to_json`."""
    slots = {
        name: meaning_from_json(value) if isinstance(value, Mapping) else value
        for name, value in record.items()
        if name != "type"
    }
    return Meaning(str(record["type"]), slots)


def sample_from_json(record: Mapping[str, Any]) -> WorldSample:
    """Build a sample from the result of :meth:`WorldSample.to_json`."""
    values = {name: value for name, value in record.items() if name != "task"}
    values["meaning"] = meaning_from_json(record["meaning"])
    values["options"] = tuple(record["options"])
    values["box"] = None if record["box"] is None else tuple(record["box"])
    return WorldSample(**values)
