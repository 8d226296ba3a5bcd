"""Warm sandboxes that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

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
