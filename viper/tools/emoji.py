"""Pictures of emoji by name, from the files of the package ``augly`` (extra: ``emoji``).

Source: VisProg (Gupta and Kembhavi 2023) and CLOVA (Gao et al. 2024, table 2) take them from there
as well, so that their names are those of published programs. Nothing of the package is imported:
only its pictures are read.
"""

from __future__ import annotations

import difflib
import importlib.util
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from viper.errors import MissingExtraError, ToolError

EMOJIS: Mapping[str, str] = {
    "smiling_face": "a smiling face",
    "cat_face": "a cat face",
    "panda": "a panda",
    "ghost": "a ghost",
    "crown": "a crown",
    "star": "a star",
}
"""The emoji that instructions name, and how they do."""


def emoji_picture(name: str) -> Any:
    """The emoji of that name as a square picture of Pillow's, RGBA.

    Names are words joined by underscores, as ``face_with_tongue``; spaces, hyphens, capitals
    and colons around are taken as well.

    Raises:
        ToolError: no emoji has that name; names the nearest.
        MissingExtraError: the package is not installed.
    """
    from PIL import Image

    known = emoji_files()
    wanted = re.sub(r"[\s_-]+", "_", name.strip().strip(":").lower()).strip("_")
    if wanted not in known:
        near = difflib.get_close_matches(wanted[:60], known, n=3, cutoff=0.4)
        nearest = ", ".join(near) or "face_with_tongue, smiling_face, cat_face"
        raise ToolError(f"no emoji is called {name[:60]!r}; nearest: {nearest}")
    with Image.open(known[wanted], formats=("PNG",)) as picture:
        return picture.convert("RGBA")


@cache
def emoji_files() -> Mapping[str, Path]:
    """The file of every emoji by name.

    Raises:
        MissingExtraError: the package is not installed.
    """
    found = importlib.util.find_spec("augly")
    if found is None or found.origin is None:
        raise MissingExtraError("augly", "emoji", needed_for="EMOJI")
    folder = Path(found.origin).parent / "assets" / "twemojis"
    return {path.stem: path for path in sorted(folder.glob("*/*.png"))}
