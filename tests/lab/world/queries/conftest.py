"""Samples that several tests look at, drawn once."""

from __future__ import annotations

import pytest

from viper_lab.world.queries.generate import generate
from viper_lab.world.queries.sample import WorldSample

SMALL = {"referring": 26, "question": 30, "video": 30}


@pytest.fixture(scope="session")
def drawn() -> dict[str, list[WorldSample]]:
    """Some test samples of every family."""
    return {family: generate(family, "test", 11, count) for family, count in SMALL.items()}
