"""A skipped test of a bridge fails where `make test-bridges` installed its package."""

from __future__ import annotations

import os

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    report = yield
    if report.skipped and os.environ.get("VIPER_BRIDGE"):
        report.outcome, report.longrepr = "failed", f"{item.nodeid} was skipped"
    return report
