"""viper: visual reasoning by programs.

A language model writes a Python program against an abstract API, a sandbox runs it, and vision
models answer its calls. Every public name is importable from here; heavy packages are imported only
when they are used.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing typing would cost every command some milliseconds
if TYPE_CHECKING:
    from typing import Any

    from viper.api.image_patch import ImagePatch as ImagePatch
    from viper.api.registry import routine as routine
    from viper.api.video_segment import VideoSegment as VideoSegment
    from viper.profiles import load_profile as load_profile
    from viper.reasoner import Reasoner as Reasoner
    from viper.reasoner import RunOptions as RunOptions
    from viper.run_result import RunResult as RunResult

__version__ = "0.1.0"

_PUBLIC = {
    "ImagePatch": "viper.api.image_patch",
    "Reasoner": "viper.reasoner",
    "RunOptions": "viper.reasoner",
    "RunResult": "viper.run_result",
    "VideoSegment": "viper.api.video_segment",
    "load_profile": "viper.profiles",
    "routine": "viper.api.registry",
}

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        if sys.platform == "win32":
            from viper.errors import NOT_ON_WINDOWS

            raise ImportError(NOT_ON_WINDOWS)
        import importlib

        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'viper' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
