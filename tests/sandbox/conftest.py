"""Warm sandboxes that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.sandbox.abuse.stage import Stage
from viper.sandbox import Prelude, Sandbox


@pytest.fixture(scope="package")
def sandbox() -> Iterator[Sandbox]:
    """One for the tests that only need to run programs."""
    with Sandbox(prelude=Prelude("tests.sandbox.toy_prelude")) as made:
        yield made


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Those that attempts run in, as they are and without their guards."""
    made = Stage(tmp_path_factory.mktemp("abuse"))
    yield made
    made.close()


@pytest.fixture(scope="module", params=["plain", "arrays"])
def either_stage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """Those of both kinds of processes: one that maps arrays, and one that does not."""
    arrays = {"image0": np.zeros((60, 100, 3), np.uint8)} if request.param == "arrays" else None
    made = Stage(tmp_path_factory.mktemp("abuse"), arrays)
    yield made
    made.close()
