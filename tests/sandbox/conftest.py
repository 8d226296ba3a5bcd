"""One warm sandbox for the tests that only need to run programs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from viper.sandbox import Prelude, Sandbox


@pytest.fixture(scope="package")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(prelude=Prelude("tests.sandbox.toy_prelude")) as made:
        yield made
