"""Names of folders, made of the names of what lies in them."""

from __future__ import annotations

import re


def slug(name: str) -> str:
    """A name for a folder."""
    return re.sub(r"[^a-z0-9.+]+", "-", name.lower()).strip("-")
