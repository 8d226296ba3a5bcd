"""Cache of trained prompts in a folder, so that resumed learning trains nothing again.

Each training has one file, named by a hash of everything it depends on and written in one step. A
file that cannot be read counts as missing, and its training is repeated.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from viper.errors import StoreError, UsageError
from viper.models.vision.soft_prompts import SoftPrompt
from viper.models.vision.stored_prompts import Evidence, arrays_of
from viper.record import record_from_json
from viper.schema import to_json
from viper.storage.files import read_plain_file, write_file
from viper.storage.versioned import MAX_FILE_BYTES
from viper.tuning.soft_prompts.base import TrainedPrompt

_RECORD = "record"
_SUFFIX = ".safetensors"


class TrainedFiles(MutableMapping[tuple[Any, ...], Sequence[TrainedPrompt]]):
    """A :data:`viper.tuning.tool_training.Memory` that outlives the process.

    Args:
        folder: folder used only by this cache; created if missing.

    Raises (when something is stored):
        StoreError: the disk is full, or another error; an earlier file stays unchanged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getitem__(self, key: tuple[Any, ...]) -> Sequence[TrainedPrompt]:
        try:
            return _decode(read_plain_file(self._path(key), MAX_FILE_BYTES), repr(key))
        except (StoreError, UsageError):
            raise KeyError(key) from None

    def __setitem__(self, key: tuple[Any, ...], value: Sequence[TrainedPrompt]) -> None:
        write_file(self._path(key), _encode(value, repr(key)))

    def __delitem__(self, key: tuple[Any, ...]) -> None:
        try:
            self._path(key).unlink()
        except FileNotFoundError:
            raise KeyError(key) from None

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        raise TypeError("files do not tell their keys; ask for one")

    def __len__(self) -> int:
        return sum(1 for _ in self.folder.glob(f"*{_SUFFIX}"))

    def forget(self) -> None:
        """Delete all files, because the pool now holds what was trained."""
        for path in self.folder.glob(f"*{_SUFFIX}"):
            path.unlink(missing_ok=True)

    def _path(self, key: tuple[Any, ...]) -> Path:
        return self.folder / (hashlib.sha256(repr(key).encode()).hexdigest() + _SUFFIX)


def _encode(prompts: Sequence[TrainedPrompt], key: str) -> bytes:
    import numpy as np
    from safetensors.numpy import save

    arrays = {
        f"{at}.{name}": np.ascontiguousarray(array)
        for at, trained in enumerate(prompts)
        for name, array in arrays_of(trained.prompt).items()
    }
    record = {
        "key": key,
        "trained": [
            {"evidence": to_json(trained.evidence), "why": trained.why} for trained in prompts
        ],
    }
    arrays[_RECORD] = np.frombuffer(json.dumps(record).encode(), np.uint8)
    return save(arrays)


def _decode(content: bytes, key: str) -> list[TrainedPrompt]:
    """Read the trained prompts of a file.

    Raises:
        StoreError: the file has another format or another key.
        UsageError: its arrays are not soft prompts.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(content)
        record = json.loads(arrays[_RECORD].tobytes())
        if record["key"] != key:
            raise StoreError("a lesson of another key")
        prompts = []
        for at, trained in enumerate(record["trained"]):
            prompt = SoftPrompt(arrays[f"{at}.feature"], arrays[f"{at}.prompt"])
            arrays_of(prompt)
            prompts.append(
                TrainedPrompt(
                    prompt, record_from_json(Evidence, trained["evidence"]), str(trained["why"])
                )
            )
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        raise StoreError(f"no lesson: {error}") from None
    return prompts
