"""Runs ``viper`` as if none of the packages of extras that take much room were installed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from viper.errors import EXTRA_OF

# A light installation brings ``mcp``; its extra only asks for a newer version.
HEAVY = set(EXTRA_OF) - {"mcp"}


class Blocker:
    """Finder that makes packages look as if they were not installed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] in HEAVY:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


if __name__ == "__main__":
    sys.meta_path.insert(0, Blocker())
    from viper.__main__ import main

    main()
