"""Packages of other tools, which `make test-bridges` installs in environments of their own."""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest


def need(package: str, bridge: str) -> Any:
    """Return a package; without it skip the module, or fail where `make test-bridges` runs it."""
    if os.environ.get("VIPER_BRIDGE") == bridge:
        return importlib.import_module(package)
    return pytest.importorskip(package, reason=f"{bridge} is not installed; run: make test-bridges")
