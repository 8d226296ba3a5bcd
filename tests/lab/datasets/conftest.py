from __future__ import annotations

from tests.data.conftest import read

__all__ = ["read"]
