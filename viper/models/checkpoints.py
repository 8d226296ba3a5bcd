"""Facts about published checkpoints: size, memory, licence, each with its source.

They are looked up in ``checkpoints.toml`` and used before a checkpoint is on this disk. A folder is
measured instead.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from viper.record import read_toml, record_from_json

# Beside this file, so that facts and their readers are one package's.
CATALOGUE = Path(__file__).with_suffix(".toml")

# By precision; quantised weights include their scales.
BYTES_PER_PARAMETER = {"float32": 4.0, "float16": 2.0, "bfloat16": 2.0, "8bit": 1.06, "4bit": 0.56}


@dataclass(frozen=True, kw_only=True)
class CheckpointFacts:
    """Facts about one checkpoint.

    Attributes:
        parameters: number of parameters.
        disk_gb: size of the downloaded files in 10^9 bytes.
        licence: name of the licence.
        source: where these facts come from.
        gated: whether the hub asks to accept the licence.
        kv_kib_per_token: keys and values of one token in 16 bits, in KiB; 0 without a language
            model.
        activations_gib: most memory beside weights, keys and values in one forward pass.
        unquantized: number of parameters that stay in 16 bits in a quantised model, those of the
            embeddings and the output layer.
    """

    parameters: float
    disk_gb: float
    licence: str
    source: str
    gated: bool = False
    kv_kib_per_token: float = 0.0
    activations_gib: float = 0.0
    unquantized: float = 0.0


@cache
def catalogue() -> dict[str, CheckpointFacts]:
    """Return the facts of every checkpoint in the catalogue, by its name in a profile."""
    tables = read_toml(CATALOGUE)[1].items()
    return {name: record_from_json(CheckpointFacts, table, strict=True) for name, table in tables}


def facts_of(model: str | None) -> CheckpointFacts | None:
    """Return the facts of a model as a profile names it, or None if the catalogue lacks it."""
    return catalogue().get(model or "")


def parameters_of(source: str | Path) -> float:
    """Return the number of parameters of a folder's weights or of a known checkpoint, or 0.

    In a folder of several networks, those of its subfolders count.
    """
    folder, total = Path(source), 0
    if not folder.is_dir():
        facts = facts_of(str(source))
        return 0.0 if facts is None else facts.parameters
    for path in list(folder.glob("*.safetensors")) or folder.rglob("*.safetensors"):
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            with path.open("rb") as file:
                header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            header.pop("__metadata__", None)
            total += sum(math.prod(entry["shape"]) for entry in header.values())
    for path in () if total else folder.glob("*.gguf"):
        with suppress(ImportError, OSError, ValueError, LookupError):
            from gguf import GGUFReader

            total += sum(int(tensor.n_elements) for tensor in GGUFReader(path).tensors)
    return float(total)


def weights_gib(source: str | Path, precision: str) -> float:
    """Return the memory in GiB of a model's weights in a precision of
    :data:`BYTES_PER_PARAMETER`; 0 if the model is unknown.
    """
    facts = facts_of(str(source)) if precision.endswith("bit") else None
    kept = facts.unquantized if facts else 0.0
    quantized = (parameters_of(source) - kept) * BYTES_PER_PARAMETER[precision]
    return (quantized + kept * BYTES_PER_PARAMETER["bfloat16"]) / 2**30
