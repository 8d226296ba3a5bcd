"""The name by which caches and reports know a model."""

from __future__ import annotations

import hashlib
from pathlib import Path


def model_id(source: str | Path) -> str:
    """``folder@hash`` for a local folder, else the source itself (a checkpoint's public name).

    The hash is the first 12 hexadecimal digits of the SHA-256 over the folder's
    safetensors files in order of name, so two trainings never share a cache entry. Where
    it holds none itself (a pipeline of several networks), those of its folders count.
    """
    folder = Path(source)
    if not folder.is_dir():
        return str(source)
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")) or sorted(folder.rglob("*.safetensors")):
        digest.update(path.read_bytes())
    return f"{folder.resolve().name}@{digest.hexdigest()[:12]}"
