"""One reasoner for the tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from viper.profiles import load_profile
from viper.reasoner import Reasoner


@pytest.fixture(scope="package")
def reasoner() -> Iterator[Reasoner]:
    with Reasoner(load_profile("embedded"), preload=False) as reasoner:
        yield reasoner
