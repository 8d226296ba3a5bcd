"""Low-rank adapters (LoRA) added to a language model that was loaded without them.

An adapter is a folder as the ``peft`` library writes it, ``adapter_config.json`` beside
``adapter_model.safetensors``. Its product is added into the weights, so the model runs as
fast as the base and every part of the backend sees an ordinary model. Pickled weights are
rejected. A folder may name in ``base.json`` the base that it was trained on. Another base is
rejected, because an adapter fits one set of weights only.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

from viper.errors import ModelError
from viper.models.hub import published_as
from viper.models.libraries import torch
from viper.models.loading import load_errors, model_id, weights_hash

# Names that the ``peft`` library gives.
ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"

# Our own file beside them, because ``peft`` names the base and does not identify its weights.
BASE = "base.json"

# Other kinds add layers, which the decoding engine does not know.
_KIND = "LORA"


def with_adapter(model: Any, folder: str | Path, base: str | Path, *, merged: bool = True) -> Any:
    """Return the model with an adapter added into its weights.

    Args:
        model: a causal language model of the transformers library, as loaded from ``base``.
        folder: of the adapter.
        base: source of the model; compared with the base that the adapter names.
        merged: False keeps the adapter beside the frozen weights, ready for further training.

    Raises:
        ModelError: the folder holds no adapter, one of another kind, or one for another base.
    """
    folder, base = Path(folder), Path(base)
    if not (folder / ADAPTER_CONFIG).is_file():
        raise ModelError(f"{folder}: no {ADAPTER_CONFIG} there; an adapter is a folder with one")
    if not (folder / ADAPTER_WEIGHTS).is_file():
        raise ModelError(
            f"{folder}: no {ADAPTER_WEIGHTS} there; weights of other formats are not loaded, "
            "save them as safetensors"
        )
    kind = _read(folder / ADAPTER_CONFIG).get("peft_type")
    if kind != _KIND:
        raise ModelError(f"{folder}: an adapter of kind {kind!r}; only {_KIND} can be added in")
    if (folder / BASE).is_file() and base.is_dir():
        stated = _read(folder / BASE)
        if stated.get("sha256") != weights_hash(base):
            raise ModelError(
                f"{folder}: trained over other weights ({stated.get('base')}) than those of "
                f"{base}; train it anew over these, or load it over its own base"
            )
    from peft import PeftModel
    from safetensors import SafetensorError

    try:
        with load_errors("an adapter", folder), warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore", FutureWarning)  # about names inside the two libraries
            laid: Any = PeftModel.from_pretrained(
                model,
                str(folder),
                is_trainable=not merged,
                local_files_only=True,
                use_safetensors=True,
            )
            return laid.merge_and_unload(safe_merge=True).eval() if merged else laid
    except SafetensorError as error:
        raise ModelError(f"{folder}: {ADAPTER_WEIGHTS} cannot be read ({error})") from None


def language_model_id(folder: Path, adapter: str | Path | None = None) -> str:
    """Return ``hub id@commit`` for a folder of the hub's cache, else ``folder@hash of its
    safetensors``.

    An adapter appends ``+folder@hash``.
    """
    if adapter is not None:
        own = Path(adapter)
        return f"{language_model_id(folder)}+{own.name}@{weights_hash(own)[:12]}"
    is_published = published_as(folder) is not None
    return model_id(folder) if is_published else f"{folder.name}@{weights_hash(folder)[:12]}"


def state_base(folder: Path, base: Path) -> None:
    """Write into an adapter's folder which base it was trained on."""
    text = json.dumps({"base": base.name, "sha256": weights_hash(base)}, indent=2)
    (folder / BASE).write_text(f"{text}\n", encoding="utf-8")


def _read(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{file}: cannot be read as JSON ({error})") from None
    if not isinstance(content, dict):
        raise ModelError(f"{file}: expected a JSON object")
    return content
