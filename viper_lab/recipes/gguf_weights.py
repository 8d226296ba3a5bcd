"""Writes the weights of a network as one GGUF file of few bits a weight, which the product loads.

The format and its block quantisation are the package ``gguf``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


def save_gguf(model: Any, file: Path, *, layers: str = "Q5_1", embeddings: str = "Q8_0") -> None:
    """Write the weights under their names; those that others are tied to only once.

    Args:
        layers: block format of the matrices of all layers, in the words of the package.
        embeddings: the same of the embeddings; vectors stay in float32.
    """
    from gguf import GGMLQuantizationType, GGUFWriter, quantize

    writer = GGUFWriter(str(file), model.config.model_type)
    for name, value in model.state_dict().items():
        if name in model.all_tied_weights_keys:
            continue
        matrix = value.float().numpy()
        kind = "F32" if matrix.ndim == 1 else embeddings if "embed" in name else layers
        of_kind = GGMLQuantizationType[kind]
        writer.add_tensor(name, quantize(matrix, of_kind), raw_dtype=of_kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
