"""Demonstrations for the tests of pools."""

from __future__ import annotations

from typing import Any

from viper.schema import Example
from viper.strategies.demonstration_pool import PoolExample, pool_example

BASE: dict[str, Any] = {
    "query": "the leftmost cube",
    "program": "def execute_command(image):\n    return None",
    "task": "ground",
    "api": "abstract",
    "score": 1.0,
    "sample_id": "train-1",
    "seed": 0,
    "llm": "writer@1",
    "api_hash": "abc",
    "plan": "1. Find the cubes.\n2. Take the leftmost.",
    "part": "program",
}


def an_example(**changes: Any) -> Example:
    return Example(**{**BASE, **changes})


def demonstrated(validated_on: str = "", **changes: Any) -> PoolExample:
    return pool_example(an_example(**changes), validated_on)
