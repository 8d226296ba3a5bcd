"""The pictures that judge, of sets without a split of their own."""

from __future__ import annotations

import hashlib


def is_held_back(picture_id: int | str) -> bool:
    """Return whether a picture is one of the third that judges and that nothing is learned from.

    Depends on the picture's id in its annotation file alone: SHA-256, a multiple of 3.
    """
    return int.from_bytes(hashlib.sha256(str(picture_id).encode()).digest()) % 3 == 0
