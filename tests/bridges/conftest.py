"""The reasoner of episodes; a skip fails where `make test-bridges` installed the package."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from viper import Reasoner


@pytest.fixture(scope="module")
def made() -> Iterator[Reasoner]:
    from tests.bridges import episodes

    with episodes.reasoner() as reasoner:
        yield reasoner


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    report = yield
    if report.skipped and os.environ.get("VIPER_BRIDGE"):
        report.outcome, report.longrepr = "failed", f"{item.nodeid} was skipped"
    return report
